"""Rankings as a table that a terminal and a page show alike: candidates down, one ranking a column."""

from __future__ import annotations

from collections.abc import Sequence

from twinlens.comparison.ranking import Rank, Ranking
from twinlens.reporting import display
from twinlens.reporting.wording.effect import label_of


def ranking_table(ranks: Sequence[Ranking]) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Heads, and a row for each candidate. Each lens and point has a column of its own, and no column is for all."""
    columns = [{rank.side.folder: rank_words(rank) for rank in ranking.ranks} for ranking in ranks]
    names = dict.fromkeys(rank.side.folder for ranking in ranks for rank in ranking.ranks)
    heads = ("rank", *(f"{each.ranks[0].side.lens}\n{label_of(each.metric)}" for each in ranks))
    rows = tuple((name, *(column.get(name, display.ABSENT) for column in columns)) for name in names)
    return heads, rows


def rank_words(rank: Rank) -> str:
    """ "1", "1–2" where it cannot be told apart from a neighbour, "–" where it may not be compared."""
    if rank.best is None or rank.worst is None:
        return display.ABSENT
    return str(rank.best) if rank.best == rank.worst else f"{rank.best}–{rank.worst}"
