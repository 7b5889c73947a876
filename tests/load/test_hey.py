"""hey's text is read as hey prints it."""

import pytest

from tritune.errors import TrituneError
from tritune.load.hey import read_hey

TEXT = """
Summary:
  Total:	0.3310 secs
  Requests/sec:	604.2

Latency distribution:
  10% in 0.0110 secs
  50% in 0.0131 secs
  95% in 0.0142 secs
  99% in 0.0165 secs

Status code distribution:
  [200]	198 responses
  [503]	2 responses
"""


def test_percentiles_and_statuses_are_read():
    result = read_hey(TEXT)
    assert result.percentiles_ns[99] == pytest.approx(16.5e6)
    assert (result.answered, result.failed) == (198, 2)


def test_a_run_without_percentiles_is_an_error():
    with pytest.raises(TrituneError, match="connection refused"):
        read_hey("Error distribution:\n  [10] connection refused\n")
