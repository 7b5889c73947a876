"""The wire to a running Triton: what it says, what it counts, what is sent to it, what it loads.

`connect(url)` is the door. Foreign errors (urllib3, gRPC, JSON) end here: every method raises TrituneError.
"""

from tritune.triton.payload import needs_data
from tritune.triton.replicas import several_replicas
from tritune.triton.server import TritonServer, connect

__all__ = ["TritonServer", "connect", "needs_data", "several_replicas"]
