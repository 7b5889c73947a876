"""The words that a 24.10 server was seen to use, and the sentences they become."""

from __future__ import annotations

import pytest

from tritune.model.facts import IndexEntry
from tritune.triton.control import load_error
from tritune.triton.grpc import GrpcError
from tritune.triton.model_errors import unusable

URL = "http://t:8000"
TRACE = (
    "load failed for model 'm': version 1 is at UNAVAILABLE state: Internal: RuntimeError: the weights are"
    " missing\n\nAt:\n  /models/m/1/model.py(1): <module>\n;\n"
)
IN_PLACE = (
    "load failed for model 'm': version 1 is at READY state: Invalid argument: instance group m_0 of model m"
    " has kind KIND_GPU but no GPUs are available;\n"
)


def refused(code: str, details: str, slug: str = "grpc-refused") -> GrpcError:
    return GrpcError("x", slug=slug, code=code, details=details)


@pytest.mark.parametrize(
    ("error", "slug", "said"),
    [
        (
            refused("INTERNAL", "failed to load 'm', failed to poll from model repository"),
            "load-refused",
            "does not say why",
        ),
        (
            refused("INVALID_ARGUMENT", TRACE),
            "load-failed",
            "Internal: RuntimeError: the weights are missing",
        ),
        (refused("INVALID_ARGUMENT", IN_PLACE), "load-failed", "but no GPUs are available"),
        (
            refused("UNAVAILABLE", "explicit model load / unload is not allowed if polling is enabled"),
            "load-not-allowed",
            "not allowed",
        ),
        (refused("DEADLINE_EXCEEDED", "", slug="server-timeout"), "load-timeout", "30 s"),
        (refused("UNAVAILABLE", "Socket closed", slug="server-gone"), "server-gone", "x"),
    ],
)
def test_a_load_that_failed(error: GrpcError, slug: str, said: str) -> None:
    found = load_error(error, URL, "m", 30.0)
    assert found.slug == slug
    assert said in found.message
    assert "\n" not in found.message
    assert "model.py" not in found.message


INDEX = [
    IndexEntry("classifier", "1", "READY"),
    IndexEntry("classifier", "3", "UNAVAILABLE", "unloaded"),
    IndexEntry("ranker"),
    IndexEntry("slow", "1", "LOADING"),
]


@pytest.mark.parametrize(
    ("model", "version", "slug", "said"),
    [
        ("clasifier", "", "unknown-model", "'clasifier'"),
        ("classifier", "2", "unknown-version", "no version 2"),
        ("classifier", "3", "model-not-ready", "UNAVAILABLE (unloaded)"),
        ("ranker", "", "model-not-ready", "not loaded"),
        ("slow", "1", "model-not-ready", "LOADING"),
        ("classifier", "1", "model-unreadable", "no reason given"),
    ],
)
def test_a_model_that_does_not_answer(model: str, version: str, slug: str, said: str) -> None:
    error = unusable(URL, model, version, INDEX)
    assert error.slug == slug
    assert said in error.message


def test_an_unknown_model_gets_its_neighbours_named() -> None:
    error = unusable(URL, "clasifier", "", INDEX)
    assert error.hint == "Did you mean 'classifier'? Models there: classifier, ranker, slow."
    many = [IndexEntry(f"m{i:02}") for i in range(40)]
    assert unusable(URL, "zzz", "", many).hint.endswith("m11 and 28 more.")
    assert unusable(URL, "m", "", []).hint == "The repository is empty."
