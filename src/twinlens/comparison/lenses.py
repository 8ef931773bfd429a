"""Training beside inference: what one change does in each lens, two columns that are never put into one number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from twinlens.comparison.verdict import Comparison


@dataclass(frozen=True, slots=True)
class LensRow:
    """One change of one model, such as bf16 against fp32; None in a lens in which no such pair was measured."""

    model: str
    change: str
    training: Comparison | None
    inference: Comparison | None


def lens_rows(comparisons: Sequence[Comparison]) -> tuple[LensRow, ...]:
    """A row for each change, in the order given; several pairs of one lens and one change are a row each.

    A change is two precisions, or two folders of one precision; of two machines it says both.
    """
    found: dict[tuple[str, str], dict[str, list[Comparison]]] = {}
    for each in comparisons:
        if each.a.lens == each.b.lens:
            found.setdefault((each.b.group.model, change_of(each)), {}).setdefault(each.a.lens, []).append(each)
    rows: list[LensRow] = []
    for (model, change), lenses in found.items():
        training, inference = lenses.get("training", []), lenses.get("inference", [])
        rows += [LensRow(model, change, *pair) for pair in zip_longest(training, inference)]
    return tuple(rows)


def change_of(each: Comparison) -> str:
    """The change that a pair is about: "bf16 against fp32", "bf16 · after against before"; of two machines, both."""
    a, b = each.a.group, each.b.group
    precisions = [str(group.point["precision"]) for group in (b, a)]
    same = precisions[0] == precisions[1]
    folders = f"{each.b.folder} against {each.a.folder}" if each.a.folder != each.b.folder else ""
    told = precisions[0] if same else " against ".join(precisions)
    machines = [group.machine.name if group.machine else "unknown" for group in (b, a)]
    ids = {group.machine.id if group.machine else None for group in (a, b)}
    where = "" if len(ids) == 1 else " against ".join(machines)
    return " · ".join(filter(None, (told, folders, where)))
