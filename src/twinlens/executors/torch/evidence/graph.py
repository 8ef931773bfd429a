"""Facts of torch.compile and CUDA graphs, from torch's own counters. Needs torch."""

from __future__ import annotations

import torch

from twinlens.record.executor.record import Fact, observed, unknown

_COUNTERS = "torch._dynamo.utils.counters"


def start_counting() -> None:
    """Forget what this process compiled before."""
    from torch._dynamo.utils import counters

    counters.clear()


def graph_facts(graph: str, device: torch.device, *, serving: bool) -> dict[str, Fact]:
    """Graph breaks, and whether CUDA graphs were captured; ask after the compiled graph has run a few times."""
    if graph != "compiled":
        return {"serving.graphs": observed("none (eager)", "executor.options.graph")} if serving else {}
    from torch._dynamo.utils import counters

    breaks = {str(reason).splitlines()[0][:120]: count for reason, count in counters["graph_break"].items()}
    fields = {"kernels.graph_breaks": observed({"count": sum(breaks.values()), "reasons": sorted(breaks)}, _COUNTERS)}
    return fields | ({"serving.graphs": _captured(device)} if serving else {})


def _captured(device: torch.device) -> Fact:
    if device.type != "cuda":
        return observed("none (captured graphs are of GPUs)", "torch.device")
    from torch._dynamo.utils import counters

    skips = counters["inductor"]["cudagraph_skips"]
    if skips:
        return observed(f"none: torch skipped CUDA graphs {skips} times", _COUNTERS)
    recorded = _recorded(device)
    if recorded is None:
        return unknown("no graph was skipped, and this torch does not say whether one was recorded")
    captured = "CUDA graphs captured" if recorded else "none: no graph was recorded"
    return observed(captured, "torch._inductor.cudagraph_trees")


def _recorded(device: torch.device) -> bool | None:
    """Whether CUDA graph trees hold a recording for this device; None where this torch cannot be asked."""
    try:
        from torch._inductor.cudagraph_trees import get_container

        manager = get_container(device.index or 0).tree_manager
        return manager is not None and any(True for _ in manager.get_roots())
    except (ImportError, AttributeError):
        return None
