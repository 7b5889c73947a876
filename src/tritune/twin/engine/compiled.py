"""The rules and the driver compiled by numba: the same functions, the same results, hundreds of times faster.

numba is imported by the first call only, because that takes a third of a second. Machine code is kept on
disk by numba, beside the source or in the user's cache folder. NUMBA_DISABLE_JIT=1 runs all as it stands.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import cache
from types import CodeType, FunctionType
from typing import Any

from tritune.twin.engine import clients, driver, rules

# Nothing is allocated while a simulation runs, so arrays need no counting of references (_nrt); all rules
# become one function (forceinline). Together eight times faster than numba's defaults.
_FAST: dict[str, Any] = {"_nrt": False, "forceinline": True}
# Only the two `run` are called from Python; an entrance less per function halves the time to compile.
_INNER: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def compiled() -> Callable[..., None]:
    """`driver.run`, compiled; in a fresh installation its first call takes 10 to 30 s."""
    run: Callable[..., None] = _namespace()["run"]
    return run


def compiled_clients() -> Callable[..., None]:
    """`clients.run_clients`, compiled by its first call: 5 s more that loads without clients do not need."""
    run: Callable[..., None] = _namespace()["run_clients"]
    return run


@cache
def _namespace() -> dict[str, Any]:
    """All functions by name, each compiled by its first call; both entrances share the rules."""
    import numba

    namespace = _together(vars(rules), vars(driver), vars(clients))
    functions = [f for f in namespace.values() if isinstance(f, FunctionType)]
    stamp = _stamp(functions, namespace)
    for function in _callees_first(functions):
        clone = FunctionType(function.__code__, namespace, function.__name__)
        clone.__module__ = function.__module__
        # numba's files know the source file of this one function only. The stamp in their names keeps it
        # from using machine code that was made from other rules or constants.
        clone.__qualname__ = f"{function.__name__}_{stamp:08x}"
        called = function in (driver.run, clients.run_clients)
        namespace[function.__name__] = (
            _entrance(numba, clone) if called else numba.njit(**_FAST, **_INNER)(clone)
        )
    return namespace


def _together(*modules: dict[str, Any]) -> dict[str, Any]:
    """One namespace for all modules; a name of ours must mean the same in each of them."""
    together: dict[str, Any] = {}
    for names in modules:
        for name, meaning in names.items():
            if not name.startswith("__") and together.get(name, meaning) != meaning:
                raise ImportError(f"{name} means two things in the modules that are compiled")
            together[name] = meaning
    return together


def _entrance(numba: Any, function: FunctionType) -> Any:
    try:
        return numba.njit(cache=True, nogil=True, **_FAST)(function)
    except RuntimeError:  # no folder that machine code could be kept in
        return numba.njit(**_FAST)(function)


def _callees_first(functions: list[FunctionType]) -> list[FunctionType]:
    """In an order in which each function follows those it calls; the rules have no recursion."""
    by_name = {f.__name__: f for f in functions}
    ordered: dict[str, FunctionType] = {}

    def add(function: FunctionType) -> None:
        if function.__name__ not in ordered:
            for name in function.__code__.co_names:
                if name in by_name and name != function.__name__:
                    add(by_name[name])
            ordered[function.__name__] = function

    for function in functions:
        add(function)
    return list(ordered.values())


def _stamp(functions: list[FunctionType], namespace: dict[str, Any]) -> int:
    """A number that changes with the code of any function and with any constant."""
    constants = sorted((k, v) for k, v in namespace.items() if isinstance(v, int))
    return zlib.crc32("\n".join([repr(constants), *(_text(f.__code__) for f in functions)]).encode())


def _text(code: CodeType) -> str:
    return f"{code.co_name}{code.co_code.hex()}{code.co_consts!r}{code.co_names}{code.co_varnames}"
