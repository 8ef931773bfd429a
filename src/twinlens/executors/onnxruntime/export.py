"""Image classifiers as ONNX files: fp32, or static int8 calibrated on random images. No engine is loaded here."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from twinlens.executors.in_process.export import run_apart
from twinlens.executors.in_process.inputs import calibration_images, calibration_said
from twinlens.executors.in_process.torch_work import Linear
from twinlens.spec.study import RunSpec

GRAPH, _OPSET = "model.onnx", 18
_RUN = "from twinlens.executors.onnxruntime.export import main; main()"


def make(spec: RunSpec, weights: Path, folder: Path, *, symmetric: bool = False) -> None:
    """Raises ExecutorFailed (TL302) with the exporter's own line. `symmetric`: zero points are 0, as TensorRT wants."""
    order = {"weights": str(weights), "graph": str(folder / GRAPH), "quantised": spec.precision.quantised}
    run_apart(["-c", _RUN], f"{spec.model.name} cannot be exported to ONNX", order | {"symmetric": symmetric})


def made_by(spec: RunSpec, *, statistics: str) -> str:
    """All but the weights that decides the bytes of an export. `statistics`: what is taken of each activation."""
    versions = [f"{name} {version(name)}" for name in ("onnxruntime", "onnx", "transformers", "torch")]
    return f"1 {versions} {calibration_said(spec.model.known(), statistics) if spec.precision.quantised else ''}"


def linears_of(folder: Path) -> list[Linear]:
    """(out, in, stored format) of every linear layer of an export."""
    from twinlens.executors.onnxruntime.graph import linears

    return linears(folder / GRAPH)


def main() -> None:
    """`{"weights": folder, "graph": file, "quantised": bool, "symmetric": bool}` on the input; needs torch and
    transformers."""
    asked = json.load(sys.stdin)
    shape = _export(Path(asked["weights"]), Path(asked["graph"]))
    if asked["quantised"]:
        _quantise(Path(asked["graph"]), shape, symmetric=asked["symmetric"])


def _export(weights: Path, graph: Path) -> tuple[int, int, int]:
    """The sides of one image: (channels, size, size)."""
    import torch
    import transformers

    model: Any = transformers.AutoModelForImageClassification.from_pretrained(
        weights, dtype=torch.float32, local_files_only=True, trust_remote_code=False
    )

    class Logits(torch.nn.Module):  # type: ignore[misc]  # torch is not followed by the type checker
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, pixel_values: Any) -> Any:
            return self.model(pixel_values=pixel_values).logits

    size = int(getattr(model.config, "image_size", 224))
    sides = (int(model.config.num_channels), size, size)
    names = {"input_names": ["pixel_values"], "output_names": ["logits"]}
    rows = {"pixel_values": {0: "batch"}, "logits": {0: "batch"}}
    example = (torch.zeros(2, *sides),)
    torch.onnx.export(
        Logits().eval(), example, str(graph), dynamic_axes=rows, opset_version=_OPSET, dynamo=False, **names
    )
    return sides


def _quantise(graph: Path, sides: tuple[int, int, int], *, symmetric: bool) -> None:
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Images(CalibrationDataReader):  # type: ignore[misc]  # onnxruntime is not followed by the type checker
        def __init__(self) -> None:
            self._left: Iterator[np.ndarray] = iter(calibration_images(sides))

        def get_next(self) -> dict[str, np.ndarray] | None:
            one = next(self._left, None)
            return None if one is None else {"pixel_values": one}

    prepared = graph.with_suffix(".prepared")
    quant_pre_process(str(graph), str(prepared), skip_symbolic_shape=True)
    kinds: dict[str, Any] = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8}
    if symmetric:
        how = {"ActivationSymmetric": True, "WeightSymmetric": True, "QuantizeBias": False}
        kinds |= {"activation_type": QuantType.QInt8, "extra_options": how}
    quantize_static(str(prepared), str(graph), Images(), quant_format=QuantFormat.QDQ, per_channel=True, **kinds)
    prepared.unlink()
