"""Choice as it is wanted: the work of each lens, its targets, and what the site allows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from twinlens.planning.choose.offer import Paid
from twinlens.planning.fit.training import Method
from twinlens.planning.subject import Subject
from twinlens.spec.model.shape import DecoderShape

DAY_H = 24.0


@dataclass(frozen=True, slots=True)
class ServingWanted:
    """`users` who each ask again at once, with `prompt` and `answer` tokens. Targets None: none."""

    subject: Subject
    shape: DecoderShape
    users: int
    prompt: int
    answer: int
    precisions: tuple[str, ...]
    tpot_s: float | None
    ttft_s: float | None
    engine: str = "vllm"
    beside: tuple[ServingWanted, ...] = ()
    """Other models, each on devices of its own; targets and engine are those of the first."""

    @property
    def models(self) -> tuple[ServingWanted, ...]:
        """Each model alone, the first first."""
        alone = replace(self, beside=())
        return (alone, *(
            replace(alone, subject=each.subject, shape=each.shape, users=each.users, prompt=each.prompt,
                    answer=each.answer, precisions=each.precisions)
            for each in self.beside
        ))  # fmt: skip

    def __json__(self) -> dict[str, Any]:
        return {
            "model": self.subject.name, "users": self.users, "prompt": self.prompt, "answer": self.answer,
            "precisions": self.precisions, "tpot_s": self.tpot_s, "ttft_s": self.ttft_s, "engine": self.engine,
            "beside": self.models[1:],
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class TrainingWanted:
    """Steps of `sequences` of `length` tokens. `tokens_per_s`: a deadline as a rate; None: none."""

    subject: Subject
    shape: DecoderShape
    method: Method
    sequences: int
    length: int
    precisions: tuple[str, ...]
    tokens_per_s: float | None = None
    engine: str = "nemo"
    tokens: float | None = None
    """To train on, None where nobody said so."""

    def __json__(self) -> dict[str, Any]:
        return {
            "model": self.subject.name, "method": self.method, "sequences": self.sequences, "length": self.length,
            "precisions": self.precisions, "tokens_per_s": self.tokens_per_s, "engine": self.engine,
            "tokens": self.tokens,
        }  # fmt: skip


Need = Literal["ecc", "datacentre", "on-premise"]


@dataclass(frozen=True, slots=True)
class Site:
    """What a device must be, the power of all devices together, and the most devices of one system."""

    needs: frozenset[Need] = frozenset()
    power_w: float | None = None
    most_devices: int = 72


@dataclass(frozen=True, slots=True)
class Wanted:
    """`training_share` of the hours in use, from 0 to 1; a lens without a share has no work.

    `duty_h`: hours a day in which users are served, or in which is trained where nobody is.
    """

    serving: ServingWanted | None
    training: TrainingWanted | None
    training_share: float
    site: Site
    duty_h: float = DAY_H

    @property
    def trains_h(self) -> float:
        """Hours a day that training takes, by its share of the work."""
        return self.duty_h if self.serving is None else self.duty_h * self.training_share / (1 - self.training_share)

    def paid(self, lens: Literal["inference", "training"]) -> Paid:
        """Bought where the site has its own floor, and then paid in idle hours too."""
        hours = self.duty_h if lens == "inference" else min(self.trains_h, DAY_H)
        return Paid("buy" if "on-premise" in self.site.needs else "rent", hours / DAY_H)

    def __json__(self) -> Mapping[str, Any]:
        return {
            "inference": self.serving,
            "training": self.training,
            "training_share": self.training_share,
            "duty_h": self.duty_h,
            "site": self.site,
        }
