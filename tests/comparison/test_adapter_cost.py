"""What an adapter beside the weights costs per token, either way round, with the ratio's interval."""

from __future__ import annotations

import pytest

from sides import side
from twinlens.comparison.side import Side
from twinlens.comparison.verdict import compare
from twinlens.record.finding import Finding
from twinlens.reporting.wording.finding import sentence_of

MERGED, BESIDE = (0.0099, 0.0100, 0.0101), (0.0119, 0.0120, 0.0121)


def served(how: str, tpot_s: tuple[float, ...], **parts: object) -> Side:
    asked = {"adapter": {"r": 8}, "options": {"adapter": how}} | parts
    return side(how, {"tpot_s_p50": tpot_s}, **asked)  # type: ignore[arg-type]


def cost(a: Side, b: Side) -> list[Finding]:
    return [finding for finding in compare(a, b).findings if finding.code == "adapter-cost"]


def test_a_token_that_takes_12_in_place_of_10_ms_costs_a_fifth_more() -> None:
    (found,) = cost(served("merged", MERGED), served("unmerged", BESIDE))
    share, longer = found.evidence["share"], found.evidence["longer"]
    assert share.value == pytest.approx(0.2)
    assert longer.value == pytest.approx(0.002)
    assert share.low is not None
    assert share.high is not None
    assert 0.15 < share.low < 0.2 < share.high < 0.25
    assert sentence_of(found).startswith("An adapter beside the weights makes a token +20 % longer (2.00 ms) than one")


def test_it_does_not_matter_which_side_is_merged() -> None:
    (found,) = cost(served("unmerged", BESIDE), served("merged", MERGED))
    assert found.evidence["share"].value == pytest.approx(0.2, rel=1e-3)
    assert found.evidence["longer"].value == pytest.approx(0.002)


def test_sides_without_an_adapter_or_with_it_the_same_way_have_no_cost() -> None:
    assert cost(served("merged", MERGED), served("merged", BESIDE)) == []
    assert cost(served("merged", MERGED, adapter=None), served("unmerged", BESIDE, adapter=None)) == []


def test_where_only_the_decode_rate_has_a_ratio_the_cost_is_its_inverse_either_way_round() -> None:
    asked = {"adapter": {"r": 8}}
    merged, beside = (
        side(how, {"decode_tokens_per_s": rates}, **asked, options={"adapter": how})
        for how, rates in (("merged", (119.0, 120.0, 121.0)), ("unmerged", (99.0, 100.0, 101.0)))
    )
    for pair in ((merged, beside), (beside, merged)):
        (found,) = cost(*pair)
        assert found.evidence["share"].value == pytest.approx(0.2, rel=1e-3)
        assert found.evidence["longer"].value is None
        assert sentence_of(found).startswith("An adapter beside the weights makes a token +20 % longer than one merged")
