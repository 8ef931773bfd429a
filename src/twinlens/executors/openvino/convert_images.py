"""An image classifier as OpenVINO's own format, in int8 where asked. Needs torch, transformers, openvino and nncf.

Run in a process of its own by vision.py.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn

from twinlens.executors.in_process.calibration import calibration_images
from twinlens.executors.openvino.convert import GRAPH, LINEARS


class Logits(nn.Module):  # type: ignore[misc]  # torch is not followed by the type checker
    """Pixels (batch, channels, size, size) to logits (batch, classes)."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixel_values: Any) -> Any:
        return self.model(pixel_values=pixel_values).logits


def main() -> None:
    """`{"weights": folder, "folder": where to, "precision": ours}` on the input."""
    asked = json.load(sys.stdin)
    _write(Path(asked["weights"]), Path(asked["folder"]), asked["precision"])


def _write(weights: Path, folder: Path, precision: str) -> None:
    import openvino
    import transformers

    model: Any = transformers.AutoModelForImageClassification.from_pretrained(
        weights, dtype=torch.float32, local_files_only=True, trust_remote_code=False
    ).eval()
    size = int(getattr(model.config, "image_size", 224))
    sides = (int(model.config.num_channels), size, size)
    with torch.no_grad():
        graph = openvino.convert_model(Logits(model), example_input=torch.zeros(2, *sides))
    graph.inputs[0].get_tensor().set_names({"pixel_values"})
    graph.reshape({"pixel_values": [-1, *sides]})
    if precision == "int8-static":
        graph = _quantised(graph, sides, is_transformer=model.config.model_type == "vit")
    openvino.save_model(graph, folder / GRAPH, compress_to_fp16=False)
    stored = "int8" if precision == "int8-static" else precision
    linears = [(m.out_features, m.in_features, stored) for m in model.modules() if isinstance(m, nn.Linear)]
    (folder / LINEARS).write_text(json.dumps(linears), encoding="utf-8")


def _quantised(graph: Any, sides: tuple[int, int, int], *, is_transformer: bool) -> Any:
    import nncf

    images = list(calibration_images(sides))
    kind = nncf.ModelType.TRANSFORMER if is_transformer else None
    return nncf.quantize(graph, nncf.Dataset(images), subset_size=len(images), model_type=kind)
