"""Laws are shown from their rows."""

from __future__ import annotations

import pytest

import twinlens as tl
from twinlens.claims.law import READINGS
from twinlens.theory.law import LAWS


@pytest.mark.parametrize("name", list(LAWS))
def test_every_law_has_a_page_with_its_inputs(name: str) -> None:
    page = tl.explain(name)
    assert f"    {name} = " in page
    assert all(f"| {each} | " in page for each in LAWS[name].inputs)
    assert f"Source: {LAWS[name].source}." in page


def test_a_word_that_has_a_page_of_its_own_shows_the_law_below_it() -> None:
    assert not tl.explain("mfu").startswith(f"# {LAWS['mfu'].title}\n\nA relation")
    assert "## As a law\n\n    mfu = " in tl.explain("mfu")


def test_a_law_is_found_by_its_title_and_a_wrong_word_names_the_nearest() -> None:
    assert tl.explain("price of tokens") == tl.explain("price-per-token")
    with pytest.raises(tl.BadInput, match="'break-even'"):
        tl.explain("breakeven")


def test_all_laws_are_listed() -> None:
    assert [row["law"] for row in tl.list("laws")] == list(LAWS)


def test_a_law_that_claims_are_read_by_says_so() -> None:
    assert [each.law.name for each in READINGS if "claim" not in each.law.verbs.split(", ")] == []
