"""The bound of a tuning, read from its spec and checked before anything starts: one for all candidate executors."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from twinlens.errors import BadInput, nearest
from twinlens.executors.registry import capabilities
from twinlens.spec.slices import may_take_turns
from twinlens.spec.study import RunSpec, Study
from twinlens.spec.tune import Tune
from twinlens.spec.workload.arrival import Closed, Lockstep, Offline, SingleStream
from twinlens.spec.workload.workload import CollectiveWorkload, Images, InferenceWorkload, TrainingWorkload
from twinlens.stats.metrics.definition import METRICS, Metric
from twinlens.tuning.power_limit import is_limited
from twinlens.tuning.setting import Chosen, allows, chosen, value_in

WRONG = "TL262"
WITHIN_SLO = "highest rate within the SLO"
_SATURATED = (Closed, Lockstep, SingleStream, Offline)
_OF_TASK = {"embed": "embedded_texts_per_s", "rerank": "reranked_documents_per_s"}
_MOST_SETTINGS = 12


@dataclass(frozen=True, slots=True)
class Objective:
    """What is improved. `metric`: its id, or `WITHIN_SLO` of a search; `sign`: 1 where more is better, else -1.
    `in_turns`: candidates are up together and take turns; else each round of each is a run of its own."""

    metric: str
    label: str
    unit: str
    sign: int
    in_turns: bool

    def gain(self, value: float) -> float:
        """The log of a value, larger is better. Raises ValueError for what is not above 0."""
        return self.sign * math.log(value)


@dataclass(frozen=True, slots=True)
class Bound:
    """A tuning, checked. `space`: the settings by short name, each with the values that are tried."""

    study: Study
    tune: Tune
    objective: Objective
    space: Chosen

    @property
    def default(self) -> dict[str, Any]:
        """What the spec has for each setting of the space, as said or by default, by short name; None for nothing."""
        return {name: value_in(self.study, setting) for name, (setting, _) in self.space.items()}

    @property
    def terms(self) -> dict[str, Any]:
        """What every candidate executor gets alike, as plain data; the space is each executor's own."""
        tune = self.tune
        return {
            "tier": tune.tier, "objective": self.objective.metric,
            "constraints": [each.model_dump(mode="json", exclude_none=True) for each in tune.constraints],
            "loss_within": tune.loss_within if self.study.lens == "training" else None,
            "budget": tune.budget.model_dump(mode="json"), "sampler": tune.sampler, "slots": tune.slots,
            "most_rounds": tune.most_rounds, "least_gain": tune.least_gain, "in_turns": self.objective.in_turns,
            "repeats": tune.proof.repeats, "seed": tune.seed,
        }  # fmt: skip

    @property
    def hash(self) -> str:
        """Twelve hex digits over the terms."""
        return _digest(self.terms)

    @property
    def asked(self) -> str:
        """Twelve hex digits over the terms, the space and the study: a ledger of another is not gone on with."""
        return _digest({"terms": self.terms, "study": self.study.fingerprint()})

    def spec(self, settings: Mapping[str, Any], repeat: int = 0) -> RunSpec:
        """The run of a candidate."""
        return self.study.candidate({self.space[name][0].path: value for name, value in settings.items()}, repeat)


def _digest(data: Mapping[str, Any]) -> str:
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def bound_of(study: Study) -> Bound:
    """The bound that a spec declares. Raises BadInput (TL262) with one sentence for one that cannot be kept."""
    tune = study.tune
    if tune is None:
        sentence = "has no [tune]: add one with a space and a budget, or begin with `twinlens new --example tune-vllm`"
        raise BadInput(f"the spec {study.name!r} {sentence}", code=WRONG)
    if study.sweep or study.variants:
        raise _wrong("a tuning has one operating point; leave out sweep and variants, or put what they vary into space")
    if isinstance(study.workload, CollectiveWorkload):
        raise _wrong("an exchange between ranks has no settings to tune; give training or inference")
    if capabilities(study.executor.kind).runs == "recorded":
        raise _wrong(f"{study.executor.kind} shows what was recorded, which no setting changes")
    space = _space(study, tune)
    objective = _objective(study, tune)
    _refuse_constraints(study, tune)
    return Bound(study, tune, objective, space)


def _wrong(sentence: str) -> BadInput:
    return BadInput(f"[tune]: {sentence}", code=WRONG)


