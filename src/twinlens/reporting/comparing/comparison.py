"""Document of comparisons: the verdict first, then what differs, then each effect with its interval."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from twinlens.comparison.ranking import Ranking
from twinlens.comparison.twin import Twin
from twinlens.comparison.verdict import Comparison
from twinlens.record.finding import Finding
from twinlens.reporting import display
from twinlens.reporting.comparison import (
    HEADS,
    LEGEND,
    first_effect,
    not_measured_words,
    rows_of,
    short_pair,
    side_words,
    subject_words,
    verdict_counts,
    verdict_words,
)
from twinlens.reporting.document.block import (
    DETAIL,
    Block,
    Cell,
    Document,
    Drawing,
    Line,
    More,
    Row,
    Table,
    Title,
    Tone,
    cells,
    row,
)
from twinlens.reporting.simulated.twin import NAMES, farthest, twin_blocks, twin_words
from twinlens.reporting.view import LENSES
from twinlens.reporting.wording.comparison import label_of, values_words
from twinlens.reporting.wording.finding import sentence_of

if TYPE_CHECKING:
    from twinlens.reporting.chart.figure import Figure as Chart


from twinlens.comparison.ranking import Rank
from twinlens.reporting.point_name import point_names

_TONES: dict[str, Tone] = {"comparable": "good", "comparable with qualifiers": "doubt"}
_MARKS: dict[str, tuple[str, Tone]] = {"disqualifies": ("✗", "bad"), "warns": ("!", "doubt"), "notes": ("·", "")}
_ANSWERS = ("scaling-efficiency", "adapter-cost")  # what such a comparison is made for, so never left out
_MOST_RANKINGS = 3
_RANKS = "A range such as 1–2: the two cannot be told apart. A dash: may not be compared with all others."
_MORE = "more   --all: every comparison with its findings and figures; --json: as data"


def comparison_document(
    comparisons: Sequence[Comparison], alone: Sequence[str] = (), ranks: Sequence[Ranking] = (),
    broken: Sequence[Finding] = (),
) -> Document:  # fmt: skip
    """One comparison, or several. `alone`: points without a counterpart; `broken`: limits that were not kept."""
    subject = subject_words(comparisons[0]) if len(comparisons) == 1 else verdict_counts(comparisons)
    blocks = [
        *(row("✗", [sentence_of(each)], "bad") for each in broken),
        *(_one(comparisons[0], 1) if len(comparisons) == 1 else _several(comparisons, ranks)),
        row("!", [f"No counterpart, so not compared: {display.join_names(list(alone), 4)}." if alone else ""], "doubt"),
    ]
    if len(comparisons) > 1:
        blocks.append(More(_MORE))
        blocks += [replace(block, rank=DETAIL) for place, each in enumerate(comparisons, start=1)
                   for block in _one(each, place)]  # fmt: skip
    return Document.of("Comparison", subject, iter(blocks), "--all")


def _one(comparison: Comparison, place: int) -> Iterator[Block]:
    if comparison.twin is not None:
        yield from _of_twin(comparison, comparison.twin)
        return
    found = sorted(comparison.findings, key=lambda each: each.code not in _ANSWERS)
    grave = [each for each in comparison.findings if each.severity == "disqualifies"]
    yield Line(verdict_words(comparison), _TONES.get(comparison.verdict, "bad"), is_lead=True)
    yield from (_finding(each, found) for each in grave)
    yield Title(subject_words(comparison))
    yield row("A", [side_words(comparison.a)])
    yield row("B", [side_words(comparison.b)])
    yield from (_finding(each, found) for each in comparison.findings if each not in grave)
    yield Drawing(partial(_forest, comparison, f"forest-{place}"))
    yield _effects(comparison)
    yield Line(not_measured_words(comparison), "dim")
    yield Line(LEGEND if rows_of(comparison) else "", "dim", 4)
    yield _differences(comparison)


def _of_twin(comparison: Comparison, found: Twin) -> Iterator[Block]:
    yield Line(twin_words(found), "good" if found.is_inside else "doubt", is_lead=True)
    yield Title(subject_words(comparison))
    yield row("A", [side_words(comparison.a)])
    yield row("B", [side_words(comparison.b)])
    yield from twin_blocks(found)
    yield from (_finding(each, comparison.findings) for each in comparison.findings if each.code != "twin-inside")
    yield _differences(comparison)


def _finding(finding: Finding, found: Sequence[Finding]) -> Row:
    mark, tone = _MARKS[finding.severity]
    rank = 0 if finding.code in _ANSWERS else min(DETAIL, 1 + found.index(finding))
    return row(mark, [sentence_of(finding)], tone, rank=rank)


def _forest(comparison: Comparison, anchor: str) -> Sequence[Chart]:
    from twinlens.reporting.chart.forest import forest_chart  # charts are heavy

    drawn = forest_chart(comparison, anchor)
    return () if drawn is None else (drawn,)


def _effects(comparison: Comparison) -> Table:
    whole, short = (
        tuple(cells((each.label, *each.cells)) for each in rows_of(comparison, whole=whole)) for whole in (True, False)
    )
    rows = (*short, *(each for each in whole if each not in short))
    return Table("Effects.", ("", *HEADS), rows, short=short, more="", shrinks=True)


def _differences(comparison: Comparison) -> Table:
    rows = tuple(
        cells((display.clean(one.label, 60), one.aspect, one.role, values_words(one.label, one.a),
               values_words(one.label, one.b)))
        for one in comparison.differences
    )  # fmt: skip
    caption = "Fields that differ. M must match, V may vary, Q qualifies, C is context."
    return Table(caption, ("field", "about", "role", "A", "B"), rows, ("left",) * 5, DETAIL, remarks=True)


def _several(comparisons: Sequence[Comparison], ranks: Sequence[Ranking]) -> Iterator[Block]:
    """A table a lens, never one for both."""
    yield Line(verdict_counts(comparisons), is_lead=True)
    for lens in LENSES:
        rows = tuple(_line(each) for each in comparisons if each.a.lens == lens)
        if rows:
            yield Title(lens.capitalize())
            yield Table("The first effect of each pair.", ("", "B", "A", "", "B / A", "95% interval"), rows,
                        ("left",) * 4 + ("right",) * 2, shrinks=True)  # fmt: skip
    yield from _ranking(ranks)
    grave = ([each for each in pair.findings if each.severity != "notes"] for pair in comparisons)
    said = dict.fromkeys(sentence_of(found[0]) for found in grave if found)
    for place, sentence in enumerate(said):
        yield row("!", [sentence], "doubt", rank=min(DETAIL, 1 + place))


def _line(comparison: Comparison) -> tuple[Cell, ...]:
    if comparison.twin is not None:
        return _line_of_twin(comparison, comparison.twin)
    effect = first_effect(comparison)
    mark = {"comparable": "✓", "comparable with qualifiers": "!"}.get(comparison.verdict, "✗")
    names = short_pair(comparison.b, comparison.a)
    if effect is None:
        return cells((mark, *names, "", display.ABSENT, display.ABSENT))
    bounds = display.factor_bounds(effect.ratio) or display.ABSENT
    texts = (mark, *names, label_of(effect.metric), display.factor(effect.ratio), bounds)
    return cells(texts, "" if effect.apart else "dim")


def _line_of_twin(comparison: Comparison, found: Twin) -> tuple[Cell, ...]:
    """The part that is farthest off; the ratio is simulated over measured, whichever is B."""
    names, part = short_pair(comparison.b, comparison.a), farthest(found)
    mark = "✓" if found.is_inside else "!"
    if part is None:
        return cells((mark, *names, "twin", display.ABSENT, display.ABSENT))
    label, bounds = f"twin: {NAMES[part.part]}", display.factor_bounds(part.ratio) or display.ABSENT
    return cells((mark, *names, label, display.factor(part.ratio), bounds), "dim" if part.inside else "")


def _ranking(ranks: Sequence[Ranking]) -> Iterator[Table]:
    """Candidates down, rankings across: each lens and point has a column of its own, and none is for all."""
    for few, rank in ((ranks[:_MOST_RANKINGS], 0), (ranks[_MOST_RANKINGS:], DETAIL)):
        if few:
            heads, lines = ranking_table(few)
            rows = tuple(cells((display.clean_end(line[0], 30), *line[1:])) for line in lines)
            yield Table(f"Ranks, one lens beside the other. {_RANKS}", heads, rows, rank=rank)


# Rankings as a table that a terminal and a page show alike: candidates down, one ranking a column.


def ranking_table(ranks: Sequence[Ranking]) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Heads, and a row for each candidate. Each lens and point has a column of its own, and no column is for all."""
    columns = [{rank.side.folder: rank_words(rank) for rank in ranking.ranks} for ranking in ranks]
    names = dict.fromkeys(rank.side.folder for ranking in ranks for rank in ranking.ranks)
    points = point_names([each.ranks[0].side.group for each in ranks])
    heads = ("rank", *(_head(each, point) for each, point in zip(ranks, points, strict=True)))
    rows = tuple((name, *(column.get(name, display.ABSENT) for column in columns)) for name in names)
    return heads, rows


def _head(ranking: Ranking, point: str) -> str:
    """The lens and its metric; the point, where it tells one ranking from another."""
    lines = (ranking.ranks[0].side.lens, label_of(ranking.metric), display.clean(point, 24))
    return "\n".join(filter(None, lines))


def rank_words(rank: Rank) -> str:
    """ "1", "1–2" where it cannot be told apart from a neighbour, "–" where it may not be compared."""
    if rank.best is None or rank.worst is None:
        return display.ABSENT
    return str(rank.best) if rank.best == rank.worst else f"{rank.best}–{rank.worst}"
