"""The peer's side of `peers.py`, run by the peer's own Python: one JSON request per line in, one answer per line out.

`optimum` runs optimum-benchmark as its user would and passes on what it reports. `bare` does the same work with
transformers alone, timed from outside by one pair of clock readings around many steps: the truth to compare with.
Imports nothing of Twinlens.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
DTYPES = {"fp32": "float32", "bf16": "bfloat16"}
_models: dict[str, Any] = {}


def main() -> None:
    channel = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print never comes between our lines
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            answer = WORK[asked["tool"], asked["lens"]](asked)
        except Exception as error:  # the boundary: the reason is the answer
            answer = {"error": f"{type(error).__name__}: {str(error).strip().splitlines()[-1]}"}
        channel.write(json.dumps(answer) + "\n")


def versions(asked: dict[str, Any]) -> dict[str, Any]:
    import torch
    import transformers

    torch.set_num_threads(asked["threads"])
    found = {"torch": torch.__version__, "transformers": transformers.__version__, "threads": torch.get_num_threads()}
    from optimum_benchmark.backends.pytorch.backend import PyTorchBackend  # noqa: F401
    from optimum_benchmark.version import __version__

    return found | {"optimum-benchmark": __version__}


def optimum_inference(asked: dict[str, Any]) -> dict[str, float]:
    from optimum_benchmark import InferenceConfig

    length = {"max_new_tokens": asked["answer"], "min_new_tokens": asked["answer"]}
    shapes = {"batch_size": 1, "sequence_length": asked["prompt"]}
    scenario = InferenceConfig(
        iterations=asked["count"], duration=0, warmup_runs=1, input_shapes=shapes, generate_kwargs=length
    )
    report = _launched(asked, scenario, DTYPES[asked["precision"]])
    return {
        "prefill_s": float(report.prefill.latency.mean),
        "tpot_s": float(report.decode.latency.mean) / (asked["answer"] - 1),
        "decode_tokens_per_s": float(report.decode.throughput.value),
        "per_token_s": float(report.per_token.latency.mean),
        "per_token_count": report.per_token.latency.count,
        "generate_s": float(report.generate.latency.mean),
        "generate_samples_per_s": float(report.generate.throughput.value),
    }


def optimum_training(asked: dict[str, Any]) -> dict[str, float]:
    from optimum_benchmark import TrainingConfig

    arguments = {"output_dir": asked["folder"] + "/trainer", "per_device_train_batch_size": asked["batch"]}
    arguments |= {"max_grad_norm": 0.0, "bf16": asked["precision"] == "bf16"}
    scenario = TrainingConfig(
        max_steps=asked["steps"] + asked["warmup"],
        warmup_steps=asked["warmup"],
        dataset_shapes={"dataset_size": 500, "sequence_length": asked["seq_len"]},
        training_arguments=arguments,
    )
    report = _launched(asked, scenario, "float32")
    return {
        "step_s": float(report.train.latency.mean),
        "samples_per_s": float(report.train.throughput.value),
        "steps": report.train.latency.count,
    }


def bare_inference(asked: dict[str, Any]) -> dict[str, float]:
    import torch

    model, prompt = _model(asked), torch.randint(0, 8192, (1, asked["prompt"]))
    mask = torch.ones_like(prompt)

    def wall_s(tokens: int, count: int) -> float:
        begin_s = time.perf_counter()
        with torch.inference_mode():
            for _ in range(count):
                model.generate(
                    input_ids=prompt, attention_mask=mask, max_new_tokens=tokens, min_new_tokens=tokens, do_sample=False
                )
        return (time.perf_counter() - begin_s) / count

    wall_s(2, 1)
    prefill_s, generate_s = wall_s(1, asked["count"]), wall_s(asked["answer"], asked["count"])
    return {
        "prefill_s": prefill_s,
        "generate_s": generate_s,
        "tpot_s": (generate_s - prefill_s) / (asked["answer"] - 1),
    }


def bare_training(asked: dict[str, Any]) -> dict[str, float]:
    import torch

    model = _model(asked | {"precision": "fp32"}).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5, fused=True)

    def step() -> None:
        tokens = torch.randint(0, 8192, (asked["batch"], asked["seq_len"]))
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=asked["precision"] == "bf16"):
            loss = model(input_ids=tokens, attention_mask=torch.ones_like(tokens), labels=tokens).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    for _ in range(asked["warmup"]):
        step()
    begin_s = time.perf_counter()
    for _ in range(asked["steps"]):
        step()
    step_s = (time.perf_counter() - begin_s) / asked["steps"]
    return {"step_s": step_s, "samples_per_s": asked["batch"] / step_s}


def _launched(asked: dict[str, Any], scenario: Any, dtype: str) -> Any:
    import torch
    from optimum_benchmark import Benchmark, BenchmarkConfig, InlineConfig, PyTorchConfig

    backend = PyTorchConfig(
        model=asked["folder"],
        device="cpu",
        task="text-generation",
        library="transformers",
        model_type="llama",
        torch_dtype=dtype,
    )
    # Threads are set here: the tool's intra_op_num_threads sets the inter-op pool, and the other way round.
    torch.set_num_threads(asked["threads"])
    return Benchmark.run(BenchmarkConfig(name="peer", launcher=InlineConfig(), backend=backend, scenario=scenario))


def _model(asked: dict[str, Any]) -> Any:
    import torch
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(asked["threads"])
    if asked["precision"] not in _models:
        dtype = getattr(torch, DTYPES[asked["precision"]])
        _models[asked["precision"]] = AutoModelForCausalLM.from_pretrained(asked["folder"], torch_dtype=dtype).eval()
    return _models[asked["precision"]]


WORK = {
    ("optimum", "versions"): versions,
    ("optimum", "inference"): optimum_inference,
    ("optimum", "training"): optimum_training,
    ("bare", "inference"): bare_inference,
    ("bare", "training"): bare_training,
}

if __name__ == "__main__":
    main()
