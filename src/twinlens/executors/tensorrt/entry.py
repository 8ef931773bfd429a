"""The capabilities of the TensorRT executor. Tested on recorded output only: no NVIDIA GPU was at hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinlens.errors import BadInput
from twinlens.executors.capabilities import Capabilities
from twinlens.executors.in_process.entry import engine_executor

if TYPE_CHECKING:
    from twinlens.executors.in_process.engine import Runtime
    from twinlens.spec.study import RunSpec

_INSTALL = "pip install 'twinlens[onnxruntime]' 'tensorrt>=10,<11' (it needs an NVIDIA GPU)"


def _runtime(spec: RunSpec) -> Runtime:
    import onnx  # noqa: F401  # the export needs it, in a process of its own
    import tensorrt

    if (found := str(tensorrt.__version__)).partition(".")[0] != "10":
        raise BadInput(
            f"tensorrt is {found}, and its builder's flags of precision, which this executor sets, are those of 10: "
            f"{_INSTALL}",
            code="TL207",
        )
    from twinlens.executors.tensorrt.classifier import VISION

    return VISION


EXECUTOR = engine_executor(
    "tensorrt",
    Capabilities(
        families=("vit", "resnet"),
        precisions=("fp32", "tf32", "fp16", "bf16", "int8-static"),
        settings=("device",),
        computes_with="torch",
        packages=("tensorrt",),
        install=_INSTALL,
        is_sized_by_theory=True,
        quantises=True,
        compares_with_fp32=True,
        unasked=("BuilderFlag.TF32 as the precision says",),  # TensorRT itself computes fp32 in TF32
        tried=False,
    ),
    _runtime,
)
