"""The command line: verbs by name, loaded only when called; errors become one sentence and an exit code."""

from __future__ import annotations

import signal
import sys
import traceback
from collections.abc import Sequence
from types import FrameType

from cyclopts import App, CycloptsError

from tritune import __version__
from tritune.errors import ExitCode, TrituneError

app = App(
    name="tritune",
    help="Find out why a Triton deployment's tail latency explodes, and fix it with evidence.",
    version=__version__,
    default_parameter=None,
    suppress_keyboard_interrupt=False,  # it ends in a sentence of ours, below
)
for _verb, _help in (
    ("demo", "The main job on a real Triton on this machine, from an exploded p99 to a proven diff."),
    ("diagnose", "Say where the time goes and what is wrong; reads only."),
    ("load", "Load a model; report latency, errors by kind, and batch sizes."),
    ("simulate", "Predict latency, batch sizes and the knee of other settings from one run; reads only."),
    ("tune", "Change one thing at a time until the SLO holds; undo what does not help."),
    ("restore", "Serve the original configuration again."),
    ("report", "Show a run again: text, Markdown, JSON, or one HTML page."),
):
    app.command(f"tritune.cli.{_verb}:{_verb}", name=_verb, help=_help)
app.command(
    "tritune.cli.server:app", name="server", help="A real Triton on this machine: start, status, stop."
)


class Terminated(BaseException):
    """SIGTERM or SIGHUP came: everything is put back on the way out."""


def run(argv: Sequence[str]) -> int:
    """Run one command and return its exit code; nothing but a sentence reaches the user on failure."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _terminate)
    try:
        result = app(list(argv), exit_on_error=False, print_error=False, result_action="return_value")
    except CycloptsError as error:
        return _say(str(error).strip(), "Run the same command with --help.", ExitCode.USAGE)
    except TrituneError as error:
        return _say(f"{error.message} [{error.slug}]", error.hint, error.exit_code)
    except KeyboardInterrupt:
        return _say("interrupted", "", ExitCode.INTERRUPTED)
    except Terminated:
        return _say("terminated", "", ExitCode.TERMINATED)
    except BrokenPipeError:
        return ExitCode.FAILED
    except Exception:  # noqa: BLE001 - the last door: a defect of ours must still end in a sentence
        return _internal()
    return int(result) if isinstance(result, int) else ExitCode.OK


def _terminate(_number: int, _frame: FrameType | None) -> None:
    raise Terminated


def _say(message: str, hint: str, code: ExitCode) -> int:
    sys.stderr.write(f"error: {message}\n")
    if hint:
        sys.stderr.write(f"hint: {hint}\n")
    return code


def _internal() -> int:
    """A defect of ours: its details go to a file, the user gets a sentence."""
    from tritune.places import state_folder

    kind = sys.exc_info()[0]
    name = kind.__name__ if kind else "error"
    try:
        path = state_folder() / "last-error.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(traceback.format_exc())
        where = f"details are in {path}"
    except OSError:
        where = "its details could not be written"
    return _say(
        f"tritune has a defect ({name}); {where}", "Please report it with that file.", ExitCode.FAILED
    )
