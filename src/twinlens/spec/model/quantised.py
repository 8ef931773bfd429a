"""The precision that a model folder is quantised to, by its config, and by the word of a server for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def stored_precision(config: Mapping[str, Any]) -> str:
    """The name here of what a folder's `quantization_config` says its weights are quantised to, or "".

    What has no name here is called by its own method, so that no run of it goes under a wrong one.
    """
    quantisation = config.get("quantization_config")
    if not isinstance(quantisation, dict):
        return ""
    method, groups = str(quantisation.get("quant_method", "unknown")), quantisation.get("config_groups")
    if method == "compressed-tensors" and isinstance(groups, dict) and groups:
        group = next(iter(groups.values()))
        weights, inputs = group.get("weights") or {}, group.get("input_activations")
        name = f"{'fp' if weights.get('type') == 'float' else 'int'}{weights.get('num_bits')}"
        return {"fp8": "fp8", "int4": "int4-weight", "int8": "int8-dynamic" if inputs else "int8-weight"}.get(
            name, method
        )
    if method in ("awq", "gptq"):
        return {4: f"int4-weight-{method}", 8: "int8-weight"}.get(quantisation.get("bits"), method)  # type: ignore[arg-type]
    return "fp8" if method in ("fp8", "fbgemm_fp8") else method


UNQUANTISED = "not quantised"
"""The word for a server that says it quantised nothing."""
QUANTISED_BY = "quantised by "
"""Before the name of a method, in a server's word for it."""
_METHODS = {
    "int4-weight": ("compressed-tensors",),
    "int4-weight-awq": ("awq", "compressed-tensors"),
    "int4-weight-gptq": ("gptq", "compressed-tensors"),
    "int8-weight": ("awq", "gptq", "compressed-tensors"),
    "int8-dynamic": ("compressed-tensors",),
    "fp8": ("fp8", "compressed-tensors", "modelopt"),
    "mxfp4": ("mxfp4",),
}
_KNOWN = sorted({method for methods in _METHODS.values() for method in methods})


def contradicts(precision: str, word: str) -> bool:
    """Whether a server's word for its quantisation, such as "quantised by awq_marlin", is not that of a precision.

    A word that is not known here contradicts a precision without quantisation only.
    """
    methods = _METHODS.get(precision, ())
    if word == UNQUANTISED:
        return bool(methods)
    if not word.startswith(QUANTISED_BY):  # the word for something else, such as the type of a file
        return False
    named = [method for method in _KNOWN if method in word.lower()]
    return not methods or (bool(named) and not set(named) & set(methods))
