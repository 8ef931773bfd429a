"""The answer of a choice: two rankings, never one list, and what follows from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from twinlens.planning.capacity.target import not_considered
from twinlens.planning.choose.branch import branch_finding
from twinlens.planning.choose.candidate import FELT, Candidate, Ranking, Rejected, has_distance, missed
from twinlens.planning.choose.serving_choice import serving_ranking
from twinlens.planning.choose.training_choice import training_ranking
from twinlens.planning.choose.wanted import DAY_H, Owns, ServingWanted, Wanted
from twinlens.planning.prediction.band import shipped
from twinlens.record.finding import Finding
from twinlens.spec.catalogue import Catalogue
from twinlens.spec.device import Device


@dataclass(frozen=True, slots=True)
class Choice:
    """`inference` and `training` are ranked apart; there is no score over both. None: no work of that lens."""

    wanted: Wanted
    inference: Ranking | None
    training: Ranking | None
    branch: Finding | None = None
    system: Finding | None = None
    links: tuple[Finding, ...] = ()
    cards: tuple[Finding, ...] = ()
    cluster: tuple[Finding, ...] = ()

    @property
    def rankings(self) -> tuple[Ranking, ...]:
        return tuple(each for each in (self.inference, self.training) if each is not None)

    @property
    def left_out(self) -> tuple[Finding, ...]:
        """What no prediction of serving counts; () without serving."""
        return () if self.wanted.serving is None else (not_considered(self.wanted.serving.subject.name),)

    @property
    def impossible(self) -> Ranking | None:
        """The lens that no device can do as asked."""
        return next((each for each in self.rankings if not each.candidates), None)

    def findings(self) -> tuple[Finding, ...]:
        """What follows from both rankings."""
        one = tuple(each for each in (self.branch, self.system) if each is not None)
        return (*one, *self.links, *self.cards, *self.cluster)

    def __json__(self) -> dict[str, Any]:
        """Everything as plain data: each figure with its formula and parts, each rejected candidate with its reason."""
        return {
            "wanted": self.wanted,
            "inference": self.inference,
            "training": self.training,
            "branch": self.branch,
            "system": self.system,
            "links": self.links,
            "cards": self.cards,
            "cluster": self.cluster,
            "left_out": self.left_out,
        }


def choice(wanted: Wanted, devices: Sequence[Device], catalogue: Catalogue, own: Owns | None = None) -> Choice:
    """Both rankings and what follows; without what follows where no device does one of the lenses."""
    known, site, own = shipped(), wanted.site, own or {}
    serving = wanted.serving and serving_ranking(
        wanted.serving, site, devices, known["serving"], catalogue, own.get("serving"), wanted.paid("inference")
    )
    training = wanted.training and training_ranking(
        wanted.training, site, devices, known["training"], catalogue, own.get("training"), wanted.paid("training")
    )
    found = Choice(wanted, serving or None, training or None)
    if found.impossible is not None:
        return found
    both = found.rankings
    system = system_finding(wanted, serving, training) if serving and training else None
    return Choice(
        wanted, found.inference, found.training,
        branch_finding(wanted, found.inference, found.training, catalogue, system), system,
        tuple(link_findings(both)), tuple(card_findings(both, catalogue)), tuple(cluster_findings(both, catalogue)),
    )  # fmt: skip


# Consequences of a fast link and of a data-centre card, computed from the rankings of both lenses.

NODE = 8
"""Devices of a machine, where a link does not join more."""


def link_findings(rankings: tuple[Ranking, ...]) -> Iterator[Finding]:
    """Of the best system of each lens: its step with the fast link and on the bus alone."""
    for ranking in rankings:
        best = ranking.candidates[0]
        times = float(best.links["without_step_s"]) / float(best.links["step_s"])
        kind = "alone" if best.links["model_devices"] == 1 else "needed" if times >= FELT else "not-needed"
        kind = "has-none" if best.links["link"] is None and kind != "alone" else kind
        yield Finding(
            "plan-link", "notes", kind,
            {"lens": ranking.lens, "device": best.device, "devices": best.devices, "times": times, **best.links},
        )  # fmt: skip


def card_findings(rankings: tuple[Ranking, ...], catalogue: Catalogue) -> Iterator[Finding]:
    """The best data-centre device of each lens beside the best that is none."""
    kinds = {each.name: each for each in catalogue.devices}
    for ranking in rankings:
        best = _first(ranking, kinds, lambda one: one.is_datacentre)
        other = _first(ranking, kinds, lambda one: not one.is_datacentre and one.form != "cloud-only")
        if best is None or other is None:
            named = best or other
            if named is not None:
                kind = "only-datacentre" if other is None else "no-datacentre"
                yield Finding("plan-card", "notes", kind, {"lens": ranking.lens, "device": named.device})
            continue
        yield Finding(
            "plan-card", "notes", "both",
            {"lens": ranking.lens, "device": best.device, "devices": best.devices, "other": other.device,
             "other_devices": other.devices, "times": best.rate.number / other.rate.number,
             "ecc": kinds[other.device].ecc, "tied": other.rank[0] <= best.rank[1] and best.rank[0] == other.rank[0]},
        )  # fmt: skip


def _first(ranking: Ranking, kinds: Mapping[str, Device], is_kind: Callable[[Device], bool]) -> Candidate | None:
    return next((each for each in ranking.candidates if each.device in kinds and is_kind(kinds[each.device])), None)


def cluster_findings(rankings: tuple[Ranking, ...], catalogue: Catalogue) -> Iterator[Finding]:
    """Nodes and links of the best system of each lens, and what of its step is communication and bubble."""
    kinds = {each.name: each for each in catalogue.devices}
    for ranking in rankings:
        best = ranking.candidates[0]
        device = kinds[best.device]
        node = device.domain if device.domain >= NODE else NODE
        step = float(best.links["step_s"])
        link = catalogue.link_of(device)
        yield Finding(
            "plan-cluster", "notes", ranking.lens,
            {"device": best.device, "devices": best.devices, "per_node": min(node, best.devices),
             "nodes": -(-best.devices // node), "link": link.name if link else None,
             "link_bytes_per_s": link.one_way_bytes_per_s if link else None, "power_w": best.power_w,
             "exposed_share": float(best.links["exposed_s"]) / step,
             "bubble_share": float(best.links.get("bubble_s", 0.0)) / step,
             "pipeline": best.split.get("pipeline", 1), "groups": best.split.get("groups", 1)},
        )  # fmt: skip


# One shared system or two: hours a day, use, and what one lens does to the other.

AT_ONCE = 2.0
"""Two loads that share a device get half of it each (processor sharing)."""


def system_finding(wanted: Wanted, serving: Ranking, training: Ranking) -> Finding:
    """Shared by turns, shared at once, or two systems; each with its hours and its use.

    Users are served `duty_h` hours a day; training takes the hours that its share of the work makes of them. What
    does not fit beside them runs at the same time, at half speed, if memory holds both and the target is still kept.
    """
    serves = wanted.duty_h
    trains = wanted.trains_h
    own = serving.candidates[0], training.candidates[0]
    numbers = {
        "serves_h": serves, "trains_h": trains, "inference": own[0].device, "inference_devices": own[0].devices,
        "training": own[1].device, "training_devices": own[1].devices,
        "inference_use": serves / DAY_H, "training_use": trains / DAY_H,
    }  # fmt: skip
    if trains > DAY_H:
        return Finding("plan-system", "warns", "two-and-more", numbers | {"times": trains / DAY_H})
    shared = min(_shared(serving, training), key=_size, default=None)
    if shared is None:
        return Finding("plan-system", "notes", "two-no-device", numbers)
    one, other = shared
    devices = max(one.devices, other.devices)
    numbers |= {"shared": one.device, "shared_devices": devices}
    if serves + trains <= DAY_H:
        return Finding("plan-system", "notes", "shared-by-turns", numbers | {"use": (serves + trains) / DAY_H})
    slow_h = AT_ONCE * (serves + trains - DAY_H)
    tpot = one.time("tpot")
    slower = AT_ONCE * tpot.number if tpot else 0.0
    target = wanted.serving.tpot_s if wanted.serving else None
    numbers |= {"slow_h": slow_h, "slower_tpot_s": slower, "target_s": target}
    if slow_h > serves:
        return Finding("plan-system", "notes", "two-hours", numbers)
    if one.memory_share * one.used + other.memory_share * other.used > devices:
        return Finding("plan-system", "notes", "two-memory", numbers)
    if target is not None and slower > target:
        return Finding("plan-system", "notes", "two-latency", numbers)
    return Finding("plan-system", "notes", "shared-at-once", numbers | {"use": 1.0})


def _shared(serving: Ranking, training: Ranking) -> Iterator[tuple[Candidate, Candidate]]:
    """Devices that do both."""
    for each in serving.candidates:
        other = training.of(each.device)
        if other is not None:
            yield each, other


def _size(both: tuple[Candidate, Candidate]) -> tuple[int, float, float]:
    """Fewest devices first, then the least power, then the fastest."""
    one, other = both
    power = max(one.power_w or float("inf"), other.power_w or float("inf"))
    return max(one.devices, other.devices), power, -one.rate.number


# Nearest that is possible, where no device does as it was asked.


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
