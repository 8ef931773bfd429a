"""Nearest that is possible, where no device does as it was asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from twinlens.planning.choose.answer import Choice, choice
from twinlens.planning.choose.candidate import Ranking, Rejected
from twinlens.planning.choose.nearness import has_distance, missed
from twinlens.planning.choose.wanted import ServingWanted, Wanted
from twinlens.record.finding import Finding
from twinlens.spec.catalogue import Catalogue
from twinlens.spec.device import Device


def nearest(found: Choice, devices: Sequence[Device], catalogue: Catalogue) -> Finding:
    """What would be possible: the one constraint whose lifting makes it so, and the value of it that some device keeps.

    Where no single one does, the candidate that misses its constraint by least.
    """
    cap_w = found.wanted.site.power_w
    for subject, wanted in _lifted(found.wanted):
        other = choice(wanted, devices, catalogue)
        if other.impossible is not None:
            continue
        if subject == "power" and cap_w:
            known = _power(other.rankings, cap_w)
        elif found.wanted.serving is not None and found.wanted.serving.beside and subject in ("tpot", "ttft"):
            known = _kept(other, subject, found.wanted.serving)
        else:
            known = _missing(found, subject)
        if known is not None:
            return known
    if found.impossible is None:
        raise ValueError("what is possible has no nearest")
    return _least_missed(found.impossible.lens, found.impossible.rejected)


def _lifted(wanted: Wanted) -> Iterator[tuple[str, Wanted]]:
    """The same without one of its constraints, by what rejections call it."""
    serving, training = wanted.serving, wanted.training
    if wanted.site.power_w is not None:
        yield "power", replace(wanted, site=replace(wanted.site, power_w=None))
    if serving is not None and serving.ttft_s is not None:
        yield "ttft", replace(wanted, serving=replace(serving, ttft_s=None))
    if serving is not None and serving.tpot_s is not None:
        yield "tpot", replace(wanted, serving=replace(serving, tpot_s=None))
    if training is not None and training.tokens_per_s is not None:
        yield "deadline", replace(wanted, training=replace(training, tokens_per_s=None))


def _kept(other: Choice, subject: str, asked: ServingWanted) -> Finding | None:
    """Of several models the least latency that the smallest systems without the target have together."""
    timed = [(time.number, each) for each in (other.inference.candidates if other.inference else ())
             if (time := each.time(subject)) is not None]  # fmt: skip
    if not timed:
        return None
    seconds, best = min(timed, key=lambda pair: pair[0])
    target = asked.tpot_s if subject == "tpot" else asked.ttft_s
    numbers = {"device": best.device, "precision": best.precision, "best_s": seconds, "target_s": target}
    return Finding("plan-impossible", "warns", subject, {"lens": "inference", **numbers})


def _missing(found: Choice, subject: str) -> Finding | None:
    """Of those that miss this constraint alone the nearest."""
    ranking = found.impossible
    near = [] if ranking is None else [each for each in ranking.rejected if each.reason.subject == subject]
    return None if ranking is None or not near else _least_missed(ranking.lens, near)


def _least_missed(lens: str, rejected: Sequence[Rejected]) -> Finding:
    near = [each for each in rejected if has_distance(each.reason)]
    if not near:
        most, _ = Counter(each.reason.subject for each in rejected).most_common(1)[0]
        return Finding("plan-impossible", "warns", most, {"lens": lens})
    best = min(near, key=lambda each: missed(each.reason))
    numbers: dict[str, Any] = {"lens": lens, "device": best.device, "precision": best.precision}
    return Finding("plan-impossible", "warns", best.reason.subject, numbers | dict(best.reason.numbers))


def _power(rankings: Sequence[Ranking], cap_w: float) -> Finding | None:
    """The least power that does the work of every lens, of rankings without the cap; None where none is known."""
    known = [[(each.power_w, each) for each in ranking.candidates if each.power_w is not None] for ranking in rankings]
    if not all(known):
        return None
    needed, best, lens = max(
        ((*min(each, key=lambda pair: pair[0]), ranking.lens) for each, ranking in zip(known, rankings, strict=True)),
        key=lambda found: found[0],
    )
    return Finding("plan-impossible", "warns", "power", {
        "lens": lens, "device": best.device, "precision": best.precision, "devices": best.devices,
        "needed_w": needed, "cap_w": cap_w,
    })  # fmt: skip
