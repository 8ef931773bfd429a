"""Cost of an adapter per token: one model served with its adapter merged, and beside the weights. Data only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from twinlens.comparison.effect import Effect
from twinlens.comparison.side import Side
from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding
from twinlens.units import SECONDS

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


def _inverse(ratio: Estimate) -> Estimate:
    value, low, high = (1 / end if end else None for end in (ratio.value, ratio.high, ratio.low))
    return replace(ratio, value=value, low=low, high=high)


def _negative(difference: Estimate) -> Estimate:
    value, low, high = (None if end is None else -end for end in (difference.value, difference.high, difference.low))
    return replace(difference, value=value, low=low, high=high)
