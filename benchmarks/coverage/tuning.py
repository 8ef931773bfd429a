"""How often a tuning claims a gain, finds one and states it rightly, where the truth is known.

`python -m benchmarks.coverage.tuning` prints the table of docs/results/coverage-tuning.md (`--save` writes it). A world
is a space of 50 candidates whose gains are known; a slice has lognormal noise, a fresh process a level of its own, and
the machine may drift while it is searched. The search is the program's own, on these values in place of runs.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.columns import put
from benchmarks.published import FOLDER
from twinlens.spec.load import parse
from twinlens.tuning.bound import Bound, bound_of
from twinlens.tuning.effects import setting_effects
from twinlens.tuning.ledger import Begun, Ledger, Margin, Standing, Trial
from twinlens.tuning.proof import judged, ratio_of_pairs
from twinlens.tuning.search import Search, Seen, Up, gains, search

PLACE = FOLDER / "coverage-tuning.md"
NOISE, PROCESS, SLICES, REPEATS = 0.04, 0.01, 16, 5
GRID = 16
"""Rounds that a full grid gives each of the 50 candidates: as many as the race gives one that it cannot tell apart."""
Gain = Callable[[Mapping[str, Any]], float]


@dataclass(frozen=True, slots=True)
class World:
    """A truth. `gain`: the log gain of a candidate over the default; `drift`: of the machine over 400 slices."""

    name: str
    gain: Gain
    drift: float = 0.0
    sampler: str = "tpe"


def _nothing(settings: Mapping[str, Any]) -> float:
    return 0.0


def _one_setting(settings: Mapping[str, Any]) -> float:
    return math.log(1.05) if settings.get("max_sequences") == 64 else 0.0


def _one_candidate(settings: Mapping[str, Any]) -> float:
    is_it = settings.get("max_sequences") == 64 and settings.get("max_batched_tokens") == 4096
    return math.log(1.05) if is_it and "chunked_prefill" in settings else 0.0


WORLDS = (
    World("nothing differs", _nothing),
    World("nothing differs, the machine slows by 10 %", _nothing, 0.1),
    World("one value of a setting is worth 5 %", _one_setting),
    World("one value of a setting is worth 5 %, the machine slows by 10 %", _one_setting, 0.1),
    World("one value of a setting is worth 5 %, candidates by chance", _one_setting, sampler="random"),
    World("one candidate of 50 is worth 5 %, every one of them tried", _one_candidate, sampler="random"),
)


class Laws:
    """A runner whose slices are drawn. A value depends on the trial, its round and the seed alone, and the drift on
    how many slices were worked before."""

    def __init__(self, world: World, seed: int, before: Callable[[], None] = lambda: None) -> None:
        self._world, self._seed, self._before = world, seed, before
        self._up: set[int] = set()
        self.slices = 0

    def is_up(self, trial: Trial) -> bool:
        return trial.number in self._up

    def start(self, trial: Trial) -> Up:
        self._before()
        self._up.add(trial.number)
        return Up("", 1.0, {})

    def round(self, trial: Trial, number: int, place: int) -> Seen:
        self._before()
        rng = np.random.default_rng([self._seed, trial.number, number])
        level = self._world.gain(trial.settings) + float(rng.normal(0, NOISE))
        self.slices += 1
        return Seen(100 * math.exp(level - self._world.drift * self.slices / 400), 1.0)

    def margins(self, trial: Trial, default: Trial) -> tuple[Margin, ...]:
        return ()

    def end(self, trial: Trial) -> float:
        self._before()
        self._up.discard(trial.number)
        return 0.0


def bound(sampler: str = "tpe", trials: int = 50, slots: int = 8, seed: int = 0) -> Bound:
    """A bound of 50 candidates of a server."""
    return bound_of(
        parse(
            {
                "name": "known", "executor": {"kind": "vllm"},
                "workload": {"kind": "inference", "model": "tiny", "arrival": {"kind": "closed"}},
                "point": {"precision": "bf16", "concurrency": 4},
                "tune": {
                    "space": {
                        "max_sequences": [8, 16, 32, 64, 128], "max_batched_tokens": [1024, 2048, 4096, 8192, 16384],
                        "chunked_prefill": [False, True],
                    },
                    "budget": {"trials": trials, "wall_h": 100.0, "device_h": 100.0}, "sampler": sampler,
                    "slots": slots, "most_rounds": GRID, "least_gain": 0.05, "seed": seed,
                },
            }
        )
    )  # fmt: skip


def searched(world: World, seed: int, of: Bound, folder: Path) -> tuple[Standing, int]:
    """A search to its end, and how many slices it took."""
    ledger, laws = Ledger(folder), Laws(world, seed)
    if ledger.is_new:
        ledger.add(Begun(of.asked, "", ""))
    standing = search(Search(of, ledger, laws, lambda settings: "", lambda standing, words: None))
    return standing, laws.slices


@dataclass(frozen=True, slots=True)
class Outcome:
    """One study. `claimed`: a gain; `found`: a gain that is there; `covered`: whether the ratio of the proof has the
    truth; `excess`: the log gain as searched, less the truth; `effects`: whether the interval of each setting's value
    has its truth, where it has one."""

    claimed: bool
    found: bool
    covered: bool | None
    slices: int
    excess: float | None
    effects: tuple[bool, ...] = ()


def studied(world: World, seed: int) -> Outcome:
    """A search and its proof."""
    of = replace_sampler(bound(seed=seed), world.sampler)
    with tempfile.TemporaryDirectory() as place:
        standing, slices = searched(world, seed, of, Path(place))
    winner, effects = standing.trials[standing.leader], tuple(_effects_held(world, of, standing))
    if not winner.settings:
        return Outcome(False, False, None, slices, None, effects)
    truth = world.gain(winner.settings)
    proof = judged(of, ratio_of_pairs(proof_pairs(truth, np.random.default_rng([seed, 77]))))
    low, high = proof.ratio.low or 0.0, proof.ratio.high or math.inf
    both = sorted(winner.values.keys() & standing.trials[0].values.keys())
    seen = float(np.mean([math.log(winner.values[i] / standing.trials[0].values[i]) for i in both]))
    claimed = proof.verdict == "gain"
    return Outcome(claimed, claimed and truth > 0, low <= math.exp(truth) <= high, slices, seen - truth, effects)


def _effects_held(world: World, of: Bound, standing: Standing) -> Iterator[bool]:
    """Of each value of a setting with an interval, whether it has the truth; a world of one candidate has none."""
    if world.gain is _one_candidate:
        return
    for each in setting_effects(standing.trials, gains(of, standing), of.objective.sign):
        if each.ratio.low is not None and each.ratio.high is not None:
            yield each.ratio.low <= math.exp(world.gain({each.setting: each.value})) <= each.ratio.high


def proof_pairs(truth: float, rng: np.random.Generator) -> list[tuple[float, float]]:
    """Values of the default and the winner in each repeat: fresh processes of `SLICES` slices each."""
    spread = math.hypot(PROCESS, NOISE / math.sqrt(SLICES))
    return [tuple(np.exp(rng.normal([0.0, truth], spread))) for _ in range(REPEATS)]  # type: ignore[misc]


def replace_sampler(of: Bound, sampler: str) -> Bound:
    """The same bound with another sampler."""
    return replace(of, tune=of.tune.model_copy(update={"sampler": sampler}))


_HEAD = """# What a tuning claims, finds and states, where the truth is known

