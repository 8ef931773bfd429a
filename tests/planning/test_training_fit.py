"""Whether training fits: the figures of the method, worked by hand."""

from __future__ import annotations

import pytest

import twinlens as tl
from twinlens.api.plan.reading.subject import subject_of
from twinlens.errors import BadInput
from twinlens.planning.fit.training import Training
from twinlens.planning.fit.training_answer import Ways, fewest, placed
from twinlens.reporting.wording.planned.plan import fit_words
from twinlens.spec.catalogue import shipped

P = 70_553_706_496


def parts(found: tl.plan.FitResult) -> dict[str, float]:  # type: ignore[name-defined]
    return {each.name: float(each.value) for each in found.answer.asked.parts}


def test_a_70b_is_fully_trained_on_eight_b200_and_not_on_eight_h200_at_16_bytes() -> None:
    found = tl.plan.fit("70B", train="full", device="B200", devices=8)
    assert found.fits
    known = parts(found)
    assert known["weights"] == known["gradients"] == P * 2 / 8
    assert (known["master"], known["optimizer"]) == (P * 4 / 8, P * 8 / 8)
    assert tl.plan.fit("70B", train="full", device="H200", devices=8).fits is False
    assert tl.plan.fit("70B", train="full", device="H100", devices=8).fits is False


def test_what_would_do_for_training_does() -> None:
    found = tl.plan.fit("70B", train="full", device="H100", devices=8)
    changed = {each.subject: each.numbers for each in found.answer.changes}
    more = changed["more-devices"]["devices"]
    assert tl.plan.fit("70B", train="full", device="H100", devices=more).fits
    assert tl.plan.fit("70B", train="full", device="H100", devices=more - 8).fits is False
    assert tl.plan.fit("70B", train=changed["method"]["method"], device="H100", devices=8).fits
    assert tl.plan.fit(
        "70B", train="full", device="H100", devices=8, layout="16-bit-8-bit-optimizer", optimizer="adamw-8bit"
    ).fits


def test_qlora_of_a_70b_fits_one_card_of_48_gb_with_short_sequences() -> None:
    # arXiv 2305.14314 fine-tunes 65B on one GPU of 48 GB, with sequences of 512 tokens.
    assert tl.plan.fit("70B", train="qlora", device="L40S", context=512).fits
    long = tl.plan.fit("70B", train="qlora", device="L40S", context=4096)
    assert long.fits is False
    shorter = next(each.numbers["context"] for each in long.answer.changes if each.subject == "context")
    assert tl.plan.fit("70B", train="qlora", device="L40S", context=shorter).fits
    assert 35e9 < parts(long)["weights"] < 41e9


def test_the_most_that_fits_fits_and_one_more_does_not() -> None:
    found = tl.plan.fit("8B", train="lora", device="H100")
    batch = next(each.value for each in found.answer.most if each.name == "most-batch")
    assert tl.plan.fit("8B", train="lora", device="H100", batch=batch).fits
    assert tl.plan.fit("8B", train="lora", device="H100", batch=batch + 1).fits is False


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"train": "finetune"}, "not known"),
        ({"train": "full", "users": 4}, "no option of training"),
        ({"batch": 4}, "no option of serving"),
        ({"train": "full", "tensor": 3}, "legal: 1, 2, 4"),
        ({"train": "full", "devices": 81, "pipeline": 81}, "more than the 80 layers"),
        ({"train": "full", "expert": 2}, "has none"),
        ({"train": "full", "devices": 6, "tensor": 4}, "multiple of 4"),
        ({"train": "full", "zero": 4}, "not known"),
        ({"train": "full", "optimizer": "adam8"}, "not known"),
        ({"devices": 3}, "legal: 1, 2, 4, 8"),
        ({"devices": 3, "pipeline": 2}, "no multiple"),
        ({"devices": 200, "pipeline": 100}, "80 layers"),
        ({"context": 1_000_000}, "positions"),
    ],
)
def test_what_cannot_be_trained_or_divided_is_one_sentence(asked: dict[str, object], says: str) -> None:
    with pytest.raises(BadInput, match=says) as caught:
        tl.plan.fit("70B", device="H100", **asked)
    assert caught.value.code == "TL231"


@pytest.mark.parametrize("model", ["llama-3.1-70b", "deepseek-v3"])
def test_the_fewest_devices_are_whole_nodes_and_one_node_less_does_not_hold_it(model: str) -> None:
    """Counts jumped from 96 to 128 to 192, so up to half as many again were named."""
    plan = Training(subject_of(model, shipped()))
    for device in (shipped().device(name) for name in ("h200-sxm-141gb", "b200-sxm-180gb")):
        found = fewest(plan, device)
        assert found is not None
        assert found.devices % 8 == 0
        fewer = found.devices - 8 or 4
        assert placed(plan, device, fewer, Ways()).fits is False


@pytest.mark.parametrize(("devices", "close"), [(8, True), (64, False)])
def test_a_step_that_fits_with_less_than_a_sixth_to_spare_is_said_to_be_close(devices: int, close: bool) -> None:
    """Nothing measured says how near is too near, and the sentence says so."""
    fit = tl.plan.fit("70B", train="full", device="B200", devices=devices)
    assert fit.fits is True
    assert fit.answer.asked is not None
    assert (fit.answer.asked.needed.number / fit.answer.asked.usable.number >= 1 / 1.2) is close
    assert fit.answer.asked.is_close is close
    words = "but close (within 20 %, which is caution: no public run shows what does not fit)"
    assert (words in fit_words(fit.answer)) is close
    found = tl.plan.capacity("70B", train="full", device="B200", devices=devices, recompute="full").answer
    assert ("close" in [each.subject for each in found.remarks if each.code == "plan-memory"]) is close
