"""Points of several packs that may stand in one table: the comparison's own verdict decides, pair by pair."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from twinlens.comparison.difference import rule_of_path
from twinlens.comparison.effect import headline
from twinlens.comparison.ranking import Rank, rankings
from twinlens.comparison.side import Side
from twinlens.comparison.verdict import Comparison, compare
from twinlens.reporting import display
from twinlens.reporting.comparison import first_effect
from twinlens.reporting.display import clean
from twinlens.reporting.wording.comparison import label_of
from twinlens.reporting.wording.finding import sentence_of
from twinlens.spec.precision import Lens
from twinlens.web.published.measured import (
    MEANINGS,
    Cell,
    Held,
    Table,
    executor_of,
    figure,
    machine_of,
    model_of,
    name_of,
    rows_cell,
)

Of = tuple[Held, Side]


@dataclass(frozen=True, slots=True)
class Beside:
    """Points that may be compared with the first of them. `against`: the verdict of each on it; None: it is the first.
    `others`: points that were asked the same and may not stand here, with the reason."""

    members: tuple[Of, ...]
    against: tuple[Comparison | None, ...]
    others: tuple[tuple[Of, str], ...]

    @property
    def lens(self) -> Lens:
        return self.members[0][1].lens

    @property
    def title(self) -> str:
        """Model and load: what all of them share."""
        side = self.members[0][1]
        load = (f"{name.replace('_', ' ')} {clean(value, 40)}" for name, value in _load(side).items())
        return " · ".join((model_of(side), *load))


def beside(held: Sequence[Held], lens: Lens) -> tuple[Beside, ...]:
    """The tables of one lens: at least two packs in each, and never a point that the first may not be compared with."""
    asked: dict[str, list[Of]] = {}
    for each in held:
        for side in each.sides:
            if side.lens == lens and side.group.ranked:
                asked.setdefault(_asked(side), []).append((each, side))
    made: list[Beside] = []
    for key in sorted(asked):
        if len({id(each) for each, _ in asked[key]}) > 1:
            made += _classes(asked[key])
            _forget_rows(asked[key])
    return tuple(made)


def _forget_rows(chosen: Sequence[Of]) -> None:
    for _, side in chosen:
        for run in side.runs:
            run.forget_rows()


def _asked(side: Side) -> str:
    """Equal where model and load are: what a comparison would refuse anyway is never tried."""
    return json.dumps([model_of(side), _load(side)], sort_keys=True, default=str)


def _load(side: Side) -> dict[str, Any]:
    """What of a point must be the same on both sides of a comparison."""
    return {name: value for name, value in side.group.point.items() if rule_of_path(f"point.{name}").role == "M"}


def _classes(chosen: Sequence[Of]) -> Iterator[Beside]:
    classes: list[list[tuple[Of, Comparison | None]]] = []
    refused: dict[int, Comparison] = {}
    for each in chosen:
        for members in classes:
            found = compare(members[0][0][1], each[1])
            if found.verdict.startswith("comparable"):
                members.append((each, found))
                break
            refused.setdefault(id(each[1]), found)
        else:
            classes.append([(each, None)])
    shown = [members for members in classes if len({id(each) for (each, _), _ in members}) > 1]
    alone = [members[0][0] for members in classes if members not in shown]
    others = tuple((each, _why(refused[id(each[1])])) for each in alone if id(each[1]) in refused)
    for place, members in enumerate(shown):
        of, against = zip(*members, strict=True)
        yield Beside(of, against, () if place else others)


def _why(found: Comparison) -> str:
    return next((sentence_of(each) for each in found.findings if each.severity == "disqualifies"), found.verdict)


def table(found: Beside) -> Table:
    """A row for each point, in the order of their packs; the ratio is against the first, the rank among equal loads."""
    ranks = _ranks(found)
    rows = tuple(
        _row(each, against, ranks.get(id(each[1])), bool(ranks))
        for each, against in zip(found.members, found.against, strict=True)
    )
    metric = headline(found.members[0][1]) or ""
    heads = (
        "point",
        "pack, and who measured",
        "machine",
        label_of(metric),
        "against the first",
        *(("rank",) if ranks else ()),
        "rows",
    )
    metrics = tuple(metric if head == label_of(metric) else "" for head in heads)
    qualified = dict.fromkeys(sentence_of(each) for against in found.against if against is not None
                              for each in against.findings if each.severity == "warns")  # fmt: skip
    caption = f"{len(rows)} points of {len(packs(found))} packs, {found.lens} alone. {MEANINGS}"
    return Table(caption, heads, metrics, rows, tuple(qualified))


def packs(found: Beside) -> list[Held]:
    """The packs of a table, each once."""
    return list({id(each): each for each, _ in found.members}.values())


def _row(of: Of, against: Comparison | None, rank: Rank | None, is_ranked: bool) -> tuple[Cell, ...]:
    held, side = of
    pack, also = held.packs[0], len(held.packs) - 1
    metric = headline(side) or ""
    way = f"packs/{pack.slug}/"
    more = f", and {also} more pack{'s' if also > 1 else ''} of the same runs" if also else ""
    place = "" if rank is None or rank.best is None else str(rank.best)
    place += f"–{rank.worst}" if rank is not None and rank.best != rank.worst else ""
    return (
        Cell(name_of(side), executor_of(side)),
        Cell(pack.name, f"by: {pack.who}{more}", f"{way}index.html"),
        Cell(machine_of(side), side.group.machine.software if side.group.machine else ""),
        figure(side.group.metrics.get(metric)),
        _ratio(against),
        *((Cell(place or display.ABSENT),) if is_ranked else ()),
        rows_cell(side, held, way),
    )


def _ratio(against: Comparison | None) -> Cell:
    if against is None:
        return Cell("the first")
    differs = ", ".join(thing.aspect for thing in against.things) or "nothing"
    effect = first_effect(against)
    if effect is None or effect.ratio.value is None:
        why = display.absence(effect.ratio) if effect is not None else "not measured in both"
        return Cell(display.ABSENT, f"{why}; differs in {differs}")
    bounds = display.factor_bounds(effect.ratio) or "no interval"
    return Cell(display.factor(effect.ratio), f"{bounds} (95%) · differs in {differs}")


def _ranks(found: Beside) -> dict[int, Rank]:
    """The rank of each side among those of its own load and precision, where three or more packs have it."""
    of_packs = [[side for each, side in found.members if each is pack] for pack in packs(found)]
    return {id(rank.side): rank for ranking in rankings(of_packs) for rank in ranking.ranks}
