"""A classifier of images behind the KServe Python server, for the slow test: `python kserve_model.py PORT`.

It runs in an environment of its own (`make .venv-kserve/ready`). The weights follow a seed, so that a test can compute
the scores again.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

SHAPE, CLASSES = (3, 32, 32), 10


def weights() -> np.ndarray:
    """Shape: (pixels, classes)."""
    return np.random.default_rng(7).standard_normal((int(np.prod(SHAPE)), CLASSES)).astype(np.float32)


def scores(images: np.ndarray) -> np.ndarray:
    """Scores of images (n, 3, 32, 32), shape (n, classes)."""
    return np.asarray(images.reshape(len(images), -1).astype(np.float32) @ weights())


def main(port: int) -> None:
    from kserve import InferOutput, InferRequest, InferResponse, Model, ModelServer

    class Classifier(Model):
        def __init__(self) -> None:
            super().__init__("classifier")
            self.ready = True

        async def get_input_types(self) -> list[dict[str, Any]]:
            return [{"name": "image", "datatype": "FP32", "shape": [-1, *SHAPE]}]

        async def get_output_types(self) -> list[dict[str, Any]]:
            return [{"name": "scores", "datatype": "FP32", "shape": [-1, CLASSES]}]

        async def predict(self, payload: InferRequest, headers: Any = None, response_headers: Any = None) -> Any:
            answer = scores(payload.inputs[0].as_numpy())
            output = InferOutput(name="scores", shape=list(answer.shape), datatype="FP32")
            output.set_data_from_numpy(answer, binary_data=False)
            return InferResponse(response_id=payload.id, model_name=self.name, infer_outputs=[output])

    ModelServer(http_port=port, enable_grpc=False, workers=1, enable_docs_url=False).start([Classifier()])


if __name__ == "__main__":
    main(int(sys.argv[1]))
