"""Work of torch for executors that are none, in a process of its own (in_process/torch_work.py): weights as a folder,
random images, the fp32 reference of an engine or of a served folder, ceilings. Needs torch."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from twinlens.errors import BadInput
from twinlens.executors.torch.ceiling.rates import deciding_ceilings, own_shapes
from twinlens.executors.torch.evidence.inference import reference_logits
from twinlens.executors.torch.evidence.memory import hardware_formats
from twinlens.executors.torch.evidence.work import ceilings_at
from twinlens.executors.torch.model.build import build_model, set_threads
from twinlens.executors.torch.model.data import images
from twinlens.executors.torch.model.folder import byte_level
from twinlens.record.codec import encode
from twinlens.spec.model.any_model import any_model
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import InferenceWorkload

_CPU = torch.device("cpu")
_IMAGES = 16


def main() -> None:
    """An order as JSON on the input, and its answer in the file that it names: `{"spec": …, "answer": file, …}`, or
    `{"folder": …, "answer": file, "threads": …}` with `scores` and `top` or `answers` and `most_tokens`."""
    asked = json.load(sys.stdin)
    try:
        answer = _of_folder(asked) if "folder" in asked else _work(RunSpec.model_validate(asked["spec"]), asked)
    except BadInput as refused:
        answer = {"refused": str(refused), "code": refused.code}
    Path(asked["answer"]).write_text(json.dumps(answer), encoding="utf-8")


def _work(spec: RunSpec, asked: dict[str, Any]) -> dict[str, Any]:
    threads = set_threads(asked.get("threads", 0))
    ref = spec.model.known()
    if path := asked.get("images"):
        np.save(path, images(ref, max(_IMAGES, spec.point.batch), _CPU, spec.seed).numpy())
        return {}
    if folder := asked.get("weights"):
        _write(build_model(ref, "sdpa", spec.protocol.seed, _CPU), Path(folder))
        return {}
    if path := asked.get("reference"):
        sample = torch.from_numpy(np.load(asked["sample"], allow_pickle=False))
        model = build_model(ref, "sdpa", spec.protocol.seed, _CPU).eval()
        np.save(path, torch.stack(reference_logits(model, sample)).numpy())
        del model
    return {
        "ceilings": {name: encode(estimate) for name, estimate in _ceilings(spec, asked, threads).items()},
        "support": hardware_formats(),
        "version": str(torch.__version__),
    }


def _ceilings(spec: RunSpec, asked: dict[str, Any], threads: int) -> dict[str, Any]:
    regime = spec.precision
    if asked.get("again"):
        return deciding_ceilings(regime.compute, "cpu", serving=True, threads=threads)
    if asked.get("linears") is None:
        return {}
    linears = [(int(out), int(width), str(stored)) for out, width, stored in asked["linears"]]
    workload = spec.workload
    assert isinstance(workload, InferenceWorkload)
    sizes = [(out, width) for out, width, _ in linears]
    gemm = own_shapes(spec.model.shape, sizes, spec.point.batch, workload.input_tokens.max)
    weights = regime.classes("inference")["weights"]
    return ceilings_at(regime, "cpu", linears, gemm, weights=weights, threads=threads)


def _write(model: Any, folder: Path) -> None:
    """Exporters want a tokenizer and an end of a sequence beside the weights; answers have the length asked for."""
    import transformers

    if not hasattr(model.config, "vocab_size"):  # a classifier of images
        model.save_pretrained(folder, safe_serialization=True)
        return
    if model.config.eos_token_id is None:
        model.config.eos_token_id = 0
    model.generation_config = transformers.GenerationConfig(do_sample=False)
    model.save_pretrained(folder, safe_serialization=True)
    tokenizer = byte_level(int(model.config.vocab_size))
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(folder)


def _of_folder(asked: dict[str, Any]) -> Any:
    """The fp32 reference of a served folder: log probabilities of prompts, or greedy answers to them."""
    set_threads(asked["threads"])
    model = _model(asked["folder"])
    return _scores(model, asked) if "scores" in asked else _answers(model, asked)


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
