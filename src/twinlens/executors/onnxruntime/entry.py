"""The capabilities of the ONNX Runtime executor; its packages are imported when one is made."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from twinlens.errors import BadInput
from twinlens.executors.capabilities import ALL_ARRIVALS, ALL_FAMILIES, Capabilities, Option
from twinlens.executors.in_process.entry import engine_executor

if TYPE_CHECKING:
    from twinlens.executors.in_process.engine import Runtime
    from twinlens.spec.study import RunSpec


_OF_TEXT = ("fp32", "int8-dynamic", "int4-dynamic")
_OF_IMAGES = ("fp32", "int8-static")


def _runtime(spec: RunSpec) -> Runtime:
    """Raises BadInput (TL203) for a precision of the other kind of model."""
    is_text = spec.model.known().shape.family == "decoder"
    made = _OF_TEXT if is_text else _OF_IMAGES
    if spec.point.precision not in made:
        kind = "language models" if is_text else "classifiers of images"
        raise BadInput(
            f"onnxruntime runs {kind} at {', '.join(made)}, and point.precision is {spec.point.precision!r}",
            code="TL203",
        )
    if not is_text:
        from twinlens.executors.onnxruntime.vision import VISION

        return VISION
    from twinlens.executors.onnxruntime.decoder import RUNTIME

    return RUNTIME


def _served_runtime(spec: RunSpec) -> Runtime:
    from twinlens.executors.onnxruntime.decoder import SERVED

    return SERVED


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
EXECUTOR = engine_executor("onnxruntime", _CAN, _runtime)
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
    _served_runtime,
)