def _space(study: Study, tune: Tune) -> Chosen:
    if tune.tier == "as-shipped":
        if tune.space:
            raise _wrong('tier "as-shipped" changes nothing; leave out space, or set tier = "settings"')
        return {}
    if not tune.space:
        some = f'or all of them: space = {{ NAME = "all" }}; `twinlens list settings {study.executor.kind}` shows names'
        raise _wrong(f"space is empty, so there is nothing to tune; name settings and values, {some}")
    space = chosen(study.executor.kind, study.lens, tune.space, study)
    for name, (setting, _) in space.items():
        if not allows(tune.tier, setting):
            raise _wrong(f'{name} is of the tier "{setting.tier}", and tier = "{tune.tier}" leaves it as it is')
    if all(values == (value_in(study, setting),) for setting, values in space.values()):
        raise _wrong("every setting of space has one value, which it has already; give others")
    if len(space) > _MOST_SETTINGS:
        raise _wrong(f"{len(space)} settings are more than a budget can tell apart; name {_MOST_SETTINGS} at most")
    return space


def _objective(study: Study, tune: Tune) -> Objective:
    if study.search is not None:
        if tune.objective is not None:
            raise _wrong(f"a spec with a search has the {WITHIN_SLO} as its objective; leave out objective or search")
        if tune.in_turns:
            raise _wrong("a search decides one run after another, so its candidates cannot take turns")
        return Objective(WITHIN_SLO, WITHIN_SLO, "1/s", 1, in_turns=False)
    rate = _rate(study)
    metric = tune.objective or rate
    if metric is None:
        arrival = study.workload.arrival.kind  # type: ignore[union-attr]
        raise _wrong(
            f"{arrival} arrivals ask for a rate that every candidate then has; name a latency as the objective, "
            'such as "ttft_s_p90", or look for the highest rate with [search]'
        )
    known = METRICS.get(metric)
    if known is None:
        raise _wrong(f"objective {metric!r} is no metric; {nearest(metric, METRICS)}")
    _refuse_lens(study, known, "objective")
    if known.better == "none":
        raise _wrong(f"{known.label} is neither better high nor low; take another objective")
    turns = metric == rate and may_take_turns(study.candidate({})) and not is_limited(tune.space)
    if tune.in_turns and not turns:
        if is_limited(tune.space):
            raise _wrong("in_turns = true: candidates that are up together have one power limit; leave in_turns out")
        why = "its workload cannot take turns" if metric == rate else f"turns show {rate or 'a rate'}, not {metric}"
        raise _wrong(f"in_turns = true: {why}; leave in_turns out")
    in_turns = turns if tune.in_turns is None else tune.in_turns
    if in_turns and not study.protocol.isolate:
        raise _wrong("candidates that take turns are processes of their own; set protocol.isolate = true")
    return Objective(metric, known.label, known.unit, 1 if known.better == "more" else -1, in_turns)


def _rate(study: Study) -> str | None:
    """The sustained rate of a workload that asks for as much as there is; None where the load is given."""
    workload = study.workload
    if isinstance(workload, TrainingWorkload):
        return "training_images_per_s" if isinstance(workload.data, Images) else "training_tokens_per_s"
    assert isinstance(workload, InferenceWorkload)
    if not isinstance(workload.arrival, _SATURATED):
        return None
    shape = study.candidate({}).model.shape
    if shape is not None and shape.family != "decoder":
        return "inference_images_per_s"
    return _OF_TASK.get(workload.task.kind, "output_tokens_per_s")


def _refuse_lens(study: Study, metric: Metric, what: str) -> None:
    if metric.lens not in (study.lens, "both"):
        raise _wrong(f"{what} {metric.id} is of {metric.lens}, and this spec is {study.lens}")


def _refuse_constraints(study: Study, tune: Tune) -> None:
    for constraint in tune.constraints:
        metric = METRICS.get(constraint.metric)
        if metric is None:
            raise _wrong(
                f"a constraint on {constraint.metric!r}, which is no metric; {nearest(constraint.metric, METRICS)}"
            )
        _refuse_lens(study, metric, "a constraint on")
        if not math.isfinite(constraint.limit) or (metric.least is not None and constraint.limit < metric.least):
            raise _wrong(f"a constraint on {metric.id} at {constraint.limit:g}, which it can never be")
        if metric.of_slo and getattr(study.workload, "slo", None) is None:
            raise _wrong(f"a constraint on {metric.id} needs workload.slo, which is not set")
