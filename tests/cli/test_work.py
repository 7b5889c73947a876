"""Work on all cores: in order, counted, and given up at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from tritune.cli.work import ParallelWork


def test_results_come_in_the_order_of_the_items() -> None:
    found = ParallelWork(4).each(lambda n: (time.sleep(0.001 * (n % 3)), n * n)[1], range(50))
    assert found == [n * n for n in range(50)]
    assert ParallelWork().each(lambda n: n, []) == []


def test_several_threads_work_and_the_first_item_is_done_before() -> None:
    seen: list[tuple[int, str]] = []
    both = threading.Barrier(2, timeout=5)

    def one(n: int) -> int:
        seen.append((n, threading.current_thread().name))
        if n:
            both.wait()
        return n

    assert ParallelWork(2).each(one, range(3)) == [0, 1, 2]
    assert seen[0] == (0, threading.current_thread().name)
    assert len({name for _, name in seen}) == 3


def test_a_failure_is_raised_and_the_rest_left_undone() -> None:
    done: list[int] = []

    def one(n: int) -> int:
        if n == 3:
            raise ValueError("no")
        time.sleep(0.002)
        done.append(n)
        return n

    with pytest.raises(ValueError, match="no"):
        ParallelWork(2).each(one, range(500))
    assert len(done) < 100


def test_what_is_done_is_counted(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tritune.cli.work.PLAIN_EVERY_S", 0.0)
    ParallelWork(2).each(lambda n: n, range(40), "predictions")
    said = capsys.readouterr().err
    assert said.startswith("simulating 40 predictions\n")
    assert "2 of 40, " in said
    assert "40 of 40" not in said
    ParallelWork(2).each(lambda n: n, range(40))
    assert capsys.readouterr().err == ""


def test_ctrl_c_ends_it_at_once() -> None:
    """Pieces that still run are not waited for."""
    code = (
        "import sys, time\n"
        "from tritune.cli.work import ParallelWork\n"
        "def one(n):\n"
        "    if n: print('at work', flush=True); time.sleep(60)\n"
        "try: ParallelWork(2).each(one, range(9))\n"
        "except KeyboardInterrupt: sys.exit(130)\n"
    )
    path = {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, env=os.environ | path
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 130
