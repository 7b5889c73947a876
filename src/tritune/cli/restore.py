"""`tritune restore [URL]`."""

from __future__ import annotations

from pathlib import Path

from tritune.errors import ExitCode


def restore(
    url: str | None = None,
    /,
    *,
    model: str | None = None,
    force: bool = False,
    json: bool = False,
) -> int:
    """Serve the original configuration again, as it was before tritune changed it.

    Without URL and model: every model that tritune ever tuned from here. Does nothing where the original is
    served already, and refuses where somebody else changed the configuration since.

    Parameters
    ----------
    url
        The HTTP endpoint of the server.
    model
        Only this model.
    force
        Put the original back although somebody else changed the configuration.
    json
        Print what was done as JSON.
    """
    from tritune.cli.output import print_json, say
    from tritune.cli.wiring import connect
    from tritune.clock import RealClock
    from tritune.store.journal import Held, JournalFile, known_models
    from tritune.store.state import server_name
    from tritune.verbs.restore import Job, restore_all

    wanted = server_name(url) if url else None
    known = [
        entry
        for entry in known_models()
        if (wanted is None or server_name(entry.address.url) == wanted) and model in (None, entry.model)
    ]
    if not known:
        say("nothing to restore: the journal holds no tuning" + (f" of {url}" if url else ""))
        return ExitCode.OK
    jobs = [
        Job(
            entry.address.url,
            entry.model,
            lambda a=entry.address: connect(a.url, grpc=a.grpc, metrics=a.metrics),  # type: ignore[misc]
            Held(JournalFile(Path(entry.path), entry.address), run="", role="restore"),
        )
        for entry in known
    ]
    done = restore_all(jobs, clock=RealClock(), force=force)
    if json:
        print_json("restore", done)
    else:
        for one in done:
            say(f"{one.action}: {one.model} at {one.url}: {one.why}")
            for line in (*one.notes, *([f"hint: {one.hint}"] if one.hint else [])):
                say(f"  {line}")
    # A server that is gone holds nothing of ours any more: it comes back with what its files say.
    failed = [one for one in done if one.action == "failed" and one.slug != "server-unreachable"]
    unreachable = [one for one in done if one.slug == "server-unreachable"]
    if failed or (unreachable and (url or model)):
        return ExitCode.FAILED
    return ExitCode.OK
