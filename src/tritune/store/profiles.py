"""Profile files of the twin: written whole or not at all; read with a sentence for every damage."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from tritune.errors import TrituneError, UsageError
from tritune.twin.ask.saved import SCHEMA_VERSION, SavedProfile


def write_profile(path: Path, saved: SavedProfile, *, force: bool = False) -> None:
    """Raises UsageError (file-exists) without `force`, TrituneError (file-not-writable)."""
    if path.exists() and not force:
        raise UsageError(f"{path} exists", slug="file-exists", hint="Add --force to overwrite it.")
    beside = path.with_name(f".{path.name}.partial")
    try:
        beside.write_bytes(msgspec.json.format(msgspec.json.encode(saved), indent=1) + b"\n")
        os.replace(beside, path)  # noqa: PTH105 - one step, over an existing file as well
    except OSError as error:
        raise TrituneError(f"{path} cannot be written: {error.strerror}", slug="file-not-writable") from error


def read_profile(path: Path) -> SavedProfile:
    """Unknown fields are ignored. Raises UsageError: bad-profile (none, or none of ours), profile-newer."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise _bad(path, error.strerror or str(error)) from error
    try:
        value: Any = msgspec.json.decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _bad(path, f"it is no JSON ({error})") from error
    if not isinstance(value, dict) or "profile" not in value:
        raise _bad(path, "it has no field `profile`")
    versions = [value.get("schema_version", SCHEMA_VERSION)]
    versions += [value["profile"].get("schema_version", 1)] if isinstance(value["profile"], dict) else []
    if any(isinstance(version, int) and version > SCHEMA_VERSION for version in versions):
        raise UsageError(
            f"{path} was written by a newer tritune: schema {max(versions)}, and this one reads "
            f"{SCHEMA_VERSION}",
            slug="profile-newer",
            hint="Update tritune, or calibrate again with `tritune simulate RUN --save-profile FILE`.",
        )
    try:
        saved = msgspec.json.decode(content, type=SavedProfile)
    except msgspec.MsgspecError as error:
        raise _bad(path, str(error)) from error
    times = saved.profile.service_ns
    if not times or any(size < 1 or not 0 <= time.ns < float("inf") for size, time in times.items()):
        raise _bad(path, "it has no service times, or one that is negative")
    return saved


def _bad(path: Path, why: str) -> UsageError:
    return UsageError(
        f"{path} is no profile: {why}",
        slug="bad-profile",
        hint="Write one with `tritune simulate RUN --save-profile FILE`.",
    )
