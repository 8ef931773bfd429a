"""A model folder made narrower by llm-compressor. A script for a Python that has it, so it imports nothing of Twinlens.

The order is JSON on the input: `source`, `folder`, `modifiers`, `weights`, `inputs`, `dtype`, `texts` or `ids`, and
`length`.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def main() -> None:
    """Write the quantised weights and their config into `folder`."""
    order = json.load(sys.stdin)
    import torch
    from llmcompressor import oneshot
    from transformers import AutoModelForCausalLM

    model: Any = AutoModelForCausalLM.from_pretrained(
        order["source"], dtype=getattr(torch, order["dtype"]), local_files_only=True, trust_remote_code=False
    )
    if not torch.accelerator.is_available():
        _leave_memory_pageable()
    prompts = prompts_of(order)
    calibrated = {} if prompts is None else {
        "dataset": _dataset(prompts), "num_calibration_samples": len(prompts), "max_seq_length": order["length"],
        "shuffle_calibration_samples": False,
    }  # fmt: skip
    oneshot(model=model, recipe=_recipe(order), **calibrated)
    model.save_pretrained(order["folder"], save_compressed=True)


def _leave_memory_pageable() -> None:
    """AWQ of llm-compressor 0.14 pins memory for an accelerator, and torch raises where there is none."""
    from llmcompressor.pipelines.cache import IntermediatesCache

    IntermediatesCache.pin_memory = lambda *_: None


def prompts_of(order: dict[str, Any]) -> list[list[int]] | None:
    """Token ids of each prompt; texts become tokens by the folder's own tokenizer. None where there is none."""
    if order["ids"]:
        ids: list[list[int]] = order["ids"]
        return ids
    if not order["texts"]:
        return None
    from transformers import AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(order["source"], local_files_only=True, trust_remote_code=False)
    return [tokenizer(text, truncation=True, max_length=order["length"])["input_ids"] for text in order["texts"]]


def _dataset(prompts: list[list[int]]) -> Any:
    from datasets import Dataset

    return Dataset.from_dict({"input_ids": prompts, "attention_mask": [[1] * len(each) for each in prompts]})


def _recipe(order: dict[str, Any]) -> list[Any]:
    """All linear layers but the output layer, as is usual. The last modifier quantises, those before it prepare."""
    from llmcompressor.modifiers.gptq import GPTQModifier
    from llmcompressor.modifiers.quantization import QuantizationModifier
    from llmcompressor.modifiers.transform.awq import AWQModifier
    from llmcompressor.modifiers.transform.smoothquant import SmoothQuantModifier

    known = {each.__name__: each for each in (GPTQModifier, QuantizationModifier, AWQModifier, SmoothQuantModifier)}
    *before, last = (known[name] for name in order["modifiers"])
    group = {"targets": ["Linear"], "weights": order["weights"], "input_activations": order["inputs"]}
    return [*(each() for each in before), last(config_groups={"group_0": group}, ignore=["lm_head"])]


if __name__ == "__main__":
    main()
