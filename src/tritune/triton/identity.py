"""Is it a Triton? The first question to an address, and one sentence for everything else that may answer."""

from __future__ import annotations

import re

from tritune.errors import TrituneError
from tritune.model.facts import ServerInfo
from tritune.triton.address import Address
from tritune.triton.http import Http, Reply
from tritune.triton.metadata import server_info
from tritune.triton.metrics import is_metrics
from tritune.triton.probe import speaks_http2

_PROBE_S = 1.0
_TITLE = re.compile(rb"<title[^>]*>\s*([^<]{1,80}?)\s*</title>", re.IGNORECASE)


def identify(http: Http) -> ServerInfo:
    """What the server says it is.

    Fails with what is there instead: metrics-port-given, grpc-port-given, redirected, access-denied,
    proxy-without-server, not-triton, or why nothing answers at all (see Http.request).
    """
    url = http.address.url
    try:
        reply = http.request("GET", "/v2")
    except TrituneError as error:
        # A gRPC port answers a plain request with HTTP/2 frames, and a TLS one by hanging up.
        if error.slug == "not-http" and speaks_http2(http.address, timeout_s=_PROBE_S):
            raise _grpc_port(http.address) from error
        raise
    info = server_info(reply.json) if reply.status == 200 else None
    if info is not None and "statistics" in info.extensions:
        return info
    if info is not None:
        raise TrituneError(
            f"{url} is '{info.name}' {info.version}, which offers no statistics: it is not a Triton",
            slug="not-triton",
        )
    refuse_middlemen(url, reply)
    if _shows_metrics(http):
        raise _metrics_port(http.address)
    raise TrituneError(
        f"{url} answers, but it is not a Triton: {_described(reply)}",
        slug="not-triton",
        hint="Give the HTTP endpoint of the server (Triton's default port is 8000).",
    )


def refuse_middlemen(url: str, reply: Reply) -> None:
    """Raise for an answer that something in front of the server gave: redirect, log-in, empty gateway."""
    if 300 <= reply.status < 400:
        raise TrituneError(
            f"{url} redirects to {reply.location or 'another address'}: something stands in front of it",
            slug="redirected",
            hint="Give the address of the server itself.",
        )
    if reply.status in (401, 403, 407):
        said = f" ({reply.error})" if reply.error else ""
        raise TrituneError(
            f"{url} refuses with HTTP {reply.status}{said}: it, or a proxy in front, asks for credentials",
            slug="access-denied",
            hint="tritune sends none: give an address that answers without, for example a port-forward.",
        )
    if reply.status in (502, 503, 504) and not reply.error:
        raise TrituneError(
            f"a proxy answers at {url} with HTTP {reply.status}: the server behind it does not answer",
            slug="proxy-without-server",
            hint="Is the server running? Try its own address.",
        )


def _shows_metrics(http: Http) -> bool:
    try:
        reply = http.request("GET", "/metrics")
    except TrituneError:
        return False
    return reply.status == 200 and is_metrics(reply.body.decode(errors="replace"))


def _metrics_port(address: Address) -> TrituneError:
    right = _first_triton(address, (-2, -1, +1))
    return TrituneError(
        f"{address.url} is a Triton's metrics port, not its HTTP port",
        slug="metrics-port-given",
        hint=f"Use {right.url}, which answers." if right else _guess(address, -2),
    )


def _grpc_port(address: Address) -> TrituneError:
    right = _first_triton(address, (-1, +1))
    return TrituneError(
        f"{address.url} is a gRPC port, not an HTTP port",
        slug="grpc-port-given",
        hint=f"Use {right.url}, which answers." if right else _guess(address, -1),
    )


def _first_triton(address: Address, shifts: tuple[int, ...]) -> Address | None:
    """The nearest port at which a Triton really answers."""
    for by in shifts:
        near = address.shifted(by)
        if not 0 < near.port < 65536:
            continue
        http = Http(near, timeout_s=_PROBE_S)
        try:
            if server_info(http.request("GET", "/v2").json) is not None:
                return near
        except TrituneError:
            continue
        finally:
            http.close()
    return None


def _guess(address: Address, by: int) -> str:
    return f"The HTTP port is usually {-by} below it: try {address.shifted(by).url}."


def _described(reply: Reply) -> str:
    title = _TITLE.search(reply.body)
    if title:
        return f"HTTP {reply.status} and a page titled '{title[1].decode(errors='replace')}'"
    kind = reply.content_type.partition(";")[0] or "no content type"
    return f"HTTP {reply.status} and {len(reply.body)} bytes ({kind})"
