"""The fp32 reference of a served folder: log probabilities of prompts, greedy answers to them. Needs torch.

Run in a process of its own by executors/fidelity/here.py.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch

from twinlens.errors import BadInput
from twinlens.executors.torch.evidence.fidelity import reference_logits
from twinlens.executors.torch.model.build import build_model, set_threads
from twinlens.spec.model.any_model import any_model

_CPU = torch.device("cpu")


def main() -> None:
    """`{"folder": …, "answer": file, "threads": …}` on the input, with `scores` and `top` or `answers` and
    `most_tokens`."""
    asked = json.load(sys.stdin)
    set_threads(asked["threads"])
    try:
        model = _model(asked["folder"])
        told: Any = _scores(model, asked) if "scores" in asked else _answers(model, asked)
    except BadInput as refused:
        told = {"refused": str(refused)}
    Path(asked["answer"]).write_text(json.dumps(told), encoding="utf-8")


def _model(folder: str) -> Any:
    ref = any_model(folder)
    try:
        return build_model(ref, "sdpa", 0, _CPU).eval()
    except BadInput as refused:
        if "attention" not in str(refused):
            raise
        return build_model(ref, "eager", 0, _CPU).eval()


def _scores(model: Any, asked: dict[str, Any]) -> list[list[list[tuple[int, float]]]]:
    """For each prompt and each token but the first: the most likely tokens there and the token itself."""
    told = []
    for prompt in asked["scores"]:
        (logits,) = reference_logits(model, torch.tensor([prompt]))
        before = logits[:-1]
        values, tokens = before.topk(min(asked["top"], before.shape[-1]))
        own = before[torch.arange(len(before)), torch.tensor(prompt[1:])]
        places = []
        for i, following in enumerate(prompt[1:]):
            place = dict(zip(tokens[i].tolist(), values[i].tolist(), strict=True))
            places.append(list((place | {following: float(own[i])}).items()))
        told.append(places)
    return told


def _answers(model: Any, asked: dict[str, Any]) -> list[dict[str, Any]]:
    from transformers import AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(asked["folder"], local_files_only=True, trust_remote_code=False)
    told = []
    for prompt in asked["answers"]:
        ids = torch.tensor([tokenizer(prompt)["input_ids"]])
        with torch.inference_mode():
            whole = model.generate(
                ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=asked["most_tokens"]
            )
        answer = whole[0, ids.shape[1] :].tolist()
        beginnings = [tokenizer.decode(answer[: i + 1], skip_special_tokens=True) for i in range(len(answer))]
        cut = len(answer) == asked["most_tokens"]
        told.append({"beginnings": beginnings, "cut": cut, "prompt_tokens": ids.shape[1]})
    return told
