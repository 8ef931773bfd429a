"""Workloads of a burn-in: those that were named, or candidates of both lenses for this machine, each as one turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import psutil

from twinlens.errors import BadInput
from twinlens.executors.registry import capabilities
from twinlens.measurement.preflight.memory import needed
from twinlens.measurement.preflight.refuse import refuse_points
from twinlens.spec.load import parse
from twinlens.spec.protocol import Protocol
from twinlens.spec.source.example import example_data
from twinlens.spec.study import RunSpec, Study
from twinlens.system.nvml import Gpu

UNUSABLE = "TL260"
_SHARE = 0.7  # of the memory that is free: what is modelled leaves workspaces and other programs out
_LEAST_TELEMETRY_S = 1.0


def turn_of(study: Study, turn_s: float) -> RunSpec:
    """The one run that every turn of a study repeats: same seed, same repeat, as long as a turn.

    Raises BadInput (TL260) for a study that is more than one point, that a fault is put into, or that is read from a
    log, and what `measure` raises for one that cannot run here.
    """
    where = f"a turn of a burn-in is one run, and {study.name}"
    points = [] if study.search is not None else study.point_runs()
    if study.search is not None:
        raise _bad(f"{where} is a search over {study.search.over}; give the value itself")
    if len(points) > 1:
        raise _bad(f"{where} has {len(points)} points; give one of them: its spec with point.precision and the like")
    if study.protocol.stall is not None or study.protocol.kill is not None:
        raise _bad(f"{where} puts a fault into what is tested; leave protocol.stall and protocol.kill out")
    if capabilities(study.executor.kind).runs == "recorded":
        raise _bad(f"{where} reads a log of {study.executor.kind}: nothing of this machine would be tested")
    found = points[0].model_copy(update={"protocol": _protocol(points[0], turn_s), "repeat": 0, "name": study.name})
    for refusal in refuse_points([found]).values():
        raise refusal
    return found


def _protocol(spec: RunSpec, turn_s: float) -> Protocol:
    asked = spec.protocol
    here = spec.lens == "inference" and capabilities(spec.executor.kind).runs == "here"
    return asked.model_copy(
        update={
            "duration_s": turn_s, "most_s": 0.0, "min_rows": 1, "steady_s": 0.0, "extend": 0, "repeats": 1,
            "retakes": 0, "ceilings": False, "pairing": "none", "guards": asked.guards or here,
            "telemetry_s": max(_LEAST_TELEMETRY_S, asked.telemetry_s),
        }
    )  # fmt: skip


def candidates(gpus: Sequence[Gpu]) -> tuple[Study, ...]:
    """Training as large as memory allows within a bound, decode at saturation and bursts of prefill: of the demo's
    model on a processor; of a model of 1 B and one of 8 B on every GPU, one after another, and on several a training
    that all of them share, which works their links."""
    if not gpus:
        return _on_processor()
    if len(gpus) == 1:
        return _on_gpu(gpus[0], "cuda", "")
    each = [study for place, gpu in enumerate(gpus) for study in _on_gpu(gpu, f"cuda:{place}", f"-{place}")]
    return (_on_all(gpus), *each)


def _on_processor() -> tuple[Study, ...]:
    free = float(psutil.virtual_memory().available)

    def training(batch: int) -> Study:
        return _named("burnin-training", "demo-training", f"workload.global_batch={batch}")

    def decode(batch: int) -> Study:
        lengths = ("workload.input_tokens.value=64", "workload.output_tokens.value=64")
        return _named("burnin-decode", "demo-inference", f"point.batch={batch}", *lengths)

    def bursts(batch: int) -> Study:
        lengths = ("workload.input_tokens.value=512", "workload.output_tokens.value=8")
        return _named("burnin-bursts", "demo-inference", f"point.batch={batch}", *lengths)

    return _largest(training, 4, free), _largest(decode, 16, free), _largest(bursts, 4, free)


def _on_all(gpus: Sequence[Gpu]) -> Study:
    """Data-parallel training on all GPUs: each step ends with an all-reduce of the gradients over their links."""
    free = min(map(_free_bytes, gpus))
    ranks = (f"executor.options.ranks={len(gpus)}", "executor.device=cuda", "point.precision=bf16")

    def training(batch: int) -> Study:
        sizes = (f"workload.global_batch={batch * len(gpus)}", f"point.microbatch={batch}")
        return _named("burnin-all", "parallel", *ranks, *sizes, "workload.model=llama-3.2-1b", "workload.seq_len=2048")

    return _largest(training, 16, free)


def _free_bytes(gpu: Gpu) -> float:
    memory = gpu.ask("nvmlDeviceGetMemoryInfo")
    return float(memory.free) if memory is not None else 0.0


def _on_gpu(gpu: Gpu, device: str, end: str) -> tuple[Study, ...]:
    free = _free_bytes(gpu)
    cuda, bf16 = f"executor.device={device}", "point.precision=bf16"

    def training(batch: int) -> Study:
        sizes = (f"workload.global_batch={batch}", f"point.microbatch={batch}")
        return _named(f"burnin-training{end}", "gpu-training", cuda, bf16, *sizes)

    def decode(batch: int) -> Study:
        return _named(f"burnin-decode{end}", "gpu-inference", cuda, bf16, f"point.batch={batch}")

    def bursts(batch: int) -> Study:
        lengths = ("workload.input_tokens.value=2048", "workload.output_tokens.value=8")
        return _named(f"burnin-bursts{end}", "gpu-inference", cuda, bf16, f"point.batch={batch}", *lengths)

    return _largest(training, 16, free), _largest(decode, 128, free), _largest(bursts, 16, free)


def _largest(of: Callable[[int], Study], most: int, free_bytes: float) -> Study:
    """With the largest batch, halved from `most`, whose modelled memory fits in its share of what is free."""
    batch = most
    while batch > 1:
        bytes_, _ = needed(of(batch).point_runs()[0])
        if bytes_ is not None and bytes_ <= _SHARE * free_bytes:
            break
        batch //= 2
    return of(batch)


def _named(name: str, example: str, *settings: str) -> Study:
    """A shipped example at one point, under another name."""
    data = example_data(example)
    data.pop("sweep", None)
    protocol = {"guards": True} if data["workload"]["kind"] == "inference" else {}
    return parse(data | {"name": name, "protocol": protocol}, settings, where=f"the example {example!r}")


def _bad(sentence: str) -> BadInput:
    return BadInput(sentence, code=UNUSABLE)
