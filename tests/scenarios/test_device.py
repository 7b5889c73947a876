"""The synthetic device without a server: its formula, sharing and noise. Triton's module is pretended."""

from __future__ import annotations

import importlib.util
import json
import sys
import tempfile
import types
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

MS = 1_000_000


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    pretended = types.ModuleType("triton_python_backend_utils")
    pretended.TritonModelException = ValueError  # type: ignore[attr-defined]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "triton_python_backend_utils", pretended)
        patch.setattr("tempfile.tempdir", str(tmp_path_factory.mktemp("device")))
        spec = importlib.util.spec_from_file_location(
            "device_model", str(files("tritune.scenarios") / "device" / "model.py")
        )
        assert spec is not None
        assert spec.loader is not None
        loaded = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(loaded)
        yield loaded


def instance(module: Any, max_batch_size: int = 8, name: str = "m_0_0", **parameters: object) -> Any:
    model = module.TritonPythonModel()
    config = {
        "name": "m",
        "max_batch_size": max_batch_size,
        "parameters": {k: {"string_value": str(v)} for k, v in parameters.items()},
    }
    model.initialize(
        {"model_config": json.dumps(config), "model_instance_name": name, "model_repository": "/r/m"}
    )
    return model


@given(items=st.integers(1, 64), base=st.floats(0, 20), per_item=st.floats(0, 5))
def test_the_linear_part(module: Any, items: int, base: float, per_item: float) -> None:
    model = instance(module, base_ms=base, per_item_ms=per_item)
    assert model.alone_ns(items) == pytest.approx((base + per_item * items) * MS)


def test_beyond_the_knee_it_is_super_linear(module: Any) -> None:
    model = instance(module, base_ms=9, per_item_ms=1, knee=8, spill_ms=20, per_item2_ms=0.05)
    assert [model.alone_ns(b) / MS for b in (1, 8, 9, 16)] == pytest.approx([10, 17, 38.05, 48.2])


def test_others_that_run_stretch_an_execution_until_they_end(module: Any) -> None:
    one, two = module.Device("shared"), module.Device("shared")
    assert one.begin(1000, 100, contention=0.5) == 1100
    assert two.begin(1050, 100, contention=0.5) == 1200  # one other
    assert one.begin(1060, 100, contention=0.5) == 1260  # two others
    assert two.begin(1100, 100, contention=0.5) == 1300  # the first has ended in that instant
    assert one.begin(5000, 100, contention=0.5) == 5100  # all have, though nobody cleaned up


def test_devices_of_other_names_do_not_disturb(module: Any) -> None:
    module.Device("a").begin(1000, 1000, contention=1)
    assert module.Device("b").begin(1000, 100, contention=1) == 1100


def test_a_full_table_still_counts(module: Any) -> None:
    device = module.Device("full")
    for _ in range(module._SLOTS):
        device.begin(0, 10**9, contention=0)
    assert device.begin(1, 100, contention=1) == 1 + 100 * (1 + module._SLOTS)


def test_noise_keeps_the_mean_and_is_the_instances_own(module: Any) -> None:
    first, again, other = (
        instance(module, base_ms=10, noise_cv=0.2, name=name) for name in ("m_0_0", "m_0_0", "m_0_1")
    )
    draws = [first.alone_ns(1) / MS for _ in range(20_000)]
    mean = sum(draws) / len(draws)
    spread = (sum((x - mean) ** 2 for x in draws) / len(draws)) ** 0.5
    assert mean == pytest.approx(10, rel=0.01)
    assert spread / mean == pytest.approx(0.2, rel=0.05)
    assert again.alone_ns(1) / MS == draws[0]
    assert other.alone_ns(1) / MS != draws[0]


def test_an_engine_has_its_limit(module: Any) -> None:
    assert instance(module, max_batch_size=4, engine_max_batch_size=4)
    with pytest.raises(ValueError, match=r"max_batch_size 8 is more than the engine was built for \(4\)"):
        instance(module, max_batch_size=8, engine_max_batch_size=4)


def test_the_device_file_is_the_users_own(module: Any) -> None:
    module.Device("private")
    [path] = Path(tempfile.gettempdir()).glob("tritune-device-*-private")
    assert path.stat().st_mode & 0o777 == 0o600
