"""The capabilities of the OpenVINO executor; its packages are imported when a run is opened."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from twinlens.errors import BadInput
from twinlens.executors.capabilities import ALL_ARRIVALS, ALL_FAMILIES, SETTINGS, Capabilities, Option
from twinlens.executors.in_process.entry import engine_executor

if TYPE_CHECKING:
    from twinlens.executors.in_process.engine import Runtime
    from twinlens.spec.study import RunSpec


_CALIBRATED = ("int4-weight-gptq", "int4-weight-awq", "int8-smoothquant")
_SERVED = ("fp32", "bf16", "int8-weight", "int4-weight")  # the prompts of a calibration go through the other graph
_OF_TEXT = (*_SERVED, *_CALIBRATED)
_OF_IMAGES = ("fp32", "bf16", "int8-static")


def _runtime(spec: RunSpec) -> Runtime:
    """Raises BadInput (TL203) for a precision of the other kind of model."""
    is_text = spec.model.known().shape.family == "decoder"
    made, kind = (_OF_TEXT, "language models") if is_text else (_OF_IMAGES, "classifiers of images")
    if spec.point.precision not in made:
        raise BadInput(
            f"openvino runs {kind} at {', '.join(made)}, and point.precision is {spec.point.precision!r}", code="TL203"
        )
    import nncf  # noqa: F401  # the export needs it, in a process of its own

    if not is_text:
        from twinlens.executors.openvino.vision import VISION

        return VISION
    from twinlens.executors.openvino.decoder import RUNTIME

    return RUNTIME


def _served_runtime(spec: RunSpec) -> Runtime:
    import nncf  # noqa: F401  # the export needs it, in a process of its own

    from twinlens.executors.openvino.served import SERVED

    return SERVED


_CAN = Capabilities(
    families=ALL_FAMILIES,
    precisions=tuple(dict.fromkeys(_OF_TEXT + _OF_IMAGES)),
    settings=("threads",),
    computes_with="openvino",
    packages=("openvino",),
    install="pip install 'twinlens[openvino]'",
    is_sized_by_theory=True,
    quantises=True,
    compares_with_fp32=True,
    options={"settings": SETTINGS},
    # Its own defaults compute fp32 models in bf16, keep the KV cache in 8 bits and may quantise activations.
    unasked=("INFERENCE_PRECISION_HINT, KV_CACHE_PRECISION, DYNAMIC_QUANTIZATION_GROUP_SIZE as the precision says",),
)
EXECUTOR = engine_executor("openvino", _CAN, _runtime)
_MOST = Option(16, description="Sequences that the engine may have in one batch.", tunes=True)
SERVED = engine_executor(
    "openvino",
    replace(
        _CAN,
        families=("decoder",),
        precisions=_SERVED,
        arrivals=ALL_ARRIVALS,
        packages=("openvino-genai",),
        options={"most_together": _MOST, "settings": SETTINGS},
    ),
    _served_runtime,
)
