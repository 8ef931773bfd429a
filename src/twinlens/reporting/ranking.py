"""Rankings as a table that a terminal and a page show alike: candidates down, one ranking a column."""

from __future__ import annotations

from collections.abc import Sequence

from twinlens.comparison.ranking import Rank, Ranking
from twinlens.reporting import display
from twinlens.reporting.point_name import point_names
from twinlens.reporting.wording.comparison import label_of


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
