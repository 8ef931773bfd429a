"""The falsifier of a verdict as a study of two points that take turns, and the ruling on what it measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from twinlens.diagnosis.diagnosis import Diagnosis
from twinlens.errors import BadInput
from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding
from twinlens.spec.study import RunSpec
from twinlens.stats.paired.ratio import PairedRatio

Ruling = Literal["confirmed", "refuted", "undecided"]
_HALF = {"fp32": "bf16", "tf32": "bf16", "bf16": "int8-weight", "fp16": "int8-weight"}
_ROUNDS = 16
_LEAST_SLICE_S = 0.25
_MARGIN = 2.5  # of a slice over the longer row, so that each slice holds some
_DECODE = "decode_tokens_per_s"
_UNTRIED = {
    "remove-wait": "no setting of a run takes that wait away",
    "halve-weights": "no precision here has weights of half the bits, in which this lens can run",
    "double-batch": "only training and engine-level runs have a batch of their own",
}


@dataclass(frozen=True, slots=True)
class Change:
    """One setting of a run, by its dotted path, and its value before and after."""

    path: str
    before: Any
    after: Any


def change_of(spec: RunSpec, found: Diagnosis) -> Change:
    """The change that the verdict names, as a setting of this run. Raises BadInput (TL228) where it cannot be made."""
    change = found.verdict.numbers.get("change")
    if change is None:
        raise BadInput(f"{found.run} is {found.verdict.code}: that has no falsifier to try", code="TL228")
    if found.verdict.subject not in ("step", "decode"):
        raise _cannot(found, f"turns compare steps and decode, and it is of {found.verdict.subject}")
    make = {"double-batch": _doubled, "halve-weights": _halved}.get(change)
    made = make(spec) if make else None
    if made is None:
        raise _cannot(found, _UNTRIED.get(change, "this version does not know its change"))
    return made


def _cannot(found: Diagnosis, why: str) -> BadInput:
    return BadInput(f"the falsifier of {found.run} ({found.verdict.code}) cannot be tried: {why}", code="TL228")


def _doubled(spec: RunSpec) -> Change | None:
    """Twice the batch that is computed together; of accumulated parts, twice the part where that divides the whole."""
    if spec.workload.kind == "training":
        part, whole = spec.point.microbatch, spec.workload.global_batch
        if part is not None and part < whole:
            return Change("point.microbatch", part, 2 * part) if whole % (2 * part) == 0 else None
        return Change("workload.global_batch", whole, 2 * whole)
    if spec.workload.arrival.kind != "lockstep":
        return None
    return Change("point.batch", spec.point.batch, 2 * spec.point.batch)


def _halved(spec: RunSpec) -> Change | None:
    after = _HALF.get(spec.point.precision)
    if after is None or (spec.workload.kind == "training" and after != "bf16"):
        return None
    return Change("point.precision", spec.point.precision, after)


def study_data(spec: RunSpec, change: Change, row_s: float) -> dict[str, Any]:
    """The spec of a study of both values, in turns; all else is that of the run. `row_s`: of one step or request."""
    data = spec.to_dict()
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
    """The rate that the verdict is about, of those that turns have."""
    if found.verdict.subject == "decode" and _DECODE in known:
        return _DECODE
    return next(name for name in known if name != _DECODE)


def ruling_of(numbers: dict[str, Any], ratio: Estimate) -> Ruling:
    """Confirmed or refuted where the whole interval of the ratio is on one side of the bound; else undecided."""
    if ratio.low is None or ratio.high is None:
        return "undecided"
    least, most = numbers.get("at_least"), numbers.get("at_most")
    if least is not None:
        return "confirmed" if ratio.low >= least else "refuted" if ratio.high < least else "undecided"
    if most is None:
        return "undecided"
    return "confirmed" if ratio.high <= most else "refuted" if ratio.low > most else "undecided"


def ruled(found: Diagnosis, change: Change, measured: PairedRatio, study: str) -> Finding:
    """The outcome as a finding, which is kept with the run."""
    verdict = found.verdict
    bound = {name: verdict.numbers.get(name) for name in ("at_most", "at_least")}
    ruling = ruling_of(bound, measured.ratio)
    numbers = {
        "verdict": verdict.code, "change": verdict.numbers["change"], "path": change.path, "from": change.before,
        "to": change.after, "metric": measured.metric, "ruling": ruling, "rounds": measured.blocks,
        "label": measured.label, "study": study, **bound,
    }  # fmt: skip
    severity: Literal["warns", "notes"] = "warns" if ruling == "refuted" else "notes"
    return Finding("falsifier-tried", severity, verdict.subject, numbers, {"ratio": measured.ratio})
