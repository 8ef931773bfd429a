"""What is said of CUDA graphs and graph breaks: torch's own counters, set by hand. Believed is what torch counted."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="needs the torch extra")
from torch._dynamo.utils import counters  # noqa: E402

from twinlens.executors.torch.evidence import facts  # noqa: E402

pytestmark = pytest.mark.torch
GPU, CPU = torch.device("cuda", 1), torch.device("cpu")


@pytest.fixture(autouse=True)
def _fresh() -> None:
    facts.start_counting()


def said(device: torch.device, monkeypatch: pytest.MonkeyPatch, recorded: bool | None = None) -> object:
    monkeypatch.setattr(facts, "_recorded", lambda device: recorded)
    fact = facts.graph_facts("compiled", device, serving=True)["serving.graphs"]
    return fact.value if fact.capture == "observed" else fact.reason


def test_graphs_that_torch_skipped_were_not_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    counters["inductor"]["cudagraph_skips"] += 3
    assert said(GPU, monkeypatch, recorded=True) == "none: torch skipped CUDA graphs 3 times"
    facts.start_counting()
    assert said(GPU, monkeypatch, recorded=True) == "CUDA graphs captured"


def test_a_compiled_graph_alone_is_no_captured_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert said(GPU, monkeypatch, recorded=False) == "none: no graph was recorded"
    assert "does not say" in str(said(GPU, monkeypatch, recorded=None))
    assert said(CPU, monkeypatch, recorded=True) == "none (captured graphs are of GPUs)"


def test_breaks_are_counted_with_their_reasons() -> None:
    counters["graph_break"]["call to print\nat line 3"] += 2
    counters["graph_break"]["a tensor becomes a number"] += 1
    found = facts.graph_facts("compiled", CPU, serving=False)
    assert found["kernels.graph_breaks"].value == {
        "count": 3,
        "reasons": ["a tensor becomes a number", "call to print"],
    }
    assert "serving.graphs" not in found
    assert facts.graph_facts("eager", GPU, serving=True)["serving.graphs"].value == "none (eager)"
    assert facts.graph_facts("eager", GPU, serving=False) == {}
