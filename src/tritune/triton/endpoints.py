"""The two endpoints beside HTTP: one and two ports further, or named, or missing with what that costs."""

from __future__ import annotations

from collections.abc import Sequence

from tritune.errors import TrituneError
from tritune.model.facts import IndexEntry, ServerInfo
from tritune.model.server import Snapshot
from tritune.triton import index as repository_index
from tritune.triton import metrics
from tritune.triton.address import Address, parse_grpc, parse_metrics
from tritune.triton.grpc import Grpc
from tritune.triton.http import Http
from tritune.triton.probe import speaks_http2

# A default is only tried; a port that drops packets must not hold up the first screen for long.
_TRY_S = 1.0


class MetricsPage:
    """The metrics endpoint of one server."""

    def __init__(self, address: Address, path: str, *, timeout_s: float) -> None:
        self._http = Http(address, timeout_s=timeout_s)
        self._path = path

    def read(self) -> Snapshot | None:
        """What it shows now; None where it does not answer, or not with a Triton's metrics."""
        try:
            reply = self._http.request("GET", self._path)
            text = reply.body.decode()
            return (
                metrics.from_text(text, t_ns=reply.t_ns)
                if reply.status == 200 and metrics.is_metrics(text)
                else None
            )
        except (TrituneError, ValueError):
            return None

    def close(self) -> None:
        """Close the connections."""
        self._http.close()


def find_grpc(http: Address, named: str | None, *, timeout_s: float) -> tuple[Address | None, str]:
    """Where gRPC answers, and the sentence for `notes` where it does not; an error where it was named."""
    if named is not None:
        address = parse_grpc(named, tls=http.tls)
        if not speaks_http2(address, timeout_s=timeout_s):
            raise TrituneError(
                f"no gRPC answers at {address.netloc}",
                slug="grpc-unreachable",
                hint="Triton's default is one port above HTTP; leave --grpc away to try that one.",
            )
        return address, ""
    address = http.shifted(1)
    if speaks_http2(address, timeout_s=min(_TRY_S, timeout_s)):
        return address, ""
    return None, (
        f"gRPC does not answer at {address.netloc}: models cannot be loaded, so nothing can be tuned;"
        " name it with --grpc HOST:PORT"
    )


def find_metrics(http: Address, named: str | None, *, timeout_s: float) -> tuple[MetricsPage | None, str]:
    """The metrics page, and the sentence for `notes` where there is none; an error where it was named."""
    address, path = parse_metrics(named) if named is not None else (http.shifted(2), "/metrics")
    if named is None:
        # Triton serves its metrics in the clear, whatever the HTTP endpoint does.
        address = Address(address.host, address.port)
    page = MetricsPage(address, path, timeout_s=timeout_s if named is not None else min(_TRY_S, timeout_s))
    if page.read() is not None:
        return page, ""
    page.close()
    if named is not None:
        raise TrituneError(
            f"no metrics of a Triton at {address.url}{path}",
            slug="metrics-unreachable",
            hint="Triton's default is two ports above HTTP, at /metrics; leave --metrics away to try it.",
        )
    return None, (
        f"no metrics at {address.url}{path}: pending requests, Triton's own quantiles and the machine's"
        " gauges are missing; name them with --metrics URL"
    )


def same_server(info: ServerInfo, index: Sequence[IndexEntry], grpc: Grpc) -> None:
    """Raise grpc-other-server where HTTP and gRPC are not the same server: a load would hit a stranger.

    Compared are name, version and the models of the repository; two replicas that are alike pass.
    """
    there = grpc.server_metadata()
    models = {entry.name for entry in repository_index.from_json(grpc.index_json(), url=grpc.address.netloc)}
    if (there["name"], there["version"], models) != (
        info.name,
        info.version,
        {entry.name for entry in index},
    ):
        raise TrituneError(
            f"the gRPC endpoint {grpc.address.netloc} belongs to another server than the HTTP endpoint",
            slug="grpc-other-server",
            hint="Name the right one with --grpc HOST:PORT.",
        )
