"""Errors of comparisons: `python -m benchmarks.prediction.pairs --data DIR [--write]`.

Two systems that answered the same workload in the same engine are predicted by constants that saw neither their
device, nor their model, nor their engine, each in turn. The error of the predicted ratio is less than both errors
together, because what the model misjudges of a workload it misjudges for both. `--write` keeps how far such ratios lie
from the measured ones in `planning/choose/compared.json`, by which `plan choose` declares ties.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.prediction.__main__ import parsed
from benchmarks.prediction.case import Case
from benchmarks.prediction.folds import SPLITS
from benchmarks.prediction.held_out import Predicted, by_folds, lens_of, metric_of
from twinlens.planning.choose import search
from twinlens.planning.prediction.band import FLOOR, factors, kinds_of

FILE = Path(search.__file__).with_name("compared.json")
RANKED = {"tpot": "tpot", "decode-rate": "tpot", "training step": "training step",
          "training step of experts": "training step of experts"}  # fmt: skip
"""Metrics of rows that speak for a rate by which candidates are ranked: tokens decoded, and steps of training."""
_RATES = ("decode-rate", "train-rate")
_FEW = 40


@dataclass(frozen=True, slots=True)
class Pair:
    """Two systems on one workload. `said`, `real`: logarithms of the ratio of their tokens/s of one device.

    `alone`: whether their own bands lie apart. `metric`: by which a choice ranks; `devices`: both, in order.
    """

    metric: str
    devices: tuple[str, str]
    said: float
    real: float
    alone: bool

    @property
    def error(self) -> float:
        return abs(self.said - self.real)


def main() -> None:
    ask = argparse.ArgumentParser(prog="python -m benchmarks.prediction.pairs", description=__doc__)
    ask.add_argument("--data", type=Path, required=True, help="a folder of CSV files")
    ask.add_argument("--write", action="store_true", help="keep the reach of comparisons")
    given = ask.parse_args()
    cases, _ = parsed(given.data)
    table: dict[str, dict[str, float]] = {}
    print("| ranked by | unseen | pairs | in reach | decided by own bands | wrong | decided by comparison | wrong |")
    print("|---|---|---|---|---|---|---|---|")
    for lens in ("serving", "training"):
        own = [case for case in cases if case.kind != "memory" and lens_of(case) == lens]
        for split in SPLITS:
            found = list(pairs(by_folds(own, split)))
            for metric in dict.fromkeys(each.metric for each in found):
                some = [each for each in found if each.metric == metric]
                if len(some) - max(Counter(each.devices for each in some).values()) < _FEW:
                    continue  # nothing could judge them
                table[kind_of(metric, split)] = {"reach": round(reach(some, FLOOR[lens]), 4), "pairs": len(some)}
                print(line(metric, split, some, FLOOR[lens]))
    if given.write:
        FILE.write_text(json.dumps(table, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def kind_of(metric: str, split: str) -> str:
    """The name of a split as bands have it."""
    unseen = {"device": split != "device", "engine": split != "engine", "model": split != "model"}
    return kinds_of(metric, **unseen)[0]


def pairs(found: Predicted) -> Iterator[Pair]:
    """Systems that differ in device or format, on one workload of one engine."""
    same: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for place, case in enumerate(found.cases):
        if metric_of(case) in RANKED and np.isfinite(found.value[place]):
            same[metric_of(case), case.kind, case.engine, case.model, case.batch, case.prompt, case.answer] += [place]
    for members in same.values():
        for one, two in itertools.combinations(members, 2):
            a, b = found.cases[one], found.cases[two]
            if (a.card.name, a.precision) == (b.card.name, b.precision):
                continue
            said, real = (_rate(a, first) - _rate(b, second) for first, second in
                          ((found.value[one], found.value[two]), (a.value, b.value)))  # fmt: skip
            ends = [sorted(_rate(case, end[place]) for end in (found.low, found.high))
                    for case, place in ((a, one), (b, two))]  # fmt: skip
            apart = ends[0][0] > ends[1][1] or ends[1][0] > ends[0][1]
            yield Pair(RANKED[metric_of(a)], tuple(sorted((a.card.name, b.card.name))), said, real, apart)  # type: ignore[arg-type]


def _rate(case: Case, value: float) -> float:
    """The logarithm of tokens/s of one device, but for a factor that both systems have."""
    return (math.log(value) if case.kind in _RATES else -math.log(value)) - math.log(case.devices)


def reach(some: Sequence[Pair], floor: float) -> float:
    """The factor within which 90 % of measured ratios lie of predicted ones, to either side, wider for few devices."""
    logs = [sign * (each.said - each.real) for each in some for sign in (1, -1)]
    low, high = factors(logs, floor, groups=[str(each.devices) for each in some for _ in (1, -1)])
    return max(1 / low, high)


def line(metric: str, split: str, some: Sequence[Pair], floor: float) -> str:
    """Shares of pairs within their reach, then of those that each rule decides and, of these, that it puts wrong.

    A pair is judged by a reach from pairs of other devices alone.
    """
    decided, within = [], 0
    for both in dict.fromkeys(each.devices for each in some):
        others = [each for each in some if each.devices != both]
        least, own = math.log(reach(others, floor)), [each for each in some if each.devices == both]
        within += sum(each.error <= least for each in own)
        decided += [each for each in own if abs(each.said) > least]
    alone = [each for each in some if each.alone]
    unseen = "none" if kind_of(metric, split).endswith(": seen") else split
    shares = [text for chosen in (alone, decided) for text in _shares(chosen, len(some))]
    return f"| {metric} | {unseen} | {len(some)} | {100 * within / len(some):.0f} % | {' | '.join(shares)} |"


def _shares(chosen: Sequence[Pair], of: int) -> tuple[str, str]:
    wrong = sum(each.said * each.real < 0 for each in chosen)
    return f"{100 * len(chosen) / of:.0f} %", f"{100 * wrong / len(chosen):.1f} %" if chosen else "none"


if __name__ == "__main__":
    main()
