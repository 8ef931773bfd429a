"""Answers of the ranks, put together: one row of a step, and one set of facts. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import numpy as np
from scipy import stats

from twinlens.executors.torch.save_journal import TOLERANCE, apart, losses_compared
from twinlens.record.estimate import Estimate
from twinlens.record.executor.facts import Estimates, Facts
from twinlens.record.executor.record import ExecutorRecord, Fact, observed
from twinlens.record.finding import Finding
from twinlens.record.step import Marks

_PHASES = ("data_ns", "forward_ns", "backward_ns", "communicate_ns", "optimize_ns")


def step_over(
    ranks: Sequence[dict[str, Any]], origin_ns: int, samples: int, tokens: int, *, one_clock: bool = True
) -> Marks:
    """One step: from the latest start to the latest end. Phases are rank 0's; all ranks' stand in lists beside them.

    Without `one_clock` it begins and ends as on rank 0's clock, which waits for the others in every exchange, and when
    each rank began and ended is absent.

    Rank 0 may have begun before the last rank did: what it did until then is taken off its first phase, data.
    """
    stamped = ranks if one_clock else ranks[:1]
    begin_ns, end_ns = max(r["begin_ns"] for r in stamped), max(r["end_ns"] for r in stamped)
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
        loss=mean_loss(ranks),
        **{phase: first[phase] for phase in _PHASES},
    )
    return replace(
        whole,
        rank_begin_ns=tuple(r["begin_ns"] - origin_ns for r in ranks) if one_clock else None,
        rank_end_ns=tuple(r["end_ns"] - origin_ns for r in ranks) if one_clock else None,
        **{f"rank_{phase}": _of_all(ranks, phase) for phase in _PHASES},  # type: ignore[arg-type]
    )


def evaluation_over(
    ranks: Sequence[dict[str, Any]], origin_ns: int, samples: int, tokens: int, *, one_clock: bool = True
) -> Marks:
    """One look at held-out data by all ranks; without `one_clock`, as on rank 0's."""
    stamped = ranks if one_clock else ranks[:1]
    begin_ns, end_ns = max(r["begin_ns"] for r in stamped), max(r["end_ns"] for r in stamped)
    return Marks(begin_ns - origin_ns, end_ns - origin_ns, samples, tokens, loss=mean_loss(ranks), kind="evaluate")


_OF_EACH_STAGE = ("resident_parameters", "trainable_parameters")


def facts_over(ranks: Sequence[Facts], split: int, stages: int = 1) -> Facts:
    """Facts of rank 0, with the boards and places of all, rates added up over ranks, counted work over one of each
    `split` ranks that share their data (of a product divided over them the whole is counted on each), and the memory of
    the fullest rank. Ranks that are `stages` of a pipeline have parameters of their own, which are added up, too."""
    first, count, counting = ranks[0], len(ranks), ranks[::split]
    work = dict(first.work)
    for name in ("counted_step_flop", *(_OF_EACH_STAGE if stages > 1 else ())):
        if counted := _summed([rank.work.get(name) for rank in counting], len(counting)):
            work[name] = counted
    ceilings: Estimates = {}
    for name in first.ceilings:
        if summed := _summed([rank.ceilings.get(name) for rank in ranks], count):
            ceilings[name] = summed
    memory = {
        name: replace(fullest, method=f"{fullest.method}, of the fullest of {count} ranks")
        for name in first.memory
        if (fullest := max((r.memory[name] for r in ranks), key=lambda each: each.value or 0.0))
    }
    record = ExecutorRecord(dict(first.executor.facts) | _boards(ranks) | _places(ranks))
    return replace(first, executor=record, work=work, ceilings=ceilings, memory=memory)


