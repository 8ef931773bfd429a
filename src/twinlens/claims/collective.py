"""Claims on communication: the share of a training step that tensor-parallel all-reduces take, nothing overlapped."""

from __future__ import annotations

import re

from twinlens.claims.answer import Answer, Case, Gap, Term, lacking, solved
from twinlens.claims.said import View, part_of_whole
from twinlens.claims.subject import device_of, subject_of
from twinlens.theory.collective import tensor_parallel_bytes


def all_reduce_time(view: View) -> Answer | Gap | None:
    """ "All-reduce of 14 GB over 8 GPUs at 450 GB/s takes 31 ms": bytes over the bandwidth, which is that of the
    algorithm, or of the bus, on which each byte passes 2 (n - 1) / n times (nccl-tests)."""
    if not view.says("all-reduce"):
        return None
    claimed, size, bus, many = view.one("time"), view.value("bytes"), view.value("bandwidth"), view.value("devices")
    if claimed is None or size is None:
        return None
    if bus is None or many is None:
        return Gap("all-reduce-time", lacking({"link-bandwidth": bus, "devices": many}))
    moved = Term("moved", 2 * (many - 1) / many, "1")
    terms = (Term("size", size, "bytes"), Term("bandwidth", bus, "bytes/s"))
    cases = (
        Case(moved.value * size / bus, (moved, *terms), "{0} × {1} / {2}", "bus-bandwidth"),
        Case(size / bus, terms, "{0} / {1}", "algorithm-bandwidth"),
    )
    is_of_bus = re.search(r"(?i)\bbus", view.claim.text)
    return Answer("all-reduce-time", "s", claimed, cases[:1] if is_of_bus else cases)


def all_reduce_share(view: View) -> Answer | Gap | None:
    """ "TP8 all-reduce takes 30-40 % at 55 GB/s, 503 TFLOPS and 40 % MFU": four all-reduces a layer, per token."""
    if not view.says("all-reduce"):
        return None
    shares = view.all("share")
    mfu = next((each for each in shares if "MFU" in each.text), None)
    claimed = part_of_whole(next((each for each in shares if each is not mfu), None))
    subject, many, bus, device = subject_of(view), view.value("devices"), view.value("bandwidth"), device_of(view)
    peak = view.value("flop_rate") or (device[0].rate("bf16") if device else None)
    shape = subject.shape if subject else None
    needed = {
        "figure": claimed,
        "model-layers": shape,
        "devices": many,
        "link-bandwidth": bus,
        "device": peak,
        "mfu": mfu,
    }
    if (
        subject is None
        or shape is None
        or many is None
        or bus is None
        or peak is None
        or mfu is None
        or claimed is None
    ):
        return Gap("all-reduce-share", lacking(needed))
    size = float(tensor_parallel_bytes(shape, 1, many))
    moving, computing = size / bus, 6 * subject.active / (many * peak * mfu.value)
    terms = (Term("all-reduce-time", moving, "s"), Term("compute-time", computing, "s"))
    case = Case(moving / (moving + computing), terms, "{0} / ({0} + {1})")
    share = min(claimed.value, 0.999)
    wanted = size / (share / (1 - share) * computing)
    return Answer(
        "all-reduce-share", "share", claimed, (case,), assumed=(*subject.assumed, *(device[1] if device else ())),
        missing=("overlap",), solutions=(solved("all-reduce-share", "share", share, {"link_bandwidth": wanted}),),
    )  # fmt: skip