By simulation, {count:,} tunings a line. Made by `python -m benchmarks.coverage.tuning --save`; nothing in it depends on
the machine that makes it. A space of 50 candidates, 50 trials, 8 candidates at a time, slices with noise of
{noise:.0%}; the proof has {repeats} repeats of the default and the winner, {slices} slices each, and fresh processes
that differ by {process:.0%}. A full grid that gives every candidate the {grid} rounds which the race gives one that it
cannot tell apart takes {full} slices.

| the truth | gain claimed | and there | the gain holds the truth | effects do | slices | of a grid | search too high |
|---|--:|--:|--:|--:|--:|--:|--:|
"""


def table(count: int, workers: int) -> str:
    """The page."""
    head = _HEAD.format(count=count, noise=NOISE, repeats=REPEATS, slices=SLICES, process=PROCESS, grid=GRID,
                        full=50 * GRID)  # fmt: skip
    lines = []
    with ProcessPoolExecutor(workers) as pool:
        for world in WORLDS:
            lines.append(_line(world, list(pool.map(partial(studied, world), range(count), chunksize=5))))
            print(lines[-1], flush=True)
    return head + "\n".join(lines) + "\n"


def _line(world: World, found: Sequence[Outcome]) -> str:
    stated = [each.covered for each in found if each.covered is not None]
    over = [each.excess for each in found if each.excess is not None]
    slices = float(np.mean([each.slices for each in found]))
    there = "–" if world.gain is _nothing else f"{np.mean([each.found for each in found]):.1%}"
    effects = [each for one in found for each in one.effects]
    told = f"{np.mean(effects):.1%} of {len(effects)}" if effects else "–"
    held = f"{np.mean(stated):.1%} of {len(stated)}" if stated else "–"
    return (
        f"| {world.name} | {np.mean([each.claimed for each in found]):.1%} | {there} | {held} | {told} | "
        f"{slices:.0f} | {slices / (50 * GRID):.0%} | {np.mean(over):.1%} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--save", action="store_true")
    asked = parser.parse_args()
    text = table(asked.count, asked.workers)
    put(text, PLACE, save=asked.save)


if __name__ == "__main__":
    main()
