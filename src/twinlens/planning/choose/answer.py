"""The answer of a choice: two rankings, never one list, and what follows from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from twinlens.planning.capacity.remark import not_considered
from twinlens.planning.choose.branch import branch_finding
from twinlens.planning.choose.candidate import Ranking
from twinlens.planning.choose.consequence import card_findings, cluster_findings, link_findings
from twinlens.planning.choose.own import Owns
from twinlens.planning.choose.serving_choice import serving_ranking
from twinlens.planning.choose.system import system_finding
from twinlens.planning.choose.training_choice import training_ranking
from twinlens.planning.choose.wanted import Wanted
from twinlens.planning.prediction.shipped import shipped
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
