"""Another simulator's published law in our engine, against the means that it published of its own.

`python -m benchmarks.simulator.published` prints docs/results/published-law.md (`--save` writes it). The law is that of
BLIS (github.com/inference-sim/inference-sim, "trained-physics", sim/latency/trained_physics_model.go), its coefficients
and expected means those of its testdata/trained_physics_iter29.json (commit 5406418): its own output, so this tests the
rules of an engine and not the truth. Its eleven dense cases; the four of a mixture of experts, whose terms were changed
between its releases, are left out.
"""

from __future__ import annotations

import argparse
import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.columns import put
from twinlens.simulation.engine import Engine
from twinlens.simulation.law import StepLaw, one
from twinlens.simulation.rules import Rules

PLACE = Path(__file__).parents[2] / "docs" / "results" / "published-law.md"
_S = 1e-6  # its times are microseconds
BEFORE_S, LAST_S, TOKEN_S = 15563.199579 * _S, 777.3455 * _S, 45.907545 * _S
"""Before the engine takes a request, after its last token, and of each token on its way (its engine does not wait)."""
_PREFILL, _WEIGHTS, _REDUCE, _READS = 0.152128, 1.36252915, 0.752037, 1.94710771
_LAYER_S, _ROW_S, _STEP_S = 32.09546717 * _S, 4.41684444 * _S, 126.024825 * _S
_FLOPS, _BYTES_PER_S = 989.5e12, 3.35e12  # its H100


@dataclass(frozen=True, slots=True)
class Model:
    """A dense decoder with weights and cache of two bytes. `kv`: width of keys."""

    layers: int
    width: int
    kv: int
    inner: int


_LLAMA_7B, _LLAMA_70B = Model(32, 4096, 4096, 11008), Model(80, 8192, 1024, 28672)
_NEMO, _QWEN, _YI = Model(40, 5120, 1280, 14336), Model(28, 3584, 512, 18944), Model(60, 7168, 1024, 20480)
"""Its own widths: Nemo's heads are 128 wide, and it takes width / heads = 160."""


@dataclass(frozen=True, slots=True)
class Load:
    """Users of each of `prompts` system prompts, who ask, wait for the answer and think. `stages`: rate and seconds."""

    prompts: int
    users: int
    answer: int
    question: int
    system: int
    stages: tuple[tuple[float, float], ...]


def _rising(low: float, high: float) -> tuple[tuple[float, float], ...]:
    return (low, 600.0), (high, 600.0)


_WORDS, _CODE = (9, 5, 248, 447, 100), (11, 4, 247, 466, 100)
_ROLES, _LONG = Load(10, 5, 251, 600, 150, ((6.0, 1200.0),)), Load(23, 1, 1448, 934, 100, ((1.0, 1200.0),))


@dataclass(frozen=True, slots=True)
class Case:
    """One of its cases. `expected_ms`: its mean TTFT, mean time between tokens, mean time to the last token."""

    id: str
    name: str
    model: Model
    devices: int
    budget: int
    blocks: int
    load: Load
    expected_ms: tuple[float, float, float]


CASES = (
    Case("20260217-155451", "Llama 2 7B", _LLAMA_7B, 1, 2048, 7463, Load(*_CODE, _rising(5, 10)),
         (31.695, 10.007, 2494.19)),
    Case("20260217-162547", "Llama 2 7B", _LLAMA_7B, 1, 2048, 7463, _ROLES, (32.041, 9.594, 2431.28)),
    Case("20260217-231439", "Llama 2 7B", _LLAMA_7B, 1, 2048, 7463, Load(*_WORDS, _rising(8, 20)),
         (36.276, 12.383, 3095.60)),
    Case("60", "Llama 3.1 70B", _LLAMA_70B, 4, 8192, 30251, Load(*_WORDS, _rising(2.5, 6)), (50.712, 17.741, 4433.45)),
    Case("61", "Llama 3.1 70B", _LLAMA_70B, 4, 2048, 30425, Load(*_CODE, _rising(5, 10)), (67.157, 18.286, 4566.28)),
    Case("62", "Mistral Nemo", _NEMO, 2, 1024, 48009, Load(*_WORDS, _rising(2.5, 6)), (26.185, 6.511, 1635.21)),
    Case("63", "Mistral Nemo", _NEMO, 1, 2048, 19251, Load(*_CODE, _rising(5, 10)), (39.300, 12.753, 3177.25)),
    Case("64", "Qwen 2.5 7B", _QWEN, 1, 2048, 65352, _ROLES, (27.801, 6.766, 1720.11)),
    Case("65", "Yi 34B", _YI, 2, 2048, 20793, Load(*_WORDS, _rising(2.5, 6)), (46.553, 16.985, 4242.51)),
    Case("66", "Qwen 2.5 7B", _QWEN, 1, 1024, 65368, _LONG, (27.946, 6.839, 9924.44)),
    Case("67", "Llama 2 7B", _LLAMA_7B, 1, 2048, 7463, _LONG, (35.130, 11.745, 17031.30)),
)  # fmt: skip


