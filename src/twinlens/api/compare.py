"""The verb that compares: sides from run folders, pairs of them, and for each pair whether and how far they differ."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from twinlens.api.runs import material_of, read
from twinlens.comparison.match import Pairs, pairs_of
from twinlens.comparison.side import Side
from twinlens.comparison.verdict import Comparison
from twinlens.comparison.verdict import compare as compare_sides
from twinlens.errors import BadInput
from twinlens.record.run import Run
from twinlens.reporting.view import LENSES, in_order, point_names
from twinlens.stats.paired.by_turns import slice_rates
from twinlens.stats.summary.group import group
from twinlens.version import __version__

Runs = str | Path | Run | Iterable[Run]


def compare(*runs: Runs) -> tuple[Comparison, ...]:
    """Compare runs: each argument is a folder, a run, or several; the first holds the baseline.

    Of one argument, its first point of each lens against its others. Training is never compared with inference: such a
    pair is a category error, and says so. Raises BadInput where there is nothing to compare.
    """
    return compared(pairs(*runs))


def pairs(*runs: Runs) -> Pairs:
    """What is compared with what: `Pairs.pairs`, and the sides that have no counterpart. Raises BadInput (TL225)."""
    if not runs:
        raise BadInput("compare what? Give two run folders, or one study of several points", code="TL225")
    folders = [sides(each, len(runs) > 1) for each in runs]
    found = pairs_of(folders)
    if not found.pairs:
        points = sum(map(len, folders))
        what = f"{points} points" if points != 1 else "one point"
        raise BadInput(
            f"there is no pair to compare: {what} in {len(runs)} folder{'s' if len(runs) > 1 else ''}; give a second "
            f"folder with a run of the same lens, model and point, or a study of several points",
            code="TL225",
        )
    return found


def compared(found: Pairs) -> tuple[Comparison, ...]:
    """A comparison for each pair; the rows are read only of runs that took turns."""
    runs = {run.id: run for pair in found.pairs for side in pair for run in side.runs}
    rates = {id: slice_rates(run) for id, run in runs.items() if run.sections.pairing and run.is_finished}
    return tuple(compare_sides(a, b, rates) for a, b in found.pairs)


def sides(runs: Runs, is_named: bool) -> tuple[Side, ...]:
    """The operating points among some runs, training first. `is_named`: with the folder's name before the point's."""
    chosen = read(runs) if isinstance(runs, str | Path) else (runs,) if isinstance(runs, Run) else tuple(runs)
    material = material_of(chosen)
    by_summary = {id(summary): run for run, summary in material}
    groups = group(summary for _, summary in material)
    folder = Path(runs) if isinstance(runs, str | Path) else chosen[0].folder if chosen else Path()
    made = []
    for lens in LENSES:
        mine = in_order([each for each in groups if each.lens == lens])
        for name, each in zip(point_names(mine), mine, strict=True):
            words = [folder.resolve().name] if is_named else []
            words += [name] if not is_named or len(groups) > 1 else []
            made.append(Side(" · ".join(words), each, tuple(by_summary[id(run)] for run in each.runs)))
    return tuple(made)


def comparison_json(comparisons: Sequence[Comparison], alone: Sequence[Side] = ()) -> dict[str, Any]:
    """As plain data, for --json."""
    return {
        "schema": 1,
        "twinlens": __version__,
        "comparisons": [each.to_json() for each in comparisons],
        "without_counterpart": [side.name for side in alone],
    }
