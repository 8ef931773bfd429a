"""Memory of serving runtimes beside weights and cache, as measured of them or as they are set by default."""

from __future__ import annotations

from dataclasses import dataclass

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
