"""Model control over gRPC: is it allowed, and a load whose failure is said in one sentence.

Never over HTTP: an HTTP load blocks inference on the same thread for as long as it takes (semantics 4.3).
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from tritune.errors import TrituneError
from tritune.model.facts import ControlMode, IndexEntry
from tritune.triton.grpc import Grpc, GrpcError
from tritune.triton.model_errors import first_line, unknown_model
from tritune.units import NS_PER_S, format_duration

# What a server that may not load says, in whichever words: it refuses before it looks for the model.
_REFUSING_CODES = ("UNAVAILABLE", "PERMISSION_DENIED", "UNAUTHENTICATED", "UNIMPLEMENTED")
_GENERIC = "failed to poll from model repository"


def control_mode(grpc: Grpc) -> ControlMode:
    """Asked by loading a model that cannot exist; nothing is changed, the server's log gains one line.

    Explicit mode looks for the model and answers INTERNAL ("failed to poll from model repository"); the
    modes none and poll answer UNAVAILABLE ("... not allowed if polling is enabled") without looking (both
    measured on 24.10). A server that restricts the call to others refuses likewise and counts as fixed.
    """
    try:
        grpc.load(f"tritune-probe-{secrets.token_hex(8)}", None, deadline_s=10)
    except GrpcError as error:
        if error.slug == "grpc-refused" and error.code in _REFUSING_CODES:
            return "fixed"
        if error.slug != "grpc-refused":
            raise
    return "explicit"


def load(grpc: Grpc, url: str, model: str, config_json: str | None, *, deadline_s: float) -> None:
    """Load `model`, with a complete configuration instead of its file's where one is given.

    Returns when the server says it is done. Raises TrituneError with the slug load-not-allowed,
    load-refused (the configuration was not accepted), load-failed (it was, and the model did not come up;
    the old one keeps serving) or load-timeout (the server goes on with it: measured, it still takes effect).
    """
    try:
        grpc.load(model, config_json, deadline_s=deadline_s)
    except GrpcError as error:
        raise load_error(error, url, model, deadline_s) from error


def load_error(error: GrpcError, url: str, model: str, deadline_s: float) -> TrituneError:
    """The sentence for a load that failed; the error itself where it is about the connection."""
    if error.slug == "server-timeout":
        return load_timeout(url, model, deadline_s)
    if error.slug != "grpc-refused":
        return error
    if _GENERIC in error.details:
        return load_refused(url, model)
    if error.code in _REFUSING_CODES:
        return load_not_allowed(url, error.details)
    return load_failed(url, model, error.details)


def load_timeout(url: str, model: str, deadline_s: float) -> TrituneError:
    """The deadline passed; the load did not end with it."""
    return TrituneError(
        f"loading '{model}' at {url} was not done after {format_duration(deadline_s * NS_PER_S)}",
        slug="load-timeout",
        hint="The server goes on with it: look at the model's configuration before you load it again.",
    )


def load_not_allowed(url: str, said: str) -> TrituneError:
    """The server does not let models be loaded over the network."""
    return TrituneError(
        f"{url} does not let models be loaded: {first_line(said)}",
        slug="load-not-allowed",
        hint="Start it with --model-control-mode=explicit and --load-model=NAME for each model it serves.",
    )


def load_refused(url: str, model: str) -> TrituneError:
    """The server would not take the configuration and keeps the reason to itself."""
    return TrituneError(
        f"{url} refused to load '{model}' and does not say why",
        slug="load-refused",
        hint=f"The reason stands only in the server's log, as an error line about '{model}'; what it served"
        " before it still serves.",
    )


def load_failed(url: str, model: str, said: str) -> TrituneError:
    """The model did not come up, with the server's reason."""
    # "load failed for model 'M': version 1 is at UNAVAILABLE state: REASON;\n"; READY where it still serves.
    reason = first_line(said.rpartition(" state: ")[2])
    return TrituneError(
        f"'{model}' did not load at {url}: {reason}",
        slug="load-failed",
        hint="A version that was serving before still serves.",
    )


def checked_model(url: str, model: str, index: Sequence[IndexEntry]) -> None:
    """Raise unknown-model before a load: the server has the same words for it as for a bad configuration."""
    if model not in {entry.name for entry in index}:
        raise unknown_model(url, model, [entry.name for entry in index])
