"""Mixed work in virtual time: what training adds to a serving spec over a day, with both lenses kept apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from twinlens.api.documented import Documented
from twinlens.api.questions import Simulate
from twinlens.api.simulating.basis import basis_of, runs_of
from twinlens.api.simulating.fleets import counts_of
from twinlens.api.simulating.settings import UNREADABLE, metric_of, settings_of
from twinlens.api.simulating.training import forecast_json, known_of, study_of
from twinlens.api.simulating.training_settings import SETTINGS, TrainingSettings, training_settings
from twinlens.errors import BadInput
from twinlens.record.codec import encode
from twinlens.simulation.points.basis import Basis
from twinlens.simulation.points.play import refuse_unplayable
from twinlens.simulation.training.day import Day, Device, Way, day_of
from twinlens.simulation.training.forecast import Forecast, forecast
from twinlens.simulation.training.mix import Mix, Share, latencies, most_served, rate_of_each, shared, slowed
from twinlens.spec.load import load
from twinlens.spec.slo import Slo
from twinlens.spec.study import RunSpec, Study
from twinlens.spec.workload.workload import InferenceWorkload
from twinlens.units import DAY_S
from twinlens.version import __version__

if TYPE_CHECKING:
    from twinlens.reporting.document.block import Document

_OWN = ("serving_slowdown", "training_slowdown", "switch", "within")
_BOTH = ("device", "precision")
_NOT_HERE = ("batching", "routing", "signal_age", "failing", "slow", "price", "pools", "link")


@dataclass(frozen=True, slots=True, repr=False)
class SimulatedMix(Mix, Documented):
    """What `simulate` found of serving and training together."""

    def document(self) -> Document:
        from twinlens.reporting.simulated.mixed import mixed_document

        return mixed_document(self)

    def to_json(self) -> dict[str, Any]:
        """As plain data: serving and training each under its own name."""
        law = self.basis.law
        return {
            "schema": 1, "twinlens": __version__, "simulated": True, "lens": "mixed",
            "serving": {"law": {"origin": law.origin, "source": law.source}, "served_per_s": self.served_per_s,
                        "rate_per_s": np.asarray(self.day.rate_per_s).tolist(), "period_s": self.day.period_s,
                        "metric": self.metric},
            "training": forecast_json(self.training),
            "slowdowns": self.slowdowns, "switch_s": self.switch_s, "within_s": self.within_s,
            "ways": [_way_json(each) for each in self.ways],
        }  # fmt: skip


def _way_json(one: Share) -> dict[str, Any]:
    return {
        "way": one.way, "devices": one.outcome.devices, "serving": one.outcome.serving.tolist(),
        "served_share": one.outcome.served_share, "switches": one.outcome.switches,
        "latency": [{"rate_per_s": rate, "figure": encode(figure)} for rate, figure in one.latency.items()],
        "steps_per_day": encode(one.steps), "finish_s": encode(one.finish),
        "fewest_devices": None if one.needs is None else one.needs.devices, "turn": encode(one.turn),
    }  # fmt: skip


def simulate_mixed(spec: Study | RunSpec | str | Path, asked: Simulate) -> SimulatedMix:
    """Serving with a training spec beside it. Raises BadInput (TL245, TL250), before any work."""
    first, training_spec = _specs(spec, asked)
    own, words, serving_words = _sorted(asked.set_)
    slo, shares = _slo(first), _day(asked.day)
    said, settings, slowdowns = training_settings(words), settings_of(serving_words), _slowdowns(own)
    runs = [run for each in asked.like for run in runs_of(each)]
    like = {lens: [run for run in runs if run.lens == lens] for lens in ("training", "inference")}
    _refuse_one_lens(asked, like)
    basis = basis_of([like["inference"]] if runs else (), asked.law, asked.device, first, settings, asked.devices)
    name, _, point = training_spec.partition("@")
    at = tuple(each for each in point.split(",") if each)
    beside = asked.model_copy(update={"like": (like["training"],) if runs else (), "at": at})
    (trained,) = _one(study_of(name, beside, said).point_runs(), "training")
    known = known_of(trained, beside, said)
    training = forecast(trained, known, asked.seeds)
    return _mixed(first, basis, slo, training, shares, own, slowdowns, asked)


def _mixed(
    first: RunSpec, basis: Basis, slo: Slo, training: Forecast, shares: Sequence[float], own: dict[str, float],
    slowdowns: tuple[float, float] | None, asked: Simulate,
) -> SimulatedMix:  # fmt: skip
    metric = metric_of(first)
    rate = first.point.rate_per_s or 0.0
    served = most_served(first, basis, slo, asked.seeds)
    if not served:
        raise BadInput("one device keeps the SLO at no rate, so it serves nothing beside which to train: a wider "
                       "--set workload.slo.ttft_s, or a faster --device", code=UNREADABLE)  # fmt: skip
    steps_per_s = training.course.steps / (training.found.wall.value or math.inf)
    within_s = own.get("within")
    asked_steps = training.course.steps * DAY_S / within_s if within_s else 0.0
    day = Day(np.array(shares) * rate, DAY_S / len(shares), asked_steps)
    alone = Device(served, steps_per_s, switch_s=own.get("switch", 0.0))
    peak = max(1, math.ceil(float(day.rate_per_s.max()) / served - 1e-12))
    (count,) = counts_of(asked.replicas) if asked.replicas is not None else (None,)
    ways: list[tuple[Way, Device, Basis, int]] = [
        ("apart", alone, basis, count or peak + 1), ("by-hour", alone, basis, count or peak),
    ]  # fmt: skip
    if slowdowns is not None:
        slow = slowed(basis, slowdowns[0])
        less = most_served(first, slow, slo, asked.seeds)
        if less:
            device = replace(alone, serving_slowdown=max(1.0, served / less), training_slowdown=slowdowns[1])
            together = max(1, math.ceil(float(day.rate_per_s.max()) / less - 1e-12))
            ways.append(("together", device, slow, count or together))
    found = []
    for way, device, law, devices in ways:
        rates = rate_of_each(day, day_of(way, day, device, devices))
        told = latencies(first, law, rates, metric, asked.seeds)
        found.append(shared(way, day, device, devices, training, told, within_s))
    return SimulatedMix(
        first, basis, training, served, day, metric, tuple(found), slowdowns, own.get("switch"), within_s
    )


def _specs(spec: Study | RunSpec | str | Path, asked: Simulate) -> tuple[RunSpec, str]:
    """The serving point, and the name of the training spec. Raises BadInput (TL250)."""
    if asked.with_ is None:
        raise BadInput("--day is of training beside serving: add --with and a training spec", code=UNREADABLE)
    plain = Simulate.model_construct(spec=asked.spec)
    for name in _NOT_HERE:
        if getattr(asked, name) != getattr(plain, name):
            what = f"--{name.replace('_', '-')}"
            raise BadInput(f"{what} is not modelled for serving and training together; leave it out", code=UNREADABLE)
    if asked.replicas is not None and len(counts_of(asked.replicas)) != 1:
        raise BadInput("--replicas is how many devices serve and train together: one number", code=UNREADABLE)
    serving = [each for each in asked.set_ if _is_of_serving(each)]
    runs = study_of(spec, asked, TrainingSettings(settings_of(serving).spec)).point_runs()
    if runs[0].lens != "inference":
        raise BadInput(f"--with adds training to a serving spec, and this spec is of {runs[0].lens}: name the serving "
                       "spec first", code=UNREADABLE)  # fmt: skip
    refuse_unplayable(runs[0])
    (first,) = _one(runs, "serving")
    if first.point.rate_per_s is None:
        raise BadInput("serving beside training needs a rate of requests: --at rate_per_s=8", code=UNREADABLE)
    if load(asked.with_.partition("@")[0]).workload.kind != "training":
        raise BadInput(f"--with adds a training spec, and {asked.with_[:60]!r} trains nothing", code=UNREADABLE)
    return first, asked.with_


def _one(runs: Sequence[RunSpec], which: str) -> tuple[RunSpec]:
    if len(runs) != 1:
        named = "--at rate_per_s=8" if which == "serving" else "--with SPEC@precision=bf16"
        raise BadInput(f"the {which} spec has {len(runs)} points, and mixed work is of one: {named}", code=UNREADABLE)
    return (runs[0],)


def _is_of_serving(word: str) -> bool:
    return word.partition("=")[0].strip() not in (*_OWN, *SETTINGS)


def _sorted(words: Sequence[str]) -> tuple[dict[str, float], list[str], list[str]]:
    """Of mixed work, of training, and of serving. Raises BadInput (TL250) for what could be of either."""
    from twinlens.api.simulating.training_settings import above_0, seconds

    own, training, serving = dict[str, float](), list[str](), list[str]()
    for word in words:
        name, _, value = (part.strip() for part in word.partition("="))
        if name in _BOTH or "*" in name:
            raise BadInput(f"{word[:60]!r} could be of serving or of training; change the specs, or --device",
                           code=UNREADABLE)  # fmt: skip
        if name in ("switch", "within"):
            own[name] = seconds(name, value)
        elif name in _OWN:
            own[name] = above_0(name, value, 1.0)
        else:
            (training if name in SETTINGS else serving).append(word)
    return own, training, serving


def _slowdowns(own: dict[str, float]) -> tuple[float, float] | None:
    known = [own.get(name) for name in ("serving_slowdown", "training_slowdown")]
    if known == [None, None]:
        return None
    if None in known:
        raise BadInput("both slow each other down: --set serving_slowdown=1.2 and --set training_slowdown=3, as they "
                       "were measured on the device", code=UNREADABLE)  # fmt: skip
    return known[0] or 1.0, known[1] or 1.0


def _slo(spec: RunSpec) -> Slo:
    workload = spec.workload
    assert isinstance(workload, InferenceWorkload)
    if workload.slo is None or workload.slo.itl_s is not None:
        raise BadInput("how much one device serves is decided by an SLO of requests, and the spec has none: --set "
                       "workload.slo.ttft_s=0.5", code=UNREADABLE)  # fmt: skip
    return workload.slo


def _day(text: str | None) -> tuple[float, ...]:
    """ "0.2,1,0.6": shares of the spec's rate in equal periods of a day. Raises BadInput (TL250)."""
    if text is None:
        return (1.0,)
    try:
        shares = tuple(float(word) for word in text.split(","))
    except ValueError:
        shares = ()
    if not shares or not all(0 <= each <= 100 for each in shares) or not any(shares) or len(shares) > 1440:
        raise BadInput(f"--day is the rate over a day in equal periods, as shares of the spec's: 0.2,1,0.6, not "
                       f"{text[:40]!r}", code=UNREADABLE)  # fmt: skip
    return shares


def _refuse_one_lens(asked: Simulate, like: dict[str, list[Any]]) -> None:
    if asked.like and not all(like.values()):
        which = "training" if not like["training"] else "serving"
        raise BadInput(f"no run of --like is of {which}: both lenses need their own, --like SERVING --like TRAINING",
                       code=UNREADABLE)  # fmt: skip
