"""Real tunings, published: the answer of each, its trials, and what was asked.

`python -m benchmarks.tuned FOLDER...` prints docs/results/tuning.md from folders of `twinlens tune` (`--save` writes
it). The measuring itself is `twinlens tune` of a shipped example; the command of each stands in the page.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import twinlens as tl
from benchmarks.columns import put
from benchmarks.published import FOLDER
from twinlens.record.store import find_runs

PLACE = FOLDER / "tuning.md"
_HEAD = """# Real tunings within a bound

Made by `python -m benchmarks.tuned FOLDER... --save` from folders of `twinlens tune`. What such an answer is worth, by
simulation: [coverage-tuning.md](coverage-tuning.md). How to read it: [tuning.md](../tuning.md).
"""


def page(folders: Sequence[Path], beside: str) -> str:
    """The page, a part for each tuning. `beside`: what else the machine did, in a sentence."""
    return "\n".join([_HEAD, *filter(None, [f"{beside}\n" if beside else ""]), *(_part(folder) for folder in folders)])


def _part(folder: Path) -> str:
    found = tl.tuned(folder)
    study, tune = found.tuning.bound.study, found.tuning.bound.tune
    runs = find_runs(folder)
    space = ", ".join(f"`{name}` {list(values)}" for name, (_, values) in found.tuning.bound.space.items())
    machine = next(
        (str(run.facts.executor.value("host.cpu.model")) for run in runs if run.facts is not None), "not said"
    )
    day = min(run.started_utc for run in runs)[:10]
    head = (
        f"## {study.name}\n\nMeasured on {day}, {machine}, two cores. Space: {space}; {tune.budget.trials} trials, "
        f"{tune.budget.wall_h:g} h, {tune.proof.repeats} repeats of the proof.\n"
    )
    return f"{head}\n{_lower(found.to_markdown())}"


def _lower(text: str) -> str:
    """The answer without its own head, its parts one level lower."""
    lines = text.splitlines()
    first = next((place for place, line in enumerate(lines) if line.startswith("# ")), -1) + 1
    return "\n".join(f"#{line}" if line.startswith("##") else line for line in lines[first:]).strip() + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--beside", default="", help="what else the machine did, in a sentence")
    parser.add_argument("--save", action="store_true")
    asked = parser.parse_args()
    put(page(asked.folders, asked.beside), PLACE, save=asked.save)


if __name__ == "__main__":
    main()
