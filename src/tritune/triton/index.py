"""The repository index: which models there are, and in which state."""

from __future__ import annotations

import msgspec

from tritune.errors import TrituneError
from tritune.model.facts import IndexEntry


def from_json(body: bytes, *, url: str) -> tuple[IndexEntry, ...]:
    """The body of `POST /v2/repository/index`; a model that was never loaded has a name and nothing else.

    Raises TrituneError(bad-reply) where the body is something else.
    """
    try:
        return msgspec.json.decode(body, type=tuple[IndexEntry, ...])
    except msgspec.MsgspecError as error:  # also a body that is no UTF-8
        raise TrituneError(
            f"the repository index of {url} cannot be read: {error}", slug="bad-reply"
        ) from error
