"""FLOP and a roofline for a model of no known type: counted from the shapes of one profiled pass."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs the torch extra")
import torch
from torch import nn
from torch.profiler import profile

import twinlens as tl
from twinlens.executors.torch.evidence.flop import ProfiledWork, profiled_work
from twinlens.executors.torch.own_loop.evidence import Seen, work_of_pass
from twinlens.record.estimate import Estimate
from twinlens.reporting.wording.finding import sentence_of


def work_of(model: nn.Module, data: torch.Tensor) -> ProfiledWork:
    def call() -> None:
        model(data).float().square().mean().backward()

    call()
    with profile(record_shapes=True) as seen:
        call()
    return profiled_work(seen.events())


class Attention(nn.Module):
    """Causal attention of 4 heads of 8 on 10 positions."""

    def __init__(self) -> None:
        super().__init__()
        self.wide = nn.Linear(32, 96)

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        q, k, v = self.wide(data).view(2, 10, 3, 4, 8).permute(2, 0, 3, 1, 4).unbind(0)
        return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


@pytest.mark.parametrize(
    ("model", "data", "flop"),
    [
        # 16 × 64 × 128 forward and for the weights' gradient, 16 × 128 × 8 forward and for both gradients
        (
            lambda: nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 8)),
            (16, 64),
            2 * 16 * 128 * (2 * 64 + 3 * 8),
        ),
        # 4 images to 8 × 8 × 8 by 3 × 3 × 3, then in 4 groups to 16 × 6 × 6 by 2 × 3 × 3
        (
            lambda: nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, stride=2), nn.ReLU(), nn.Conv2d(8, 16, 3, groups=4)),
            (4, 3, 16, 16),
            2 * 4 * (2 * 8 * 64 * 27 + 3 * 16 * 36 * 18),
        ),
        # 20 positions to 96; causal attention: half of 2 × 4 × 10 × 10 pairs, (8 + 8) wide forward, 5 × 8 backward
        (Attention, (2, 10, 32), 2 * 20 * 32 * 96 * 2 + 2 * 2 * 4 * 100 * (16 + 40) // 2),
    ],
    ids=["linear", "convolutions", "attention"],
)
def test_the_shapes_of_a_profiled_pass_give_the_flop_by_hand(
    model: Callable[[], nn.Module], data: tuple[int, ...], flop: int
) -> None:
    torch.manual_seed(0)
    found = work_of(model(), torch.randn(*data))
    assert found.flop == flop
    assert found.most_bytes > 0


def test_a_loop_round_linear_layers_has_a_roofline_and_a_verdict(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 512))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    data = [torch.randn(64, 512)] * 40
    with tl.watch(model, optimizer, out=tmp_path / "runs", steady_s=0.0, ceilings=True) as run:
        for batch in run.data(data):
            model(batch).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    (kept,) = tl.read(tmp_path / "runs")
    work = kept.facts.work
    forward = 2 * 64 * 512 * 1024 * 2
    assert work["step_flop"].value == forward * 3 - forward // 2, "the input needs no gradient"
    assert work["step_flop"].origin == "measured"
    metrics = tl.summary(kept).metrics
    assert metrics["training_samples_per_s"].unit == "samples/s"
    assert not [name for name in metrics if "images" in name], "it is not known that they are images"
    page = tl.report([kept], to=tmp_path / "report.html").read_text(encoding="utf-8")
    (compared,) = tl.compare(kept, kept)
    for told in (tl.show(kept), tl.show(kept, whole=True), str(compared), page, str(tl.diagnose(kept))):
        assert "images" not in told, "on no screen and no page"
    assert [each for each in (tl.show(kept), page) if "samples/s" not in each] == []
    weights = 4 * sum(each.numel() for each in model.parameters())
    assert work["step_bytes"].value == pytest.approx(weights * (2 + 1 + 1 + 2), rel=0.01)
    (found,) = tl.diagnose(kept)
    assert found.phases[0].numbers.get("why") not in ("no-work", "no-ceiling")
    assert found.counters[0].value.value is not None, "FLOP per byte are known"
    assert "ceiling-not-measured" not in {each.code for each in found.findings}


@pytest.mark.parametrize("through_data", [False, True])
def test_python_between_steps_is_said_to_be_there_and_batches_to_go_through_the_loop(
    through_data: bool, tmp_path: Path
) -> None:
    model = nn.Linear(64, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    data = [torch.randn(8, 64)] * 20
    with tl.watch(model, optimizer, out=tmp_path / "runs", steady_s=0.0) as run:
        for batch in run.data(data) if through_data else data:
            model(batch).square().mean().backward()
            optimizer.step()
            sum(range(500_000))
    (found,) = tl.diagnose(tl.read(tmp_path / "runs")[0])
    (told,) = (each for each in found.findings if each.code == "time-unattributed")
    assert told.numbers["unmarked"] == ("loop" if through_data else "data")
    assert ("run.data(loader)" in sentence_of(told)) is not through_data
    assert "Python of the loop" in sentence_of(told)


def test_memory_that_is_not_known_is_no_0_in_the_bytes_of_a_step() -> None:
    seen = Seen(nn.Linear(2, 2), torch.optim.SGD([torch.zeros(1)]), torch.device("cpu"), 1, False)
    memory = {
        "weights_bytes": Estimate(8.0, "bytes", "by hand", "measured"),
        "gradients_bytes": Estimate.absent("bytes", "not seen"),
        "optimizer_bytes": Estimate(0.0, "bytes", "by hand", "measured"),
    }
    found = work_of_pass(seen, ProfiledWork(10.0, 4.0), memory)
    assert found["counted_step_flop"].value == 10
    assert found["resident_step_bytes"].value is None
    assert found["resident_step_bytes"].reason == "the memory of gradients is not known"
