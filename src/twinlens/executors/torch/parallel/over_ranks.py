"""Answers of the ranks, put together: one row of a step, and one set of facts. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from twinlens.record.estimate import Estimate
from twinlens.record.executor.facts import Estimates, Facts
from twinlens.record.step import Marks

_PHASES = ("data_ns", "forward_ns", "backward_ns", "communicate_ns", "optimize_ns")


def step_over(ranks: Sequence[dict[str, Any]], origin_ns: int, samples: int, tokens: int) -> Marks:
    """One step: from the latest start to the latest end. Phases are rank 0's; all ranks' stand in lists beside them.

    Rank 0 may have begun before the last rank did: what it did until then is taken off its first phase, data.
    """
    begin_ns, end_ns = max(r["begin_ns"] for r in ranks), max(r["end_ns"] for r in ranks)
    first = dict(ranks[0])
    early_ns = begin_ns - first["begin_ns"]
    for phase in _PHASES:  # a rank that began early has done part of its step before the step began
        if early_ns > 0 and first[phase] is not None:
            taken = min(early_ns, first[phase])
            first[phase], early_ns = first[phase] - taken, early_ns - taken
    whole = Marks(
        begin_ns - origin_ns,
        end_ns - origin_ns,
        samples=samples,
        tokens=tokens,
        loss=sum(r["loss"] for r in ranks) / len(ranks),
        **{phase: first[phase] for phase in _PHASES},
    )
    return replace(
        whole,
        rank_begin_ns=tuple(r["begin_ns"] - origin_ns for r in ranks),
        rank_end_ns=tuple(r["end_ns"] - origin_ns for r in ranks),
        rank_data_ns=_of_all(ranks, "data_ns"),
        rank_forward_ns=_of_all(ranks, "forward_ns"),
        rank_backward_ns=_of_all(ranks, "backward_ns"),
        rank_communicate_ns=_of_all(ranks, "communicate_ns"),
        rank_optimize_ns=_of_all(ranks, "optimize_ns"),
    )


def evaluation_over(ranks: Sequence[dict[str, Any]], origin_ns: int, samples: int, tokens: int) -> Marks:
    """One look at held-out data by all ranks."""
    begin_ns, end_ns = max(r["begin_ns"] for r in ranks), max(r["end_ns"] for r in ranks)
    loss = sum(r["loss"] for r in ranks) / len(ranks)
    return Marks(begin_ns - origin_ns, end_ns - origin_ns, samples, tokens, loss=loss, kind="evaluate")


def facts_over(ranks: Sequence[Facts], data: int) -> Facts:
    """Facts of rank 0, with rates added up over ranks, counted work over the `data` ranks that see different data (of a
    divided product the whole is counted on each rank), and the memory of the fullest rank."""
    first, count = ranks[0], len(ranks)
    work = dict(first.work)
    if counted := _summed([rank.work.get("counted_step_flop") for rank in ranks[:data]], data):
        work["counted_step_flop"] = counted
    ceilings: Estimates = {}
    for name in first.ceilings:
        if summed := _summed([rank.ceilings.get(name) for rank in ranks], count):
            ceilings[name] = summed
    memory = {
        name: replace(fullest, method=f"{fullest.method}, of the fullest of {count} ranks")
        for name in first.memory
        if (fullest := max((r.memory[name] for r in ranks), key=lambda each: each.value or 0.0))
    }
    return replace(first, work=work, ceilings=ceilings, memory=memory)


def _of_all(ranks: Sequence[dict[str, Any]], phase: str) -> tuple[int, ...] | None:
    values = [rank[phase] for rank in ranks]
    return None if None in values else tuple(values)


def _summed(each: Sequence[Estimate | None], count: int) -> Estimate | None:
    known = [estimate for estimate in each if estimate is not None and estimate.value is not None]
    if len(known) < count:
        return next((estimate for estimate in each if estimate is not None and estimate.value is None), None)
    low, high = ([getattr(e, side) for e in known] for side in ("low", "high"))
    return replace(
        known[0],
        value=sum(e.value or 0.0 for e in known),
        low=None if None in low else sum(low),
        high=None if None in high else sum(high),
        method=known[0].method if count == 1 else f"{known[0].method}, summed over {count} ranks at work together",
    )
