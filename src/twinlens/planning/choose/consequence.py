"""Consequences of a fast link and of a data-centre card, computed from the rankings of both lenses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from twinlens.planning.choose.candidate import FELT, Candidate, Ranking
from twinlens.record.finding import Finding
from twinlens.spec.catalogue import Catalogue
from twinlens.spec.device import Device

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
