"""Figures that articles publish, each with the ruling and the value that were worked out by hand."""

from __future__ import annotations

import pytest
from figure_table import FIGURES as KEPT
from figure_table import PAGE, page

import twinlens as tl

WRONG, ASSUMED, HOLDS = "wrong", "holds under an assumption", "holds"
FIGURES = [(sentence, ruling, value or None) for figure in KEPT for sentence, ruling, value in figure.get("claims", ())]


def test_all_forty_are_there_and_each_is_computed_or_says_why_not() -> None:
    assert [figure["n"] for figure in KEPT] == list(range(1, 41))
    assert [figure["n"] for figure in KEPT if "reason" in figure] == [16, 29, 32, 38]
    assert all(("claims" in figure) != ("reason" in figure) for figure in KEPT)


def test_the_page_of_the_figures_is_what_they_come_to() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "python tests/claims/figure_table.py writes it again"


@pytest.mark.parametrize(("sentence", "ruling", "value"), FIGURES, ids=[sentence for sentence, _, _ in FIGURES])
def test_a_published_figure_is_ruled_as_by_hand(sentence: str, ruling: str, value: float | None) -> None:
    found = tl.claim(sentence)
    assert found.ruling == ruling
    assert not any(each.numbers["decides"] for each in found.judged.of("claim-unused"))
    if value is None:
        assert found.computed == ()
    else:
        assert min(abs(each / value - 1) for each in found.computed) < 0.01, found.computed


def test_what_would_be_right_is_named_in_round_numbers() -> None:
    found = tl.claim("16 users at 32K need 40 GB of KV for a 70B at FP16")
    settings = [each.numbers["settings"] for each in found.judged.of("claim-solved")]
    assert settings[:3] == [{"users": 16, "context": 8192}, {"users": 4, "context": 32768}, {"kv_format": "int4"}]
    assert settings[3]["mean_context"] == pytest.approx(40e9 / 327_680 / 16)


def test_memory_that_was_summed_wrongly_is_that_of_weights_and_gradients() -> None:
    found = tl.claim("70B needs 280GB for weights + gradients + AdamW states")
    assert found.judged.of("claim-solved")[0].numbers["settings"] == {"layout": "weights-and-gradients"}


def test_break_even_names_the_price_that_it_would_take() -> None:
    words = "a $37500 GPU pays for itself in 6-14 months at {} against $3/h, 1.365 kW, $0.12/kWh, $250/month"
    found = tl.claim(words.format("8 h/day"))
    assert found.ruling == WRONG
    settings = found.judged.of("claim-solved")[0].numbers["settings"]
    assert (settings["price_hour"], settings["price_hour_high"]) == pytest.approx((12.2, 26.88), rel=1e-3)
    weeks = tl.claim(words.format("24/7").replace("6-14 months", "4-8 weeks"))
    settings = weeks.judged.of("claim-solved")[0].numbers["settings"]
    assert (settings["price_hour"], settings["price_hour_high"]) == pytest.approx((28.43, 56.35), rel=5e-3)


def test_power_that_is_not_said_is_not_nothing() -> None:
    words = "a $37500 GPU pays for itself in {} at 8 h/day against $3/h"
    short, long = tl.claim(words.format("14 months")), tl.claim(words.format("60 months"))
    assert (short.ruling, long.ruling) == (WRONG, "incomplete"), "free power would take 51 months"
    (missing,) = long.judged.of("claim-missing")
    assert set(missing.numbers["names"]) == {"power", "price-per-kwh", "fixed-costs"}
    own = next(
        each.numbers["settings"] for each in long.judged.of("claim-solved") if "own_hour" in each.numbers["settings"]
    )
    assert own["own_hour"] == pytest.approx(3 - 37500 / 60 / (8 * 730 / 24))


@pytest.mark.parametrize(
    ("sentence", "ruling", "remark"),
    [
        ("70B KV at FP16 is 320 KiB per token", ASSUMED, ()),
        ("70B KV at 4K context in FP16 is 160 MB", WRONG, ("one-head",)),
        ("llama-3.1-70b KV in FP16 at 128K context for 1 user is 340 GB", WRONG, ("all-heads",)),
        ("llama-3.1-70b KV in FP16 at 128K context for 1 user is 42.9 GB", HOLDS, ()),
        ("llama-3.1-70b FP16 KV is 65 KB per token", WRONG, ()),
    ],
)
def test_calculators_of_the_kv_cache_disagree(sentence: str, ruling: str, remark: tuple[str, ...]) -> None:
    found = tl.claim(sentence)
    assert found.ruling == ruling
    assert tuple(each.subject for each in found.judged.of("claim-remark")) == remark
