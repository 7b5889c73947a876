import pytest
from hypothesis import given
from hypothesis import strategies as st

from tritune.errors import UsageError
from tritune.triton.address import Address, parse_grpc, parse_metrics, parse_url


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("localhost:8000", Address("localhost", 8000)),
        ("localhost", Address("localhost", 8000)),
        ("10.0.0.7:9000", Address("10.0.0.7", 9000)),
        ("http://triton.example:8000", Address("triton.example", 8000)),
        ("http://triton.example/", Address("triton.example", 80)),
        ("https://triton.example", Address("triton.example", 443, tls=True)),
        ("  https://triton.example:8443/ ", Address("triton.example", 8443, tls=True)),
        ("[::1]:8000", Address("::1", 8000)),
        ("HTTP://Host:80", Address("host", 80)),
    ],
)
def test_urls_as_people_write_them(text: str, expected: Address) -> None:
    assert parse_url(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":8000",
        "http://",
        "ftp://host:8000",
        "host:port",
        "host:99999",
        "host:0",
        "host:8000/v2",
        "http://host:8000/?x=1",
        "user:secret@host:8000",
        "two words:8000",
    ],
)
def test_what_is_no_address_is_said_so(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_url(text)
    assert caught.value.slug == "bad-url"
    assert repr(text)[1:-1] in caught.value.message


@given(
    host=st.from_regex(r"[a-z][a-z0-9-]{0,20}", fullmatch=True), port=st.integers(1, 65535), tls=st.booleans()
)
def test_an_address_survives_its_own_url(host: str, port: int, tls: bool) -> None:
    address = Address(host, port, tls)
    assert parse_url(address.url) == address


def test_ipv6_gets_its_brackets_back() -> None:
    assert Address("::1", 8000).url == "http://[::1]:8000"


def test_grpc_needs_a_port_and_shares_the_encryption() -> None:
    assert parse_grpc("host:8001", tls=False) == Address("host", 8001)
    assert parse_grpc("host:8001", tls=True) == Address("host", 8001, tls=True)
    for text in ("host", "http://host:8001"):
        with pytest.raises(UsageError, match="is not a gRPC address"):
            parse_grpc(text, tls=False)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http://host:8002/metrics", (Address("host", 8002), "/metrics")),
        ("host:8002", (Address("host", 8002), "/metrics")),
        ("https://host/a/b?c=1", (Address("host", 443, tls=True), "/a/b?c=1")),
    ],
)
def test_metrics_may_live_under_any_path(text: str, expected: tuple[Address, str]) -> None:
    assert parse_metrics(text) == expected
