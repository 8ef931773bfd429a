"""A table of coverage told line by line as it is simulated, and saved where that is asked for."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.columns import folded


def told(
    name: str, words: str | None, flag: str, count: int, lines: Callable[[int], Iterator[str]], place: Path
) -> None:
    """The command of one table: `python -m benchmarks.coverage.NAME [--FLAG COUNT] [--save]`.

    `lines`: of the table, from how many simulations each has. `place`: where `--save` writes it.
    """
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.coverage.{name}", description=words)
    parser.add_argument(f"--{flag}", dest="count", type=int, default=count)
    parser.add_argument("--save", action="store_true")
    asked = parser.parse_args()
    kept = []
    for each in lines(asked.count):
        print(each, flush=True)
        kept.append(each)
    if asked.save:
        place.write_text(folded("\n".join(kept) + "\n"), encoding="utf-8")
