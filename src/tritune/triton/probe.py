"""Is there gRPC behind a port? Asked without importing grpc, which costs a fifth of a second."""

from __future__ import annotations

import socket
import ssl

from tritune.triton.address import Address

# RFC 9113, 3.4: the client's preface and an empty SETTINGS frame; a server answers with its own SETTINGS.
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes.fromhex("000000040000000000")
_FRAME_TYPE_AT = 3
_SETTINGS = 4


def speaks_http2(address: Address, *, timeout_s: float) -> bool:
    """True where the port greets as HTTP/2 does, which among Triton's three ports only gRPC's does.

    False for anything else, an unreachable port included. Never raises.
    """
    try:
        with socket.create_connection((address.host, address.port), timeout=timeout_s) as plain:
            if address.tls:
                return _agrees_on_h2(plain, address.host)
            plain.sendall(_PREFACE)
            head = plain.recv(9)
            return len(head) > _FRAME_TYPE_AT and head[0] == 0 and head[_FRAME_TYPE_AT] == _SETTINGS
    except (OSError, ValueError):
        return False


def _agrees_on_h2(plain: socket.socket, host: str) -> bool:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["h2"])
    with context.wrap_socket(plain, server_hostname=host) as wrapped:
        return wrapped.selected_alpn_protocol() == "h2"
