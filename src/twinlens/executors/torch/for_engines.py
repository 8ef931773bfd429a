"""Work for engines that are not torch: weights as a folder, the fp32 reference, random images, ceilings. Needs torch.

Run in a process of its own by in_process/torch_work.py.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from twinlens.errors import BadInput
from twinlens.executors.torch.ceiling.own_shapes import own_shapes
from twinlens.executors.torch.ceiling.rates import ceilings_for, deciding_ceilings
from twinlens.executors.torch.evidence.fidelity import reference_logits
from twinlens.executors.torch.evidence.resident import hardware_formats
from twinlens.executors.torch.model.build import build_model, set_threads
from twinlens.executors.torch.model.data import images
from twinlens.executors.torch.model.folder import byte_level
from twinlens.record.codec import encode
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import InferenceWorkload

_CPU = torch.device("cpu")
_LAYOUT = {"int8-dynamic": "dynamic", "int8-weight": "packed", "int4-weight": "packed"}
_IMAGES = 16


def main() -> None:
    """`{"spec": …, "answer": file, …}` on the input; see `in_process/torch_work.py` for what else it takes."""
    asked = json.load(sys.stdin)
    spec = RunSpec.model_validate(asked["spec"])
    try:
        answer = _work(spec, asked)
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
    layout = _LAYOUT.get(regime.name)
    found = ceilings_for(regime.compute, linears, gemm, "cpu", weights=weights, layout=layout, threads=threads)
    return {name: estimate for name, estimate in found.items() if linears or not name.startswith("matvec")}


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
