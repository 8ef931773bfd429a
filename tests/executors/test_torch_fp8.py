"""fp8 as it is declared: the row-wise recipe, bf16 around it, layers the kernel can do. torchao is stood in for."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from material import quiet, spec_of, training

torch = pytest.importorskip("torch", reason="needs the torch extra")
from torch import nn  # noqa: E402

from twinlens.errors import BadInput  # noqa: E402
from twinlens.executors.torch import train  # noqa: E402
from twinlens.executors.torch.ceiling.timing import product  # noqa: E402
from twinlens.executors.torch.model.quantize import can_be_fp8  # noqa: E402
from twinlens.executors.torch.train import TorchTrainer  # noqa: E402
from twinlens.reporting.wording.finding import sentence_of  # noqa: E402
from twinlens.spec.precision import precision  # noqa: E402
from twinlens.theory.memory import layout_of  # noqa: E402

pytestmark = pytest.mark.torch


class Torchao:
    """What `convert_to_float8_training` was told, and the layers its filter lets through."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.recipe, self.layers = "", list[str]()
        stand_in = SimpleNamespace(
            Float8LinearConfig=SimpleNamespace(from_recipe_name=lambda name: f"recipe {name}"),
            convert_to_float8_training=self._convert,
        )
        patch.setitem(sys.modules, "torchao.float8", stand_in)
        patch.setattr(train, "refuse_unsupported", lambda name, device: None)

    def _convert(self, model: nn.Module, *, config: Any, module_filter_fn: Any) -> None:
        self.recipe = config
        self.layers = [name for name, module in model.named_modules() if module_filter_fn(module, name)]


def test_fp8_trains_by_the_recipe_that_the_record_declares_and_the_rest_in_bf16(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torchao = Torchao(monkeypatch)
    trainer = TorchTrainer()
    facts = trainer.open(spec_of(training(point={"precision": "fp8"})), quiet)
    assert torchao.recipe == "recipe rowwise"
    assert precision("fp8").method == "dynamic row-wise scale"
    assert len(torchao.layers) == 2 * 7, "two layers of seven products; the head stays as it is"
    assert not any("lm_head" in name for name in torchao.layers)
    inputs, targets = trainer.batches.held_out(0)
    assert trainer._forward(input_ids=inputs, use_cache=False).logits.dtype == torch.float32
    with trainer._autocast():
        assert trainer._forward(input_ids=inputs, use_cache=False).logits.dtype == torch.bfloat16
    assert torch.isfinite(trainer.loss(inputs, targets))
    assert any('graph = "compiled"' in note for note in map(sentence_of, facts.findings)), (
        "eager, casting costs more than fp8 gains"
    )


def test_layers_whose_widths_do_not_divide_by_16_are_left_alone() -> None:
    for shape, fits in (((64, 64), True), ((64, 40), False), ((40, 64), False), ((64, 1000), False)):
        assert can_be_fp8(nn.Linear(*shape), "mlp.up") is fits
    assert not can_be_fp8(nn.Conv2d(3, 3, 3), "conv")


def test_rows_that_do_not_divide_by_16_are_refused_before_the_backward_pass_would_fail(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Torchao(monkeypatch)
    with pytest.raises(BadInput, match="132 tokens a microbatch, which do not divide by 16"):
        TorchTrainer().open(spec_of(training(seq_len=33, point={"precision": "fp8"})), quiet)


def test_without_torchao_the_way_to_get_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    Torchao(monkeypatch)
    monkeypatch.setitem(sys.modules, "torchao.float8", None)
    with pytest.raises(BadInput, match=r"pip install 'twinlens\[fp8\]'") as refused:
        TorchTrainer().open(spec_of(training(point={"precision": "fp8"})), quiet)
    assert refused.value.code == "TL203"


def test_fp8_plans_for_the_bf16_inputs_that_it_keeps_for_backward() -> None:
    assert layout_of(precision("fp8")).activations == layout_of(precision("bf16")).activations == 2.0


def test_the_ceiling_of_fp8_has_a_scale_for_each_row_as_the_run_has(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[Any, ...]] = []
    monkeypatch.setattr("twinlens.executors.torch.ceiling.timing.unsupported_product", lambda fmt, device: None)
    monkeypatch.setattr(torch, "_scaled_mm", lambda x, w, a, b, **_: seen.append((a.shape, b.shape)))
    call, kernel = product("fp8-e4m3", 32, 48, 64, "cpu")
    call()
    assert seen == [((32, 1), (1, 48))]
    assert kernel == "torch._scaled_mm, a scale per row"


@pytest.mark.skipif(shutil.which("make") is None, reason="no make here")
@pytest.mark.parametrize(("has_driver", "fp8"), [(True, ",fp8"), (False, "")])
def test_make_installs_torchao_where_there_is_a_driver(has_driver: bool, fp8: str, tmp_path: Path) -> None:
    for name in ("sh", *(["nvidia-smi"] if has_driver else [])):
        (tmp_path / name).symlink_to(shutil.which("sh") or "")
    told = subprocess.run(  # what it would do, and its variables; nothing is run
        [shutil.which("make") or "", "-pn"],
        cwd=Path(__file__).parents[2],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"\nEXTRAS := torch,serve,ray,web,telemetry,tune,dev{fp8}\n" in told.stdout
