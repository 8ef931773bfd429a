"""Figures that articles publish, each with the ruling and the value that were worked out by hand."""

from __future__ import annotations

import pytest

import twinlens as tl

HOLDS, ASSUMED, OPEN, WRONG = "holds", "holds under an assumption", "incomplete", "wrong"
FIGURES = [
    ("70B Q4 ~40GB", ASSUMED, 39.7e9),
    ("70B Q4 does 45 tok/s on 1.79 TB/s", ASSUMED, 45.1),
    ("40 GB at 1.79 TB/s is ~22 ms per token", HOLDS, 0.022346),
    ("40 GB at 1.79 TB/s gives ~45 tok/s", HOLDS, 44.75),
    ("40 GB at 4.8 TB/s gives ~120 tok/s", HOLDS, 120.0),
    ("4.8 TB/s is 2.7x faster than 1.79 TB/s", HOLDS, 2.6816),
    ("40 GB takes 5 ms at 8 TB/s", HOLDS, 0.005),
    ("a 70B of 40 GB does 45 tok/s on 1.79 TB/s at 32K context", OPEN, 35.3),
    ("a 70B of 40 GB does 45 tok/s on 1.79 TB/s at 32K context and batch 1", WRONG, 35.3),
    ("40-43GB at 1.79 TB/s gives ~40 tok/s", HOLDS, 41.63),
    ("16 users at 32K need ~40GB of KV for a 70B at FP16", WRONG, 171_798_691_840),
    ("B200 (192GB) holds 70B FP16 and KV for 16 users at 32K context", WRONG, 312.9e9),
    ("AdamW states are 4x the FP16 weights", HOLDS, 4.0),
    ("70B needs 280GB for weights + gradients + AdamW states", WRONG, 846.6e9),
    ("70B full fine-tuning needs 400-600GB with AdamW", WRONG, 1128.9e9),
    ("70B full fine-tuning needs 400-600GB", ASSUMED, 564.4e9),
    ("training 70B at 12-20 bytes per parameter takes ~1 TB", ASSUMED, 846.6e9),
    ("FP4 is half of FP8", ASSUMED, 1.7778),
    ("FP4 is a quarter of FP16", ASSUMED, 3.7647),
    ("70B TP8 all-reduce takes 30-40% of a step at 55 GB/s, 503 TFLOPS and 40% MFU", ASSUMED, 0.39),
    ("70B TP8 all-reduce takes 1% of a step at 366 GB/s, 989.5 TFLOPS and 40% MFU", WRONG, 0.159),
    ("H200 is 1.4x H100", ASSUMED, 1.4328),
    ("405B FP16 fits on 8 GPUs", OPEN, None),
    ("405B FP16 fits on 8 H100", WRONG, 811.7e9),
    ("405B FP16 fits on 8 H200", HOLDS, 811.7e9),
    ("405B FP16 fits on 8 B200", HOLDS, 811.7e9),
    ("1 cent per use and 1M daily users cost $300k/month", ASSUMED, 300_000),
    ("1 cent per use at 1M uses per day costs $300k/month", HOLDS, 300_000),
    ("$100M of training over 1e9 requests is 10 cents per request", HOLDS, 0.1),
    ("energy is half of the cost: 1.365 kW, $0.10/kWh, $37500 over 4 years", WRONG, 0.113),
    ("200 ms instead of 180 ms is 11% slower", HOLDS, 1.1111),
    ("H100 against A100 is 1.3-3x", ASSUMED, 1.643),
    ("70B FP16 fits on 4x80 GB", HOLDS, 141.1e9),
    ("12 h instead of 18 h is 1.5x faster", HOLDS, 1.5),
    ("13B FP16 fits in 24 GB", WRONG, 26e9),
]


@pytest.mark.parametrize(("sentence", "ruling", "value"), FIGURES, ids=[sentence for sentence, _, _ in FIGURES])
def test_a_published_figure_is_ruled_as_by_hand(sentence: str, ruling: str, value: float | None) -> None:
    found = tl.claim(sentence)
    assert (found.ruling, found.judged.of("claim-unread")) == (ruling, ())
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
