import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme

from tritune.load.engine import HttpLoadEngine
from tritune.model.load import Shot, Target

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Running:
    """A responder that was started; `shot` makes the request for one of its paths."""

    port: int

    @property
    def target(self):
        return Target("127.0.0.1", self.port)

    @staticmethod
    def shot(path, items=1, shape=0):
        head = f"POST /{path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\n"
        return Shot(head.encode() + b"body", items, shape)


@contextmanager
def running_responder(*arguments):
    process = subprocess.Popen(
        [sys.executable, str(HERE / "responder.py"), *arguments], stdout=subprocess.PIPE, text=True
    )
    with process:
        try:
            yield Running(int(process.stdout.readline()))
        finally:
            process.kill()


@pytest.fixture(scope="session")
def responder():
    """One for all tests that leave it as it was."""
    with running_responder() as running:
        yield running


@pytest.fixture
def own_responder():
    """One that the test may break."""
    with running_responder() as running:
        yield running


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    """A key, its certificate for localhost and 127.0.0.1, and the authority's; made for this run."""
    authority = trustme.CA()
    issued = authority.issue_cert("localhost", "127.0.0.1")
    file = tmp_path_factory.mktemp("tls") / "localhost.pem"
    file.write_bytes(issued.private_key_and_cert_chain_pem.bytes() + authority.cert_pem.bytes())
    return str(file)


@pytest.fixture(scope="session")
def tls_responder(certificate):
    with running_responder(certificate) as running:
        yield running


@pytest.fixture
def engine():
    return HttpLoadEngine()
