"""Rankings of several candidates: a range of ranks, one list for each lens and point."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sides import side
from twinlens.comparison.ranking import rankings
from twinlens.comparison.side import Side
from twinlens.comparison.verdict import compare
from twinlens.reporting.comparing.comparison import comparison_document, ranking_table
from twinlens.reporting.document.terminal import screen
from twinlens.reporting.text.fitted import plain

METRIC = {"inference": "output_tokens_per_s", "training": "training_tokens_per_s"}


def candidate(name: str, rate: float, lens: str = "inference", **parts: Any) -> Side:
    values = {METRIC[lens]: (0.99 * rate, rate, 1.01 * rate)}
    return replace(side(name, values, lens=lens, **parts), folder=name)


def ranks(*sides: Side) -> list[tuple[int | None, int | None]]:
    (found,) = rankings([[each] for each in sides])
    return [(rank.best, rank.worst) for rank in found.ranks]


def test_candidates_that_can_be_told_apart_have_one_rank_each() -> None:
    assert ranks(candidate("a", 100), candidate("b", 300), candidate("c", 200)) == [(3, 3), (1, 1), (2, 2)]


def test_those_that_cannot_share_a_range() -> None:
    assert ranks(candidate("a", 100), candidate("b", 300), candidate("c", 301)) == [(3, 3), (1, 2), (1, 2)]


def test_one_that_may_not_be_ranked_has_no_rank_and_takes_none() -> None:
    sides = candidate("a", 100), candidate("b", 300, label="drift"), candidate("c", 200)
    assert ranks(*sides) == [(2, 2), (None, None), (1, 1)]


def test_single_runs_have_no_interval_so_that_any_rank_is_possible() -> None:
    sides = [
        replace(side(name, {METRIC["inference"]: (rate,)}), folder=name)
        for name, rate in zip("abc", (1.0, 2.0, 3.0), strict=True)
    ]
    assert ranks(*sides) == [(1, 3)] * 3


def test_each_lens_has_a_ranking_of_its_own_and_two_folders_have_none() -> None:
    folders = [
        [candidate(name, train, "training"), replace(candidate(f"{name}i", serve), folder=name)]
        for name, train, serve in (("a", 100, 300), ("b", 200, 200), ("c", 300, 100))
    ]
    found = rankings(folders)
    assert [(each.ranks[0].side.lens, [rank.best for rank in each.ranks]) for each in found] == [
        ("training", [3, 2, 1]),
        ("inference", [1, 2, 3]),
    ]
    assert rankings(folders[:2]) == ()
    text = plain(screen(comparison_document([compare(folders[0][0], folders[1][0])] * 2, (), found)))
    assert [line.split() for line in text.splitlines() if line[:2] in ("a ", "b ", "c ")] == [
        ["a", "3", "1"],
        ["b", "2", "2"],
        ["c", "1", "3"],
    ]


def test_rankings_at_two_points_say_their_points_and_candidates_keep_the_end_of_their_names() -> None:
    folders = [
        [
            replace(candidate(name, 100 + place), folder=name),
            replace(candidate(name, 200 + place, "inference", asked=["point.precision=bf16"]), folder=name),
        ]
        for place, name in enumerate(f"2026-11-20T161402Z_demo-inference-study_{end}" for end in "abc")
    ]
    heads, rows = ranking_table(rankings(folders))
    assert [head.splitlines()[-1] for head in heads] == ["rank", "fp32", "bf16"]
    assert len({row[0] for row in rows}) == 3
    text = plain(screen(comparison_document([compare(folders[0][0], folders[1][0])] * 2, (), rankings(folders))))
    assert [line.split()[0][-7:] for line in text.splitlines() if line.startswith("…")] == [
        "study_a", "study_b", "study_c",
    ]  # fmt: skip