def _boards(ranks: Sequence[Facts]) -> dict[str, Fact]:
    """The boards of all ranks, each once; products that differ by product and count, as NVML's are. None on a
    processor."""
    product_of = {
        uuid: rank.executor.value("accelerator.product")
        for rank in ranks
        for uuid in rank.executor.value("accelerator.uuid") or ()
    }
    if not product_of:
        return {}
    products = Counter(product_of.values())
    source = ranks[0].executor.facts["accelerator.uuid"].source
    fields = {
        "accelerator.uuid": observed(list(product_of), f"{source}, of every rank"),
        "accelerator.count": observed(len(product_of), "boards of all ranks"),
    }
    if len(products) > 1:
        fields["accelerator.product"] = observed(dict(products), f"{source}, of every rank")
    return fields


def _places(ranks: Sequence[Facts]) -> dict[str, Fact]:
    """Where each rank runs: its node by number, as names of machines are nobody's business, and its device."""
    places = [place for rank in ranks for place in rank.executor.value("training.ranks") or ()]
    if len(places) < len(ranks):
        return {}
    nodes = list(dict.fromkeys(place["node"] for place in places))
    numbered = [{**place, "node": nodes.index(place["node"])} for place in places]
    return {
        "training.ranks": observed(numbered, "every rank of itself, in their order"),
        "interconnect.node_count": observed(len(nodes), "kernels that were started, of all ranks"),
    }


def memory_over(ranks: Sequence[dict[str, int] | None]) -> dict[str, int] | None:
    """The allocators' peaks in bytes, summed over the boards of all ranks, and that of the fullest."""
    known = [each for each in ranks if each is not None]
    if not known or len(known) < len(ranks):
        return None
    summed = {name: sum(each[name] for each in known) for name in known[0]}
    return summed | {"boards": len(known), "fullest_peak_bytes": max(each["allocated_peak_bytes"] for each in known)}


def mean_loss(ranks: Sequence[dict[str, Any]]) -> float | None:
    """Over the ranks that have a loss: of a pipeline the last one alone. None where no rank has one."""
    known: list[float] = [rank["loss"] for rank in ranks if rank["loss"] is not None]
    return sum(known) / len(known) if known else None


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


# Findings of a parallel run before its rows: losses against one process, how much of the exchange is hidden.

_GRADIENT_FACTOR = 10.0
"""The first gradient's norm may differ by so many times the tolerance of a loss."""
_LEVEL = 0.95


def against_one_process(ranks: Sequence[dict[str, Any]], precision: str) -> Finding:
    """Whether the ranks together train as one process does; a run of which this is not known is not ranked."""
    compared = [rank["compared"] for rank in ranks]
    if not compared[0]:
        return Finding("one-process-not-compared", "disqualifies")
    alone, has_losses = compared[0]["alone"], [told for told in compared if told["together"]["losses"]]
    together = [_mean(each) for each in zip_longest(*(told["together"]["losses"] for told in has_losses))]
    losses = losses_compared(zip_longest(alone["losses"], together))
    norm_off = apart(alone.get("gradient_norm"), compared[0]["together"].get("gradient_norm"))
    tolerance = TOLERANCE[precision]
    numbers = {
        "steps": losses.steps,
        "worst": losses.worst,
        "unknown": losses.unknown,
        "gradient_norm_off": norm_off,
        "tolerance": tolerance,
        "gradient_tolerance": _GRADIENT_FACTOR * tolerance,
        "alone": alone["losses"],
        "together": together,
    } | {name: compared[0][name] for name in ("twin_layers", "layers") if name in compared[0]}
    is_same_gradient = norm_off is not None and norm_off <= _GRADIENT_FACTOR * tolerance
    if losses.are_within(tolerance) and is_same_gradient:  # AdamW hides a gradient's scale
        return Finding("one-process-equal", "notes", "", numbers)
    return Finding("one-process-differs", "disqualifies", "", numbers)


def _mean(losses: Sequence[float | None]) -> float | None:
    """Over the ranks; None where one of them has none."""
    known = [loss for loss in losses if loss is not None]
    return sum(known) / len(known) if len(known) == len(losses) else None


