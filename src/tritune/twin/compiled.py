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

from tritune.twin import driver, rules

# Nothing is allocated while a simulation runs, so arrays need no counting of references (_nrt); all rules
# become one function (forceinline). Together eight times faster than numba's defaults.
_FAST: dict[str, Any] = {"_nrt": False, "forceinline": True}
# Only `run` is called from Python; leaving the others without an entrance halves the time to compile.
_INNER: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


@cache
def compiled() -> Callable[..., None]:
    """`driver.run`, compiled; in a fresh installation its first call takes 10 to 30 s."""
    import numba

    namespace: dict[str, Any] = {**vars(rules), **vars(driver)}
    functions = [f for f in namespace.values() if isinstance(f, FunctionType)]
    stamp = _stamp(functions, namespace)
    for function in _callees_first(functions):
        clone = FunctionType(function.__code__, namespace, function.__name__)
        clone.__module__ = function.__module__
        # numba's files know the source file of this one function only. The stamp in their names keeps it
        # from using machine code that was made from other rules or constants.
        clone.__qualname__ = f"{function.__name__}_{stamp:08x}"
        namespace[function.__name__] = (
            _entrance(numba, clone) if function is driver.run else numba.njit(**_FAST, **_INNER)(clone)
        )
    run: Callable[..., None] = namespace["run"]
    return run


def _entrance(numba: Any, function: FunctionType) -> Any:
    try:
        return numba.njit(cache=True, **_FAST)(function)
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