def law_of(model: Model, devices: int) -> StepLaw:
    """Its law of a step as ours: seconds fixed, per request, per token read, per token computed and per pair.

    It counts attention of a prompt as length x (prompt + length / 2), where ours counts the pairs that there are: of a
    whole prompt a third of that.
    """
    products = model.width * (2 * model.width + 2 * model.kv) + 3 * model.width * model.inner
    weights_s = model.layers * products * 2 / devices / _BYTES_PER_S
    reduce_s = 2 * model.layers * model.width * 4 * (devices - 1) / devices / _BYTES_PER_S
    read_s = model.layers * 2 * model.kv / devices * 2 / _BYTES_PER_S
    computed_s = _PREFILL * model.layers * 2 * products / devices / _FLOPS
    return one(
        fixed_s=_WEIGHTS * weights_s + _LAYER_S * model.layers + _STEP_S,
        row_s=_ROW_S + _REDUCE * reduce_s + _READS * read_s,
        context_s=_READS * read_s,
        token_s=computed_s + _REDUCE * reduce_s,
        pair_s=_PREFILL * 3 * model.layers * 4 * model.width / devices / _FLOPS,
    )


def means_ms(case: Case, share: float = 1.0, seed: int = 42) -> tuple[float, float, float]:
    """Mean TTFT, mean time between tokens and mean time to the last token, in ms, of that share of its stages."""
    rules = Rules(
        max_num_seqs=128, max_num_batched_tokens=case.budget, num_gpu_blocks=case.blocks, enable_prefix_caching=True
    )
    engine = Engine(rules, law_of(case.model, case.devices), leaps=False)
    rng, load = np.random.default_rng(seed), case.load
    due = list(_starts(load, share, rng))
    heapq.heapify(due)
    first_s, last_s, answers = [], [], {}
    while due or answers:
        if due and due[0][0] + BEFORE_S <= engine.next_s:
            at_s, group, think_s, left = heapq.heappop(due)
            prompt = load.system + load.question
            added = engine.add(at_s + BEFORE_S, prompt, load.answer, group=group, shared=load.system)
            answers[added.number] = at_s, group, think_s, left
        else:
            engine.run_until(np.nextafter(engine.next_s, np.inf))
        for ended in engine.finished:
            at_s, group, think_s, left = answers.pop(ended.number)
            first_s.append(ended.first_token_s - at_s + TOKEN_S)
            last_s.append(ended.end_s - at_s + TOKEN_S * load.answer + LAST_S)
            if left > 1:
                heapq.heappush(due, (ended.end_s + think_s, group, think_s, left - 1))
        engine.finished.clear()
    first, last = np.array(first_s), np.array(last_s)
    between = (last - LAST_S - first) / (load.answer - 1)
    return float(first.mean() * 1e3), float(between.mean() * 1e3), float(last.mean() * 1e3)


def _starts(load: Load, share: float, rng: np.random.Generator) -> Iterator[tuple[float, int, float, int]]:
    """When each user begins, the group of the prompt, seconds of thought between turns, and turns."""
    begin_s, users = 0.0, load.prompts * load.users
    for rate, seconds in load.stages:
        turns = max(round(rate * seconds * share / users), 1)
        for user in range(users):
            yield begin_s + rng.exponential(users / rate), user // load.users, users / rate, turns
        begin_s += seconds * share


@dataclass(frozen=True, slots=True)
class Row:
    """A case with our means over its own less 1: TTFT, between tokens, to the last token."""

    case: Case
    errors: tuple[float, ...]


def rows(cases: Sequence[Case] = CASES, share: float = 1.0) -> list[Row]:
    """Each case simulated."""
    found = []
    for case in cases:
        ours = means_ms(case, share)
        found.append(Row(case, tuple(our / its - 1 for our, its in zip(ours, case.expected_ms, strict=True))))
    return found


_HEAD = """# Another simulator's law in our engine

Made by `python -m benchmarks.simulator.published --save`; not edited by hand. The step law of BLIS ("trained-physics",
iteration 29) with its published coefficients, plugged in as one function; its loads of users who ask, wait and think;
our engine and rules. Its means are its own simulator's output, so the table tests rules, not the truth.

| case | model | devices | TTFT mean, ms | ours | between tokens, ms | ours | last token, ms | ours |
|---|---|---:|---:|---:|---:|---:|---:|---:|
"""


def page(found: Sequence[Row]) -> str:
    """The table, with the largest difference."""
    lines = []
    for row in found:
        cells = " | ".join(
            f"{its:.5g} | {error:+.1%}" for its, error in zip(row.case.expected_ms, row.errors, strict=True)
        )
        lines.append(f"| {row.case.id} | {row.case.name} | {row.case.devices} | {cells} |")
    largest = max(abs(error) for row in found for error in row.errors)
    return _HEAD + "\n".join(lines) + f"\n\nThe largest difference is {largest:.1%}.\n"


def main() -> None:
    """Print the page, or write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--save", action="store_true", help="write docs/results/published-law.md")
    parser.add_argument("--share", type=float, default=1.0, help="share of each stage's seconds")
    asked = parser.parse_args()
    text = page(rows(share=asked.share))
    put(text, PLACE, save=asked.save)


if __name__ == "__main__":
    main()
