"""Overlap of communication and computation from profiler events of torch's own type, as a GPU with NCCL gives them."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch")

from torch.autograd import DeviceType  # noqa: E402
from torch.autograd.profiler_util import FunctionEvent  # noqa: E402

from twinlens.executors.torch.parallel.exchange import by_kernels, overlap_in  # noqa: E402
from twinlens.executors.torch.parallel.over_ranks import exchange  # noqa: E402
from twinlens.executors.torch.parallel.wrap import Buckets, Flight  # noqa: E402
from twinlens.reporting.wording.finding import sentence_of  # noqa: E402

REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
GATHER = "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
PRODUCT = "nvjet_sm90_tst_128x256_64x4_1x2_h_bz_coopA_NNT"


def event(name: str, begin_ms: float, end_ms: float, *, on_gpu: bool = True, note: bool = False) -> Any:
    kind = DeviceType.CUDA if on_gpu else DeviceType.CPU
    return FunctionEvent(
        0, name, 0, begin_ms * 1e3, end_ms * 1e3, device_type=kind, is_user_annotation=note
    )  # fmt: skip


def test_an_annotation_over_a_gather_computes_nothing_beside_it() -> None:
    # FSDP2 as it is recorded: the annotation spans the copy, the wait and the kernel; 10 ms of gathering, all exposed.
    events = [
        event("FSDP::all_gather", 0, 11, note=True),
        event("nccl:_all_gather_base", 1, 11, note=True),
        event("nccl:_all_gather_base", 0, 0.2, on_gpu=False, note=True),
        event(GATHER, 1, 11),
        event("Memcpy DtoD (Device -> Device)", 2, 9),
        event(PRODUCT, 11, 20),
    ]
    seen = overlap_in(events, on_gpu=True)
    assert (seen.flight_s, seen.exposed_s) == (pytest.approx(0.010), pytest.approx(0.010))
    assert seen.collectives == {"_all_gather_base": 1}, "once, as the host called it"


@pytest.mark.parametrize("name", ["ncclKernel_AllReduce_RING_LL_Sum_float", REDUCE, "ncclSymkDevKernel_AllReduce_x"])
def test_a_kernel_of_nccl_is_known_by_its_name_of_every_version(name: str) -> None:
    seen = overlap_in([event(name, 0, 4), event(PRODUCT, 1, 2)], on_gpu=True)
    assert (seen.flight_s, seen.exposed_s) == (pytest.approx(0.004), pytest.approx(0.003))


def test_what_ranks_did_until_all_were_here_is_left_out() -> None:
    begin = event("twinlens: all ranks are here", 50, 60, on_gpu=False, note=True)
    events = [event(REDUCE, 0, 49), begin, event("nccl:all_reduce", 1, 2, on_gpu=False), event(REDUCE, 52, 54)]
    seen = overlap_in(events, on_gpu=True)
    assert (seen.flight_s, seen.exposed_s, seen.collectives) == (pytest.approx(0.002), pytest.approx(0.002), {})


def test_the_exchange_on_a_gpu_is_timed_by_its_kernels_and_not_by_futures_that_are_done_when_enqueued() -> None:
    # Two buckets of 8 and 4 bytes, whose futures end 1 µs after they leave; kernels run 4–9 and 9–12 ms, products 0–10.
    buckets = Buckets(flights=[Flight(1, 8, 100, 1100), Flight(0, 4, 2000, 3000)])
    events = [event(PRODUCT, 0, 10), event(REDUCE, 4, 9), event(REDUCE, 9, 12), event("FSDP", 0, 20, note=True)]
    told = by_kernels(overlap_in(events, on_gpu=True), buckets)
    assert told["flights"] == [
        (1, 8, pytest.approx(0.004), pytest.approx(0.009)),
        (0, 4, pytest.approx(0.009), pytest.approx(0.012)),
    ]
    found = exchange([{"exchange": told}, {"exchange": told}], on_processor=False)
    assert found is not None
    assert (found.code, found.numbers["share"]) == ("exchange-hidden", pytest.approx(0.75))
    assert sentence_of(found) == (
        "The backward pass hides 75% of the exchange of gradients: 12.0 B in 2 buckets are under way for 8.00 ms, and "
        "for 2.00 ms of it no kernel computes beside them."
    )
    silent = by_kernels(overlap_in([event("aten::mm", 0, 1, on_gpu=False)], on_gpu=True), buckets)
    assert exchange([{"exchange": silent}], on_processor=False) is None, "a profiler without device events says nothing"
