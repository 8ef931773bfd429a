"""The capabilities of the ONNX Runtime executor; its packages are imported when one is made."""

from __future__ import annotations

from dataclasses import replace

from twinlens.executors.capabilities import ALL_ARRIVALS, ALL_FAMILIES, Capabilities, Option
from twinlens.executors.in_process.entry import by_family, engine_executor, runtime_at

_HERE = "twinlens.executors.onnxruntime"
_OF_TEXT = ("fp32", "int8-dynamic", "int4-dynamic")
_OF_IMAGES = ("fp32", "int8-static")


_CAN = Capabilities(
    families=ALL_FAMILIES,
    precisions=tuple(dict.fromkeys(_OF_TEXT + _OF_IMAGES)),
    why_not={"bf16": "ONNX Runtime has no bf16 kernels for this model on a processor"},
    settings=("threads",),
    computes_with="onnxruntime",
    packages=("onnxruntime-genai",),
    install="pip install 'twinlens[onnxruntime]'",
    is_sized_by_theory=True,
    quantises=True,
    compares_with_fp32=True,
)
EXECUTOR = engine_executor(
    "onnxruntime",
    _CAN,
    by_family("onnxruntime", (_OF_TEXT, f"{_HERE}.decoder:RUNTIME"), (_OF_IMAGES, f"{_HERE}.decoder:VISION")),
)
_MOST = Option(8, description="Sequences that the engine may have in one batch.", tunes=True)
SERVED = engine_executor(
    "onnxruntime",
    replace(
        _CAN,
        families=("decoder",),
        precisions=_OF_TEXT,
        arrivals=ALL_ARRIVALS,
        options={"most_together": _MOST},
        nobody_joins="batches statically on a processor: a batch ends before the next one begins",
    ),
    lambda spec: runtime_at(f"{_HERE}.decoder:SERVED"),
)
