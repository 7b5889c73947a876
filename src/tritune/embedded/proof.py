"""The proof that an environment works: start the server with a tiny model and let it infer once."""

from __future__ import annotations

import json
import shutil
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from urllib.parse import urlsplit

from tritune.embedded.layout import Environment
from tritune.embedded.server import start, stop
from tritune.errors import TrituneError

_CONFIG = """
name: "proof"
backend: "python"
max_batch_size: 0
input [ { name: "x", data_type: TYPE_FP32, dims: [ 2 ] } ]
output [ { name: "y", data_type: TYPE_FP32, dims: [ 2 ] } ]
instance_group [ { kind: KIND_CPU, count: 1 } ]
"""

# A stub can be READY and still fail every inference (wrong numpy), so the tensor goes through numpy here.
_MODEL = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        replies = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
            y = pb_utils.Tensor("y", (2 * x).astype(np.float32))
            replies.append(pb_utils.InferenceResponse(output_tensors=[y]))
        return replies
"""

_REQUEST = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [2], "data": [1.5, 4.0]}]}
_EXPECTED = [3.0, 8.0]


def prove(environment: Environment) -> str:
    """Triton's version, once one inference came back right. Raises TrituneError with what went wrong."""
    folder = Path(environment.root, "proof")
    version_folder = folder / "models" / "proof" / "1"
    version_folder.mkdir(parents=True, exist_ok=True)
    (version_folder.parent / "config.pbtxt").write_text(_CONFIG)
    (version_folder / "model.py").write_text(_MODEL)
    server = start(folder / "models", environment=environment, folder=folder)
    try:
        outputs = _infer(server.url)
    finally:
        stop(server)
    if outputs != _EXPECTED:
        raise TrituneError(
            f"Triton started, but its first inference answered {outputs} instead of {_EXPECTED}",
            slug="proof-failed",
            hint=f"The whole log: {server.log}",
        )
    shutil.rmtree(folder)
    return server.version


def _infer(url: str) -> object:
    """The answer's numbers, or the text of what came instead."""
    place = urlsplit(url)
    connection = HTTPConnection(place.hostname or "", place.port, timeout=30)
    try:
        connection.request("POST", "/v2/models/proof/infer", json.dumps(_REQUEST))
        body = connection.getresponse().read()
        return json.loads(body)["outputs"][0]["data"]
    except (OSError, HTTPException) as error:
        return str(error)
    except (ValueError, KeyError, IndexError, TypeError):
        return body.decode(errors="replace")[:300]
    finally:
        connection.close()
