"""The precision that a model folder is quantised to, by its config, and by the word of a server for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twinlens.spec.precision import PRECISIONS


def stored_precision(config: Mapping[str, Any], recipe: str = "") -> str:
    """The name here of what a folder's `quantization_config` says its weights are quantised to, or "".

    What has no name here is called by its own method, so that no run of it goes under a wrong one. `recipe`: the text
    that llm-compressor leaves beside the weights, for its config does not say by which method they were rounded.
    """
    quantisation = config.get("quantization_config")
    if not isinstance(quantisation, dict):
        return ""
    method, groups = str(quantisation.get("quant_method", "unknown")), quantisation.get("config_groups")
    if method == "compressed-tensors" and isinstance(groups, dict) and groups:
        group = next(iter(groups.values()))
        return _of_group(group.get("weights") or {}, group.get("input_activations"), recipe) or method
    if method in ("awq", "gptq"):
        return {4: f"int4-weight-{method}", 8: "int8-weight"}.get(quantisation.get("bits"), method)  # type: ignore[arg-type]
    if "modelopt" in method:
        algorithm = str(quantisation.get("quant_algo", _ALGORITHMS.get(method))).upper()
        return {"FP8": "fp8", "NVFP4": "nvfp4", "MXFP8": "mxfp8"}.get(algorithm, f"{method} {algorithm}")
    return "fp8" if method in ("fp8", "fbgemm_fp8") else method


_ALGORITHMS = {"modelopt": "FP8", "modelopt_fp4": "NVFP4", "modelopt_mxfp8": "MXFP8"}
"""Of ModelOpt's folders that say no algorithm."""


def _of_group(weights: Mapping[str, Any], inputs: Any, recipe: str) -> str:
    """The name of one group of compressed-tensors, "" for none; `inputs`: the format of activations, if it has one."""
    name = f"{'fp' if weights.get('type') == 'float' else 'int'}{weights.get('num_bits')}"
    if name == "int4":
        by = next((by for modifier, by in _BY.items() if modifier in recipe), "")
        return "int4-weight" + (by if not inputs else "")
    if name == "int8" and inputs:
        is_fixed = isinstance(inputs, Mapping) and inputs.get("dynamic") is False
        fixed = "int8-smoothquant" if "SmoothQuantModifier" in recipe else "int8-static"
        return fixed if is_fixed else "int8-dynamic"
    blocks = (name, weights.get("group_size"))
    if blocks in (("fp4", 16), ("fp8", 32)):
        return {"fp4": "nvfp4", "fp8": "mxfp8"}[name] if inputs else ""
    return "mxfp4" if blocks == ("fp4", 32) and not inputs else {"fp8": "fp8", "int8": "int8-weight"}.get(name, "")


def released_format(config: Mapping[str, Any]) -> str | None:
    """The format of weights (theory/weight_format.py) that a `quantization_config` says; None: 16 bits, or unknown."""
    kept = config.get("quantization_config")
    if not isinstance(kept, Mapping):
        return None
    method, left = str(kept.get("quant_method", "")), kept.get("modules_to_not_convert") or ()
    if method == "mxfp4":
        return "mxfp4-experts" if any("attn" in str(each) for each in left) else "mxfp4"
    if method == "fp8" and kept.get("weight_block_size"):
        return "fp8-block-128"
    if method == "bitsandbytes":
        four = "nf4-double" if kept.get("bnb_4bit_use_double_quant") else "nf4"
        return four if kept.get("load_in_4bit") else "int8"
    name = stored_precision(config)
    same = {"fp8": "fp8", "int8": "int8", "nvfp4": "nvfp4", "mxfp8": "mxfp8"}.get(name.split("-")[0])
    return same or (_int4(kept) if name.startswith("int4") else None)


def _int4(kept: Mapping[str, Any]) -> str:
    """Four bits with a scale per group; of compressed-tensors the first group of modules says its size."""
    groups = kept.get("config_groups")
    first: Mapping[str, Any] = next(iter(groups.values()), {}) if isinstance(groups, Mapping) else {}
    size = kept.get("group_size", (first.get("weights") or {}).get("group_size"))
    return "int4-g32" if size == 32 else f"{'gptq' if kept.get('quant_method') == 'gptq' else 'awq'}-int4-g128"


def scale_blocks(config: Mapping[str, Any]) -> tuple[int, int] | None:
    """Rows and columns of the weights that share one scale, in a folder of fp8 with `weight_scale_inv` beside each
    matrix, as DeepSeek-V3 and Qwen3-FP8 are released; None for any other."""
    kept = config.get("quantization_config")
    if not isinstance(kept, Mapping) or kept.get("quant_method") != "fp8" or kept.get("expert_dtype", "fp8") != "fp8":
        return None
    size = kept.get("weight_block_size")
    if not isinstance(size, list) or len(size) != 2 or any(type(each) is not int or each < 1 for each in size):
        return None
    return size[0], size[1]


def narrows_activations(config: Mapping[str, Any]) -> bool:
    """Whether a quantised folder's config has a format for activations too."""
    quantisation = config.get("quantization_config")
    quantisation = quantisation if isinstance(quantisation, dict) else {}
    groups = quantisation.get("config_groups")
    of_groups = groups.values() if isinstance(groups, dict) else ()
    if str(quantisation.get("quant_method", "")).startswith("modelopt"):
        return not stored_precision(config).startswith("modelopt")  # those that have a name here
    return "activation_scheme" in quantisation or any(group.get("input_activations") for group in of_groups)


_BY = {"AWQModifier": "-awq", "GPTQModifier": "-gptq"}
UNQUANTISED = "not quantised"
"""The word for a server that says it quantised nothing."""
QUANTISED_BY = "quantised by "
"""Before the name of a method, in a server's word for it."""
_KNOWN = sorted({"modelopt_mixed"} | {word for regime in PRECISIONS.values() for word in regime.server_words})


def contradicts(precision: str, word: str) -> bool:
    """Whether a server's word for its quantisation, such as "quantised by awq_marlin", is not that of a precision.

    A word that is not known here contradicts a precision without quantisation only.
    """
    methods = PRECISIONS[precision].server_words if precision in PRECISIONS else ()
    if word == UNQUANTISED:
        return bool(methods)
    if not word.startswith(QUANTISED_BY):  # the word for something else, such as the type of a file
        return False
    found = [method for method in _KNOWN if method in word.lower()]
    named = [method for method in found if not any(method in other for other in found if other != method)]
    return not methods or (bool(named) and not set(named) & set(methods))
