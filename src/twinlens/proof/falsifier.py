"""The falsifier of a verdict as a study of two points that take turns, and the ruling on what it measured."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from twinlens.diagnosis.diagnosis import Diagnosis
from twinlens.errors import BadInput
from twinlens.executors.launch.recipe import TORCH_NAMES
from twinlens.executors.registry import capabilities
from twinlens.record.beside import GROWN
from twinlens.record.estimate import Estimate
from twinlens.record.executor.facts import Facts
from twinlens.record.finding import Finding
from twinlens.spec.study import RunSpec
from twinlens.stats.paired.ratio import PairedRatio

Ruling = Literal["confirmed", "refuted", "undecided"]
_HALF = {"fp32": "bf16", "tf32": "bf16", "bf16": "int8-weight", "fp16": "int8-weight"}
_ROUNDS = 16
_LEAST_SLICE_S = 0.25
_MARGIN = 2.5  # of a slice over the longer row, so that each slice holds some
_DECODE = "decode_tokens_per_s"
_PHASES = {"decode": _DECODE, "prefill": "prefill_tokens_per_s"}
_TRIED_OF = ("step", "forward", "prefill", "decode")
_UNTRIED = {
    "remove-wait": "no setting of a run takes that wait away",
    "halve-weights": "no precision here has weights of half the bits, in which this lens can run",
    "double-batch": "no whole number of parts is twice as large",
    "other-kernels": "no setting of a run changes its kernels; measure the same work with another executor",
}
_RESOLVED = {"confirmed": "latency-bound", "refuted": "kernel-bound"}
"""What work below both ceilings comes to, once twice the batch was tried: fixed costs, or slow kernels."""


@dataclass(frozen=True, slots=True)
class Change:
    """One setting of a run, by its dotted path, and its value before and after."""

    path: str
    before: Any
    after: Any


def change_of(spec: RunSpec, found: Diagnosis, facts: Facts | None = None) -> Change:
    """The change that the verdict names, as a setting of this run. Raises BadInput (TL228) where it cannot be made.

    `facts`: of the run, for what its server says of itself.
    """
    change = found.verdict.numbers.get("change")
    if change is None:
        raise BadInput(f"{found.run} is {found.verdict.code}: that has no falsifier to try", code="TL228")
    if change in _UNTRIED and found.verdict.subject not in _TRIED_OF:
        raise cannot(found, _UNTRIED["remove-wait"])
    if is_loaded(spec) and change == "double-batch":
        requests = requests_in_flight(spec, found.verdict.numbers.get("batch"))
        if why := why_not_doubled(requests, facts):
            raise cannot(found, why)
        return Change("point.concurrency", requests, 2 * requests)
    if is_loaded(spec) and change == "halve-weights" and is_attached(spec):
        raise cannot(found, ATTACHED)
    make = {"double-batch": _doubled, "halve-weights": _halved}.get(change)
    made = make(spec) if make else None
    if made is None:
        raise cannot(found, _UNTRIED.get(change, "this version does not know its change"))
    return made


def is_loaded(spec: RunSpec) -> bool:
    """Whether requests are sent to a server on a schedule of their own; batches in lockstep are not."""
    return spec.workload.kind == "inference" and spec.workload.arrival.kind != "lockstep"


def cannot(found: Diagnosis, why: str) -> BadInput:
    return BadInput(f"the falsifier of {found.run} ({found.verdict.code}) cannot be tried: {why}", code="TL228")


def _doubled(spec: RunSpec) -> Change | None:
    """Twice the batch that is computed together; of accumulated parts, twice the part where that divides the whole."""
    if spec.workload.kind == "training":
        part, whole = spec.point.microbatch, spec.workload.global_batch
        if part is not None and part < whole:
            return Change("point.microbatch", part, 2 * part) if whole % (2 * part) == 0 else None
        return Change("workload.global_batch", whole, 2 * whole)
    return Change("point.batch", spec.point.batch, 2 * spec.point.batch)


def _halved(spec: RunSpec) -> Change | None:
    after = _HALF.get(spec.point.precision)
    if after is None or (spec.workload.kind == "training" and after != "bf16") or not serves(spec, after):
        return None
    return Change("point.precision", spec.point.precision, after)


def study_data(spec: RunSpec, change: Change, row_s: float, together: int | None = None) -> dict[str, Any]:
    """The spec of a study of both values, in turns; all else is that of the run. `row_s`: of one step or request.
    `together`: requests that a server decoded at once."""
    data = spec.to_dict()
    if is_loaded(spec):
        data = as_closed_loop(data, requests_in_flight(spec, together))
    del data["repeat"]
    slice_s = max(_LEAST_SLICE_S, _MARGIN * row_s * (2 if change.path != "point.precision" else 1))
    turns = {
        "pairing": "slices", "slice_s": slice_s, "duration_s": _ROUNDS * slice_s, "repeats": 1, "extend": 0,
        "retakes": 0, "min_rows": 3, "steady_s": 0.0, "isolate": True, "ceilings": False, "guards": False,
    }  # fmt: skip
    name = f"{data['name'][:50]}-falsifier"
    sweep = {change.path: [change.before, change.after]}
    return data | {"name": name, "sweep": sweep, "protocol": data["protocol"] | turns}


def metric_of(found: Diagnosis, known: tuple[str, ...]) -> str:
    """The rate that the verdict is about, of those that turns have: of its phase, else of all."""
    phase = _PHASES.get(found.verdict.subject)
    return phase if phase in known else next(name for name in known if name not in _PHASES.values())


def ruling_of(bound: Mapping[str, Any], ratio: Estimate) -> Ruling:
    """Confirmed where the whole interval of the ratio is within the bound, refuted where all of it is outside; else
    undecided. A step that gains less than `at_least` refutes as well as one that gains more than `at_most`."""
    least, most = bound.get("at_least"), bound.get("at_most")
    if ratio.low is None or ratio.high is None or (least is None and most is None):
        return "undecided"
    low, high = least if least is not None else 0.0, most if most is not None else math.inf
    if low <= ratio.low and ratio.high <= high:
        return "confirmed"
    return "refuted" if ratio.high < low or ratio.low > high else "undecided"


def bound_of(found: Diagnosis, metric: str, grown: float | None) -> dict[str, Any]:
    """The bound of the verdict as one of `metric`. `grown`: how many times as many requests a server really decoded
    together.

    A step of which the share b grows with its batch, and the rest does not, does r / (1 + b (r - 1)) times the work at
    r times the batch; the verdict says it for r = 2. Where only the rate of all phases is known, the verdict's phase is
    a share of the time, and the rest may do up to twice as much (at most), or no more than before (at least).
    """
    most, least = (found.verdict.numbers.get(name) for name in ("at_most", "at_least"))
    if least is not None and grown is not None:
        least = grown / (1 + (2 / least - 1) * (grown - 1))
    phase = found.verdict.subject
    if phase in _PHASES and metric != _PHASES[phase]:
        share = found.partition.share(phase)
        most = most and 1 / (share / most + (1 - share) / 2)
        least = least and 1 / (share / least + 1 - share)
    return {"at_most": most, "at_least": least}


def ruled(found: Diagnosis, change: Change, measured: PairedRatio, study: str, grown: float | None = None) -> Finding:
    """The outcome as a finding, which is kept with the run; `grown` as for `bound_of`. Where the batch did not grow
    by half, nothing was tried and nothing is ruled."""
    verdict = found.verdict
    bound = bound_of(found, measured.metric, grown)
    untried = grown is not None and grown < GROWN
    ruling: Ruling = "undecided" if untried else ruling_of(bound, measured.ratio)
    numbers = {
        "verdict": verdict.code, "change": verdict.numbers["change"], "path": change.path, "from": change.before,
        "to": change.after, "metric": measured.metric, "ruling": ruling, "rounds": measured.blocks,
        "label": measured.label, "study": study, **bound,
    }  # fmt: skip
    numbers |= {} if grown is None else {"grown": grown}
    severity: Literal["warns", "notes"] = "warns" if ruling == "refuted" else "notes"
    return Finding("falsifier-tried", severity, verdict.subject, numbers, {"ratio": measured.ratio})


def with_trials(found: Diagnosis, trials: Sequence[Finding]) -> Diagnosis:
    """With the newest trial of this verdict first among the findings, and what it does to the verdict.

    A refuted verdict is withdrawn. Below both ceilings is two causes, and the trial says which: latency-bound, where
    fixed costs are shared by a larger batch, or kernel-bound. Kept trials are ruled again, by the bounds of today.
    """
    names = (found.verdict.code, *(("latency-bound",) if found.verdict.code == "below-ceilings" else ()))
    about = [each for each in trials if each.numbers.get("verdict") in names]
    if not about:
        return found
    trial = _ruled_again(found, about[-1])
    verdict = _after(found.verdict, trial)
    phases = tuple(verdict if each == found.verdict else each for each in found.phases)
    return replace(found, verdict=verdict, phases=phases, findings=(trial, *found.findings))


def _ruled_again(found: Diagnosis, trial: Finding) -> Finding:
    grown, metric, ratio = trial.numbers.get("grown"), trial.numbers.get("metric"), trial.evidence.get("ratio")
    if not isinstance(metric, str) or ratio is None or (grown is not None and grown < GROWN):
        return trial
    bound = bound_of(found, metric, grown)
    ruling = ruling_of(bound, ratio)
    severity: Literal["warns", "notes"] = "warns" if ruling == "refuted" else "notes"
    numbers = dict(trial.numbers) | {"verdict": found.verdict.code, "ruling": ruling, **bound}
    return replace(trial, severity=severity, numbers=numbers)


def _after(verdict: Finding, trial: Finding) -> Finding:
    """The verdict once its trial is known."""
    ruling = trial.numbers.get("ruling")
    if verdict.code == "below-ceilings":
        code = _RESOLVED.get(str(ruling), verdict.code)
        numbers = {name: each for name, each in verdict.numbers.items() if name not in ("change", "at_least")}
        return verdict if code == verdict.code else replace(verdict, code=code, numbers=numbers | {"by_trial": True})
    if ruling != "refuted":
        return verdict
    numbers = {"why": "refuted", "withdrawn": verdict.code, "confidence": "low"}
    return replace(verdict, code="indeterminate", numbers=numbers, evidence={})


# The change of a falsifier as a setting of a served run: a closed loop of twice the requests, or another precision.
#
# Open arrivals cannot take turns (see `spec/slices.py`), so a run at a rate is tried as a closed loop of as many
# requests as it decoded together. A launched server is started once for each value; a server that is up only gets
# another load.

ATTACHED = (
    "the weights of a server that is up cannot be changed from here; let Twinlens launch it, or start a second one "
    "with half the bits and compare the two"
)
_FULL = "the server runs at most {} requests at once, and {} would be needed"
_ALONE = ("rate_per_s", "admission", "in_flight", "timeout_s")
"""Settings of a point that a closed loop in turns does not have."""


def requests_in_flight(spec: RunSpec, together: int | None) -> int:
    """Those of a closed loop that does the work of this run. `together`: how many it decoded at once."""
    return spec.point.concurrency or together or 1


def why_not_doubled(requests: int, facts: Facts | None) -> str | None:
    """Why twice the requests would not be computed together, as the server says; None where they may."""
    most = facts.executor.value("serving.max_sequences") if facts else None
    return _FULL.format(most, 2 * requests) if isinstance(most, int) and most < 2 * requests else None


def is_attached(spec: RunSpec) -> bool:
    """Whether somebody else started the server."""
    return capabilities(spec.executor.kind).runs == "elsewhere"


def serves(spec: RunSpec, precision: str) -> bool:
    """Whether the executor of a run can be asked for a precision; a launched server only for a mere cast."""
    can = capabilities(spec.executor.kind)
    if can.precisions is None:
        return can.prompts != "text" or precision in TORCH_NAMES
    return precision in can.precisions


def as_closed_loop(data: dict[str, Any], requests: int) -> dict[str, Any]:
    """The spec with the same requests, `requests` of them at any moment, by one client and without a stall."""
    point = {name: value for name, value in data["point"].items() if name not in _ALONE}
    options = {name: value for name, value in data["executor"]["options"].items() if name != "clients"}
    return data | {
        "workload": data["workload"] | {"arrival": {"kind": "closed"}},
        "point": point | {"concurrency": requests},
        "executor": data["executor"] | {"options": options},
        "protocol": {name: value for name, value in data["protocol"].items() if name != "stall"},
    }
