"""Where a server is: the URL as people write it, and the addresses that follow from it."""

from __future__ import annotations

from urllib.parse import urlsplit

import msgspec

from tritune.errors import UsageError

# Triton's own default for HTTP; gRPC is one above and the metrics two above it.
HTTP_PORT = 8000
_STANDARD_PORTS = {"http": 80, "https": 443}


class Address(msgspec.Struct, frozen=True):
    """One endpoint of a server; `host` is bare, also where it is an IPv6 address."""

    host: str
    port: int
    tls: bool = False

    @property
    def netloc(self) -> str:
        """`host:port`, with the brackets that an IPv6 address needs."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """`http://host:port`."""
        return f"{'https' if self.tls else 'http'}://{self.netloc}"

    def shifted(self, by: int) -> Address:
        """The same host `by` ports further."""
        return msgspec.structs.replace(self, port=self.port + by)


def parse_url(text: str) -> Address:
    """`localhost:8000`, `http://host:port` or `https://host` as an Address.

    Without a scheme it is http, and without a port Triton's 8000; a scheme without a port means the port that
    the scheme has everywhere (80, 443). Raises UsageError for another scheme, a path, a query or a user name:
    Triton serves at the root, and the load engine sends to a host and a port.
    """
    stripped = text.strip()
    with_scheme = stripped if "://" in stripped else f"//{stripped}"
    try:
        parts = urlsplit(with_scheme)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise _bad_url(text, "it is not a host and a port") from None
    scheme = parts.scheme or "http"
    if scheme not in _STANDARD_PORTS:
        raise _bad_url(text, f"'{scheme}' is neither http nor https")
    if not host or any(c.isspace() for c in stripped):
        raise _bad_url(text, "it names no host")
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise _bad_url(text, "it goes on after the port")
    if "@" in parts.netloc:
        raise _bad_url(text, "it carries a user name, which tritune does not send")
    if port == 0:
        raise _bad_url(text, "port 0 is not a port")
    if port is None:
        port = _STANDARD_PORTS[scheme] if parts.scheme else HTTP_PORT
    return Address(host, port, tls=scheme == "https")


def parse_grpc(text: str, *, tls: bool) -> Address:
    """`HOST:PORT` of the gRPC endpoint, encrypted exactly where the HTTP endpoint is.

    Raises UsageError where the port is missing: unlike HTTP's it cannot be guessed from a host alone.
    """
    bare = text.strip()
    address = parse_url(bare)
    if "://" in bare or not bare.endswith(f":{address.port}"):
        raise UsageError(
            f"'{text}' is not a gRPC address",
            slug="bad-url",
            hint="Write --grpc HOST:PORT, for example host:8001.",
        )
    return msgspec.structs.replace(address, tls=tls)


def parse_metrics(text: str) -> tuple[Address, str]:
    """The metrics endpoint as (address, path); the path is /metrics where the URL has none."""
    with_scheme = text.strip() if "://" in text else f"http://{text.strip()}"
    root, slash, path = with_scheme.partition("://")[2].partition("/")
    address = parse_url(f"{with_scheme.partition('://')[0]}://{root}")
    return address, f"/{path}" if slash and path else "/metrics"


def _bad_url(text: str, why: str) -> UsageError:
    return UsageError(
        f"'{text}' is not the address of a Triton server: {why}",
        slug="bad-url",
        hint="Write the HTTP endpoint as host:port or http://host:port, for example localhost:8000.",
    )
