"""fp32 is IEEE fp32 wherever tf32 was not asked for, the reference of a tf32 run included."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from material import inference, quiet, spec_of, training

torch = pytest.importorskip("torch", reason="needs the torch extra")

from twinlens.executors.torch import infer, train  # noqa: E402
from twinlens.executors.torch.ceiling.timing import setting  # noqa: E402
from twinlens.executors.torch.device import fp32_as, fp32_settings, set_fp32  # noqa: E402

pytestmark = pytest.mark.torch
PARTS = ("cuda.matmul", "cudnn.conv", "cudnn.rnn")


@pytest.fixture(autouse=True)
def as_found() -> Iterator[None]:
    yield
    set_fp32("fp32")


def meant() -> set[str]:
    return {fp32_settings()[name] for name in PARTS}


@pytest.fixture
def any_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    """A processor that takes tf32 for an answer: the flags are those of a GPU, the arithmetic stays fp32."""
    monkeypatch.setattr(train, "refuse_unsupported", lambda name, device: None)


def test_tf32_then_another_precision_in_one_process_raises_nothing_and_both_apis_agree() -> None:
    for precision, wanted, legacy in (("tf32", "tf32", "high"), ("bf16", "ieee", "highest"), ("tf32", "tf32", "high")):
        set_fp32(precision)
        assert meant() == {wanted}
        assert torch.get_float32_matmul_precision() == legacy, "the compiler reads this while it compiles"
        assert torch.backends.cuda.matmul.allow_tf32 is torch.backends.cudnn.allow_tf32 is (wanted == "tf32")
        with setting(None, "tf32"):
            assert meant() == {"tf32"}
        assert meant() == {wanted}


def test_a_ceiling_of_fp32_in_a_tf32_run_is_fp32_in_products_and_convolutions() -> None:
    set_fp32("tf32")
    with setting(None, "fp32"):
        assert meant() == {"ieee"}
    assert meant() == {"tf32"}


@pytest.mark.parametrize("model", ["tiny", "vit-tiny"])
@pytest.mark.parametrize(("precision", "runs_in"), [("tf32", "tf32"), ("bf16", "ieee")])
def test_the_reference_is_computed_in_ieee_fp32_whatever_the_run_computes_in(
    model: str, precision: str, runs_in: str, any_precision: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[set[str]] = []
    real = infer.reference_logits

    def watched(*parts: Any) -> Any:
        seen.append(meant())
        return real(*parts)

    monkeypatch.setattr(infer, "reference_logits", watched)
    infer.TorchServer().open(spec_of(inference(model=model, point={"precision": precision})), quiet)
    assert seen == [{"ieee"}]
    assert meant() == {runs_in}


def test_both_lenses_set_convolutions_too(any_precision: None) -> None:
    for lens, opened in ((inference, infer.TorchServer), (training, train.TorchTrainer)):
        with fp32_as("tf32"):
            facts = opened().open(spec_of(lens(model="vit-tiny")), quiet)
            assert meant() == {"ieee"}, "cuDNN's own default is tf32"
        said = facts.executor.value("software.framework.matmul_precision")
        assert (said["cuda.matmul"], said["cudnn.conv"]) == ("ieee", "ieee")