def exchanged(ranks: Sequence[dict[str, Any]]) -> Finding | None:
    """Bytes of gradients that a step sent, beside those that there are; None where no hook counts them.

    Equal: gradients were exchanged once a step, after its last microbatch.
    """
    together = [rank["compared"]["together"] for rank in ranks if rank["compared"]]
    if not together or "exchanged_bytes" not in together[0]:
        return None
    worst = max(together, key=lambda told: abs(told["exchanged_bytes"] - told["gradients_bytes"]))
    numbers = {
        "bytes": worst["exchanged_bytes"],
        "gradients_bytes": worst["gradients_bytes"],
        "microbatches": worst["microbatches"],
    }
    if worst["exchanged_bytes"] == worst["gradients_bytes"]:
        return Finding("gradients-exchanged-once", "notes", "", numbers)
    return Finding("gradients-exchanged-otherwise", "warns", "", numbers)


def hidden_share(with_s: Sequence[float], without_s: Sequence[float], flight_s: Sequence[float]) -> dict[str, Any]:
    """How much of the time that gradients were under way the backward pass hid: 1 − (with − without) / under way.

    `exposed_s` is clamped to what was under way; `share` None where the noise of the difference is above that.
    """
    longer = np.array(with_s) - np.array(without_s)
    flight = float(np.mean(flight_s))
    half = float(stats.t.ppf((1 + _LEVEL) / 2, len(longer) - 1) * longer.std(ddof=1) / math.sqrt(len(longer)))
    known = {"flight_s": flight, "longer_s": float(longer.mean()), "noise_s": half, "pairs": len(longer)}
    if flight <= 0 or half > flight:
        return known | {"share": None, "exposed_s": None}
    exposed = min(max(float(longer.mean()), 0.0), flight)
    return known | {"share": 1 - exposed / flight, "exposed_s": exposed}


def _of_exchange(told: dict[str, Any]) -> dict[str, Any]:
    """From the kernels of a GPU, which say it, or from backward passes with and without the exchange."""
    if "with_s" in told:
        return hidden_share(told["with_s"], told["without_s"], told["flight_s"])
    flight_s, exposed_s = told["flight_s"], told["exposed_s"]
    share = 1 - exposed_s / flight_s if flight_s else None
    return {"flight_s": flight_s, "exposed_s": exposed_s, "share": share, "by_kernels": True}


def exchange(ranks: Sequence[dict[str, Any]], on_processor: bool) -> Finding | None:
    """How the slowest rank's exchange overlaps its backward pass; None where no hook and no kernel tells."""
    timed = [rank["exchange"] for rank in ranks]
    if not all(timed):
        return None
    each = [_of_exchange(told) for told in timed]
    slowest = max(each, key=lambda known: known.get("longer_s", known["exposed_s"]))
    numbers = slowest | {name: timed[0][name] for name in ("bytes", "buckets", "flights")}
    numbers |= {"on_processor": on_processor, "ranks": len(ranks)}
    if slowest["share"] is None and "by_kernels" in slowest:
        return None  # the profiler of this GPU gives no kernels
    code = "exchange-not-resolved" if slowest["share"] is None else "exchange-hidden"
    return Finding(code, "notes", "", numbers)


def communication(ranks: Sequence[dict[str, Any]], on_processor: bool) -> Finding | None:
    """Collectives of one profiled step, and how long the rank that waits most has them under way with nothing to
    compute; None where that cannot be told."""
    profiled = [told for rank in ranks if rank["compared"] and (told := rank["compared"]["together"].get("profiled"))]
    if len(profiled) < len(ranks) or not any(told["flight_s"] for told in profiled):
        return None
    slowest = max(profiled, key=lambda told: told["exposed_s"])
    numbers = dict(slowest) | {"share": slowest["exposed_s"] / slowest["flight_s"], "on_processor": on_processor}
    return Finding("communication-exposed", "notes", "", numbers)
