"""A claim that a model fits and `plan fit` of the same words never contradict each other in silence."""

from __future__ import annotations

import itertools

import pytest

import twinlens as tl

MODELS = ("llama-3.1-8b", "llama-3.1-70b", "gpt-oss-120b", "qwen3-30b-a3b", "mixtral-8x7b")
DEVICES = ("rtx-4090", "l40s", "a100-sxm-80gb", "h100-sxm-80gb", "h200-sxm-141gb")


def plan_is_named(claim: tl.ClaimResult) -> bool:
    return any(each.code == "claim-remark" and each.subject == "served" for each in claim.findings)


@pytest.mark.parametrize(("model", "device"), list(itertools.product(MODELS, DEVICES)))
def test_what_holds_by_weights_alone_says_where_the_plan_says_no(model: str, device: str) -> None:
    for devices, precision in itertools.product((1, 4), ("bf16", "fp8")):
        claim = tl.claim(f"{model} in {precision} fits on {devices} {device}")
        fit = tl.plan.fit(model, device=device, devices=devices, precision=precision)
        assert claim.ruling in ("holds", "holds under an assumption", "wrong")
        assert not (claim.ruling == "wrong" and fit.fits), (devices, precision)
        assert plan_is_named(claim) == (claim.ruling != "wrong" and not fit.fits), (devices, precision)


def test_weights_that_leave_less_than_a_server_takes_are_said_with_both_numbers() -> None:
    claim = tl.claim("70B FP8 fits on 1 H100")
    (told,) = (each for each in claim.findings if each.subject == "served")
    asked = tl.plan.fit("70B", precision="fp8", device="H100").answer.asked
    assert asked is not None
    assert (told.numbers["needed"], told.numbers["room"]) == (asked.needed.value, asked.usable.value)
    texts = [each.get("text", "") for each in claim.to_json()["findings"]]
    assert any("`plan fit` says No" in text and "80.61 GB of 76.97 GB usable" in text for text in texts)
