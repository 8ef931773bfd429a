"""Scaling efficiency of ranks and replicas, and the cost of an adapter: findings on two sides. Data only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from twinlens.comparison.effect import Effect, headline
from twinlens.comparison.side import Side
from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding
from twinlens.stats.metrics.definition import HEADLINE
from twinlens.units import RATIO, SECONDS

Scaling = Literal["strong", "weak"]


def scaling_efficiency(a: Side, b: Side, found: Sequence[Effect]) -> Finding | None:
    """The rate of more ranks over that of fewer, by how many times more they are; None where it is not that.

    Strong: the same global batch. Weak: the same batch of each rank, so that the global batch grows with them. The
    interval is that of the ratio, from paired slices where the two took turns.
    """
    ranks = [_ranks(side) for side in (a, b)]
    effect = next((each for each in found if each.metric == headline(a)), None)
    if None in ranks or ranks[0] == ranks[1] or effect is None or effect.ratio.value is None:
        return None
    of_a, of_b = ranks[0] or 1, ranks[1] or 1
    kind: Scaling | Literal["replicas"] | None = "replicas" if _are_served((a, b)) else scaling_kind(a, b)
    if kind == "replicas" and effect.metric not in HEADLINE["inference"]:
        return None  # at a given rate more replicas give shorter times, not more tokens
    if kind is None:
        return None
    ratio = effect.ratio if of_b > of_a else _inverse(effect.ratio)
    fewer, more = sorted((of_a, of_b))
    numbers: dict[str, Any] = {
        "kind": kind,
        "fewer": fewer,
        "more": more,
        "way": effect.way,
        "on_processor": _is_on_processor(b),
    }
    boards = _boards(b if of_b > of_a else a)
    if kind == "replicas" and boards is not None and boards < more:
        numbers["boards"] = boards
    threads = [_threads(side) for side in ((a, b) if of_b > of_a else (b, a))]
    if threads[0] != threads[1] and None not in threads:
        numbers |= {"threads_of_fewer": threads[0], "threads_of_more": threads[1]}
    return Finding("scaling-efficiency", "notes", kind, numbers, {"efficiency": _times(ratio, fewer / more)})


def scaling_kind(a: Side, b: Side) -> Scaling | None:
    """How two sides of parallel training scale; None where their ranks do not differ, or neither batch is kept."""
    ranks = [_ranks(side) for side in (a, b)]
    batches = [side.spec["workload"].get("global_batch") for side in (a, b)]
    if None in (*ranks, *batches) or ranks[0] == ranks[1]:
        return None
    if batches[0] == batches[1]:
        return "strong"
    return "weak" if batches[0] * ranks[1] == batches[1] * ranks[0] else None


def _ranks(side: Side) -> int | None:
    facts = side.runs[0].facts
    if _are_served((side,)):
        server = side.runs[0].sections.server
        return server.replicas if server else None
    known = facts.executor.value("training.world_size") if facts else None
    return known if isinstance(known, int) and known > 0 else None


def _are_served(sides: Sequence[Side]) -> bool:
    return all(side.runs[0].sections.server is not None for side in sides)


def _threads(side: Side) -> int | None:
    """Of each rank."""
    facts = side.runs[0].facts
    known = facts.executor.value("software.framework.threads") if facts else None
    return known if isinstance(known, int) else None


def _boards(side: Side) -> int | None:
    """GPUs that its run computed on, None where that is not known."""
    facts = side.runs[0].facts
    known = facts.executor.value("accelerator.uuid") if facts else None
    return len(known) if isinstance(known, list | tuple) and known else None


def _is_on_processor(side: Side) -> bool:
    facts = side.runs[0].facts
    return bool(facts and facts.executor.value("accelerator.form_factor") == "processor")


def _inverse(ratio: Estimate) -> Estimate:
    low, high = (1 / end if end else None for end in (ratio.high, ratio.low))
    return replace(ratio, value=1 / ratio.value if ratio.value else None, low=low, high=high)


def _times(ratio: Estimate, by: float) -> Estimate:
    low, high = (None if end is None else end * by for end in (ratio.low, ratio.high))
    method = f"ratio of rates × {by:g}; {ratio.method}"
    return replace(
        ratio, value=None if ratio.value is None else ratio.value * by, low=low, high=high, unit=RATIO, method=method
    )


# Cost of an adapter per token: one model served with its adapter merged, and beside the weights. Data only.

_PER_TOKEN, _RATE = "tpot_s_p50", "decode_tokens_per_s"


def adapter_cost(a: Side, b: Side, found: Sequence[Effect]) -> Finding | None:
    """How much longer a token takes with the adapter beside the weights; None where the sides do not differ in that.

    From the time of a token, or where that has no ratio, from the decode rate: slices by turns pair rates alone, and
    then no difference is known. The interval is that of the ratio.
    """
    ways = tuple(_way(side) for side in (a, b))
    time = next((each for each in found if each.metric == _PER_TOKEN and each.ratio.value is not None), None)
    rate = next((each for each in found if each.metric == _RATE and each.ratio.value is not None), None)
    effect = time or rate
    if set(ways) != {"merged", "unmerged"} or effect is None:
        return None
    is_turned = ways == ("unmerged", "merged")
    longer = effect.difference if time else Estimate.absent(SECONDS, "rates were paired, and no times")
    evidence = {
        "share": _less_one(_inverse(effect.ratio) if is_turned == bool(time) else effect.ratio),
        "longer": _negative(longer) if is_turned else longer,
    }
    return Finding("adapter-cost", "notes", "", {"way": effect.way, "apart": bool(effect.apart)}, evidence)


def _way(side: Side) -> str | None:
    if not side.spec["workload"].get("adapter"):
        return None
    return str(side.spec["executor"]["options"].get("adapter", "unmerged"))


def _less_one(ratio: Estimate) -> Estimate:
    value, low, high = (None if end is None else end - 1 for end in (ratio.value, ratio.low, ratio.high))
    return replace(ratio, value=value, low=low, high=high, method=f"{ratio.method}, less 1")


def _negative(difference: Estimate) -> Estimate:
    value, low, high = (None if end is None else -end for end in (difference.value, difference.high, difference.low))
    return replace(difference, value=value, low=low, high=high)
