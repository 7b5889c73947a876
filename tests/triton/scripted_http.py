"""A tiny HTTP server whose answers a test writes down; each connection is served in its own thread."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = tuple[int, str, bytes] | tuple[int, str, bytes, dict[str, str]]

TRITON = {"name": "triton", "version": "2.51.0", "extensions": ["statistics", "model_repository"]}


def as_json(value: Any, status: int = 200) -> Answer:
    return status, "application/json", json.dumps(value).encode()


class Scripted(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, answers: Mapping[str, Answer]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers = dict(answers)
        self.asked: list[str] = []
        self.peers: set[int] = set()
        self.open: list[socket.socket] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def hang_up(self) -> None:
        """Close every connection that is kept alive; the client may have closed it first, at any moment."""
        for peer in self.open:
            with suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)
        self.open.clear()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Scripted

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        self.server.peers.add(self.client_address[1])
        self.server.open.append(self.connection)
        status, kind, body, *more = self.server.answers.get(self.path, as_json({"error": "Not Found"}, 404))
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in (more[0] if more else {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET  # noqa: N815 - http.server's own naming

    def log_message(self, *_: object) -> None:
        """Quiet."""


@contextmanager
def scripted(answers: Mapping[str, Answer]) -> Iterator[Scripted]:
    server = Scripted(answers)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.hang_up()
        server.server_close()
        thread.join()


@contextmanager
def listening(greeting: bytes | None) -> Iterator[int]:
    """A port that answers everything with `greeting`; None = accepts and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        peers: list[socket.socket] = []

        def serve() -> None:
            while True:
                try:
                    peer, _ = listener.accept()
                except OSError:
                    return
                peers.append(peer)
                if greeting is not None:
                    peer.recv(4096)
                    peer.sendall(greeting)
                    peer.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(timeout=2)
        for peer in peers:
            peer.close()
