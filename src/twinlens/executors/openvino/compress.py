"""Narrower weights of a decoder's graph, by nncf: rounded, or calibrated on prompts. Needs nncf; run by convert.py."""

from __future__ import annotations

from typing import Any

import numpy as np

PROMPTS = "calibration.npy"
_GROUP = 32
_CALIBRATED: dict[str, dict[str, bool]] = {"int4-weight-gptq": {"gptq": True}, "int4-weight-awq": {"awq": True}}


def compressed(graph: Any, precision: str, prompts: np.ndarray | None) -> Any:
    """The graph at this precision; `prompts` (count, length) token ids where it is calibrated."""
    import nncf

    if precision == "int8-weight":
        return nncf.compress_weights(graph, mode=nncf.CompressWeightsMode.INT8_SYM)
    if precision == "int8-smoothquant":
        return _smooth(graph, prompts)
    how: dict[str, Any] = dict(_CALIBRATED.get(precision, {}))
    if how and prompts is not None:
        how |= {"dataset": _dataset(prompts), "subset_size": len(prompts)}
    mode = nncf.CompressWeightsMode.INT4_ASYM
    return nncf.compress_weights(graph, mode=mode, group_size=_GROUP, ratio=1.0, all_layers=True, **how)


def _smooth(graph: Any, prompts: np.ndarray | None) -> Any:
    """Weights and activations in 8 bits; outliers of activations are moved into the weights first."""
    import nncf

    assert prompts is not None
    return nncf.quantize(
        graph, _dataset(prompts), subset_size=len(prompts), model_type=nncf.ModelType.TRANSFORMER
    )  # for transformers it smooths by default


def _dataset(prompts: np.ndarray) -> Any:
    """Each prompt whole, as a prefill that keeps the last position's logits."""
    import nncf

    length = prompts.shape[1]
    fixed = {
        "position_ids": np.arange(length)[None],
        "keep": np.array([length - 1]),
        "beam_idx": np.zeros(1, np.int32),
    }
    return nncf.Dataset([{"input_ids": prompt[None], **fixed} for prompt in prompts])
