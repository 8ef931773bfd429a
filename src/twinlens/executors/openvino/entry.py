"""The capabilities of the OpenVINO executor; its packages are imported when a run is opened."""

from __future__ import annotations

from dataclasses import replace

from twinlens.executors.capabilities import ALL_ARRIVALS, ALL_FAMILIES, SETTINGS, Capabilities, Option
from twinlens.executors.in_process.entry import by_family, engine_executor, runtime_at

_HERE = "twinlens.executors.openvino"
_CALIBRATED = ("int4-weight-gptq", "int4-weight-awq", "int8-smoothquant")
_SERVED = ("fp32", "bf16", "int8-weight", "int4-weight")  # the prompts of a calibration go through the other graph
_OF_TEXT = (*_SERVED, *_CALIBRATED)
_OF_IMAGES = ("fp32", "bf16", "int8-static")


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
EXECUTOR = engine_executor(
    "openvino",
    _CAN,
    by_family("openvino", (_OF_TEXT, f"{_HERE}.decoder:RUNTIME"), (_OF_IMAGES, f"{_HERE}.decoder:VISION"), ("nncf",)),
)
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
    lambda spec: runtime_at(f"{_HERE}.served:SERVED", ("nncf",)),
)
