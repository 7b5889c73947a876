"""What must be true before a model is reloaded again and again (interfaces.md, Safety). Reads only."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_address

import msgspec

from tritune.errors import TrituneError, UsageError
from tritune.model.config import ServingConfig
from tritune.model.facts import IndexEntry
from tritune.model.server import ModelKey, Snapshot, window
from tritune.verbs.ports import Clock, ModelFolder, Server

QUIET_S = 1.0
FOREIGN_SHARE = 0.01


class Served(msgspec.Struct, frozen=True):
    """The model as it is served before anything is changed."""

    versions: tuple[str, ...]
    config_json: str
    config: ServingConfig


def is_loopback(host: str) -> bool:
    """Whether an address stays on this machine."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.rstrip(".").lower() == "localhost"


def require_loopback_or(allowed: bool, host: str, flag: str, what: str) -> None:
    """Refuse to `what` on another machine's server unless its flag was given (safety 1)."""
    if not allowed and not is_loopback(host):
        raise UsageError(
            f"{host} is not this machine, and {what} it needs your word",
            slug="not-loopback",
            hint=f"Add {flag} if this server may be {what.split()[0]} now; diagnose needs no flag.",
        )


def served(server: Server, model: str, view: Callable[[str], ServingConfig], version: str = "") -> Served:
    """The ready versions and the effective configuration; fails where the model is not ready."""
    config_json = server.effective_config(model, version)
    versions = ready_versions(server.index(), model)
    if not versions:
        server.metadata(model, version)  # says in one sentence why it is not ready
        raise TrituneError(
            f"no version of '{model}' is ready", slug="model-not-ready", hint="See the server's log."
        )
    return Served(versions, config_json, view(config_json))


def ready_versions(index: tuple[IndexEntry, ...], model: str) -> tuple[str, ...]:
    """The versions of a model that are READY, in numeric order."""
    found = {entry.version for entry in index if entry.name == model and entry.state == "READY"}
    return tuple(sorted(found, key=lambda v: (len(v), v)))


def refuse_unsafe_models(
    model: str, now: Served, others: dict[str, ServingConfig], *, caps_batch: bool
) -> None:
    """Refuse what cannot be tuned by reloading: several served versions, sequences, ensembles (safety 4)."""
    if len(now.versions) > 1:
        raise TrituneError(
            f"'{model}' serves the versions {', '.join(now.versions)} at once",
            slug="several-versions",
            hint="Tune one at a time: serve a single version, or tune a copy under another name.",
        )
    if now.config.sequence_batching:
        raise TrituneError(
            f"'{model}' uses sequence_batching: a reload breaks sequences that are under way",
            slug="sequence-batching",
            hint="Use `tritune diagnose`; change such a model in a maintenance window.",
        )
    if now.config.ensemble_steps:
        raise TrituneError(
            f"'{model}' is an ensemble: it has no queue and no batches of its own",
            slug="ensemble",
            hint=f"Tune the step that owns the time: {', '.join(now.config.ensemble_steps)}.",
        )
    users = [name for name, config in others.items() if model in config.ensemble_steps]
    if users and caps_batch:
        raise TrituneError(
            f"'{model}' is a step of the loaded ensemble '{users[0]}': another max_batch_size would break it",
            slug="ensemble-step",
            hint="Leave that stage out with --stages delay,plain,preferred,instances.",
        )


def refuse_foreign_traffic(server: Server, clock: Clock, key: ModelKey) -> None:
    """Refuse while somebody else uses the model (safety 4): asked for one second, while we send nothing."""
    before = server.statistics()
    clock.sleep(QUIET_S)
    seen = window(before, server.statistics(), key)
    count = 0 if seen is None else seen.counters.success.count + seen.counters.fail.count
    if count:
        raise TrituneError(
            f"'{key.model}' is in use: {count} requests in {QUIET_S:g} s that are not ours",
            slug="foreign-traffic",
            hint="Tune a replica that gets no traffic; on this one, `tritune diagnose` only reads.",
        )


def foreign_share(before: Snapshot, after: Snapshot, key: ModelKey, ours: int) -> float:
    """The share of a model's finished requests that we did not send, over one cell; 0 where unknown."""
    seen = window(before, after, key)
    if seen is None or seen.reset:
        return 0.0
    total = seen.counters.success.count + seen.counters.fail.count
    return max(0, total - ours) / total if total else 0.0


def refuse_unsafe_folder(folder: ModelFolder | None, config: ServingConfig, *, shared_ok: bool) -> None:
    """Refuse where a load would deploy what nobody asked for (safety 2) or somebody else's repository (4)."""
    if folder is None:
        return
    file = folder.config()
    if folder.on_network() and not shared_ok:
        raise TrituneError(
            f"the repository of {folder.path} lies on a network file system and may be shared",
            slug="shared-repository",
            hint="If no other server loads from it, add --shared-repository.",
        )
    newer = folder.changed_since_load()
    if newer:
        raise TrituneError(
            f"{newer} is newer than the server's process: a trial would deploy it",
            slug="newer-files",
            hint="Restart the server first; or, if it was loaded since, add --newer-files-ok.",
        )
    if file is None:
        return
    if name := _difference(file, config):
        raise TrituneError(
            f"{folder.path} and the served configuration differ in {name}",
            slug="file-differs",
            hint="The server runs an override or an older file. Load the file (touch it, then load), "
            "or name the right one with --config.",
        )


def _difference(file: ServingConfig, served_config: ServingConfig) -> str:
    """What the file says and the server serves otherwise; what the file leaves out may be filled in."""
    if file.name and file.name != served_config.name:
        return "name"
    if file.max_batch_size and file.max_batch_size != served_config.max_batch_size:
        return "max_batch_size"
    ours, theirs = file.dynamic_batching, served_config.dynamic_batching
    if ours is not None and ours != theirs and not _only_filled_in(file, served_config):
        return "dynamic_batching"
    counts = [group.count for group in file.instance_group]
    if counts and counts != [group.count for group in served_config.instance_group]:
        return "instance_group"
    return ""


def _only_filled_in(file: ServingConfig, served_config: ServingConfig) -> bool:
    """Whether the served block is the file's with preferred_batch_size = [max_batch_size] filled in."""
    ours, theirs = file.dynamic_batching, served_config.dynamic_batching
    if ours is None or theirs is None or ours.preferred_batch_size:
        return False
    filled = (served_config.max_batch_size,)
    return msgspec.structs.replace(ours, preferred_batch_size=filled) == theirs


def refuse_without_memory(gauges: dict[str, float], model_bytes: int) -> None:
    """Refuse where two copies of the model do not fit: a full reload holds both at once (safety 6)."""
    for what, total, used in (
        ("device", "nv_gpu_memory_total_bytes", "nv_gpu_memory_used_bytes"),
        ("host", "nv_cpu_memory_total_bytes", "nv_cpu_memory_used_bytes"),
    ):
        if total in gauges and used in gauges and gauges[total] > 0:
            free = gauges[total] - gauges[used]
            if free < model_bytes:
                raise TrituneError(
                    f"the {what} has {free / 2**20:.0f} MiB free and a second copy of the model needs "
                    f"about {model_bytes / 2**20:.0f} MiB",
                    slug="no-memory-for-two",
                    hint="A reload holds the old and the new copy at once; tune on a larger replica.",
                )
