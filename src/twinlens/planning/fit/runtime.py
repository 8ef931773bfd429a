"""Memory of serving runtimes beside weights and cache, as measured of them or as they are set by default."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from twinlens.theory.figure import Figure, Input

GIB = 2.0**30


@dataclass(frozen=True, slots=True)
class Runtime:
    """`memory_share` of the device is used; the rest is left to other things (and to captured graphs in vLLM).

    `score_bytes`: per entry of the vocabulary and sequence, when tokens are sampled: scores, their copy in fp32, their
    sorted values with places, probabilities and sums. `sequences`: most at a time by default, on boards of at least
    70 GiB and on smaller ones. `own_bytes`: context and libraries within that share. `group_bytes`: of collectives.
    """

    name: str
    memory_share: float
    score_bytes: float
    sequences: tuple[int, int]
    chunk_tokens: int
    block: int
    own_bytes: float
    group_bytes: float
    source: str
    expert_block: int = 1
    """Routed experts in MXFP4 are padded to a multiple of this width."""
    shares_experts: bool = False
    """Whether groups with attention of their own can share the experts."""

    def most_sequences(self, memory_bytes: float) -> int:
        """Sequences that it makes room for unless it is told otherwise."""
        return self.sequences[0] if memory_bytes >= 70 * GIB else self.sequences[1]


VLLM = Runtime(
    name="vllm",
    memory_share=0.9,
    score_bytes=39.0,
    sequences=(1024, 256),
    chunk_tokens=8192,
    block=16,
    own_bytes=0.14 * GIB,
    group_bytes=1.0 * GIB,
    source="vLLM 0.11 on an H100, as llm-d-planner measured it (e50305a): 38.4 to 39.6 bytes a score, 0.13 GiB besides",
    expert_block=256,
    shares_experts=True,
)
PLAIN = Runtime(
    name="plain",
    memory_share=0.95,
    score_bytes=10.0,
    sequences=(0, 0),
    chunk_tokens=2048,
    block=1,
    own_bytes=1.0e9,
    group_bytes=1.0 * GIB,
    source="scores in 16 bits, in fp32 and as probabilities; 0.5 to 2 GB of CUDA context, taken as 1 GB",
)
RUNTIMES = {each.name: each for each in (VLLM, PLAIN)}
_ENGINES = {"plain": PLAIN, "llama.cpp": PLAIN}


def runtime_of(engine: str) -> Runtime:
    """What an engine takes beside weights and cache: of those that were not measured, as much as vLLM."""
    return _ENGINES.get(engine, VLLM)


# Memory that a run measured, as factors on the arithmetic: a part of a plan moves as that part of the run did.

SAME = {"scores": "activations"}
"""Parts that a run measures together with another."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One part of a run: what it measured over what the arithmetic says of it."""

    part: str
    times: float
    measured_bytes: float
    run: str


def measured_parts(modelled: Sequence[Figure], measured: Mapping[str, float], run: str) -> tuple[Measured, ...]:
    """Factors of the parts that the run measured. `measured`: bytes by name, and "peak" of all together.

    What the peak has beyond the parts that were measured, and those that were not, is the runtime's.
    """
    known = {each.name: float(each.value) for each in modelled if each.value}
    together = {name: value + sum(known.get(other, 0.0) for other, one in SAME.items() if one == name)
                for name, value in known.items() if name not in SAME}  # fmt: skip
    found = [
        Measured(name, measured[name] / value, measured[name], run)
        for name, value in together.items()
        if measured.get(name)
    ]
    rest = measured.get("peak", 0.0) - sum(measured.get(name, value) for name, value in together.items()
                                           if name != "runtime")  # fmt: skip
    if rest > 0 and known.get("runtime"):
        found.append(Measured("runtime", rest / known["runtime"], rest, run))
    return tuple(found)


def corrected(parts: Iterable[Figure], like: Sequence[Measured]) -> tuple[Figure, ...]:
    """The parts, each times the factor of the run, which the arithmetic then shows."""
    by_part = {each.part: each for each in like}
    return tuple(_times(part, by_part.get(SAME.get(part.name, part.name))) for part in parts)


def _times(part: Figure, own: Measured | None) -> Figure:
    if own is None or part.value is None:
        return part
    source = f"{own.run} measured {own.measured_bytes / 1e9:.4g} GB"
    return Figure(part.name, float(part.value) * own.times, "bytes", "{0} × {1}",
                  (part, Input("measured-over-modelled", own.times, "1", source)), source=source)  # fmt: skip
