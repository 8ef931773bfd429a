"""Measured runs of one's own as the base of a plan: their model, lengths, engine and load, and their constants."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from twinlens.api.compare import sides
from twinlens.api.plan.calibrate import Compared, compared, observed, own_constants
from twinlens.api.plan.reading.amount import UNREADABLE
from twinlens.api.plan.reading.subject import THIS
from twinlens.api.runs import material_of, read
from twinlens.comparison.side import Side
from twinlens.diagnosis.decoder import shape_of
from twinlens.errors import BadInput
from twinlens.planning.choose.wanted import Own, Owns
from twinlens.planning.fit.runtime import PLAIN, Measured, measured_parts
from twinlens.planning.fit.serving import Serving, serving_parts
from twinlens.planning.fit.training import Training, training_parts
from twinlens.planning.prediction.band import Calibrated
from twinlens.planning.prediction.calibrate import Lens, calibrated
from twinlens.planning.prediction.question import ServingQuestion
from twinlens.planning.subject import Subject
from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding
from twinlens.record.run import Run
from twinlens.spec.catalogue import Catalogue
from twinlens.spec.device import Device, find_device
from twinlens.spec.precision import BITS
from twinlens.spec.workload.workload import InferenceWorkload, TrainingWorkload
from twinlens.theory.figure import Figure, assumed
from twinlens.theory.parameter import parameters
from twinlens.theory.sharding import Split


@dataclass(frozen=True, slots=True)
class Like:
    """`question`: that of the last run. `rows`: what was measured beside what was predicted, before and after."""

    question: ServingQuestion
    known: Calibrated
    rows: tuple[Compared, ...]


def like_runs(path: str | Path, device: Device | None, precision: str | None, tensor: int, engine: str | None) -> Like:
    """What served runs say. Raises BadInput where none is of use, and (TL231) where their device is not known."""
    card = device or _device_of(path)
    observations, _ = observed([path], card, precision, tensor, engine, "serving")
    known = calibrated([each for _, each in observations], today=datetime.now(UTC).date())
    question = observations[-1][1].question
    assert isinstance(question, ServingQuestion)
    return Like(question, known, tuple(compared(observations, known)))


def _device_of(path: str | Path) -> Device:
    products = [str(run.facts.executor.value("accelerator.product") or "") for run in read(path) if run.facts]
    found = next((device for each in products if (device := find_device(each))), None)
    if found is None:
        said = f" ({products[0][:60]})" if products and products[0] else ""
        raise BadInput(
            f"the device of these runs{said} is not in the catalogue; name it with --device, or give a "
            "--probe of it (`twinlens probe --json`)",
            code=UNREADABLE,
        )
    return found


# Memory of a measured run as the base of `plan fit`: its model, its lens, its sizes, and its bytes by part.

_PARTS = ("weights", "gradients", "optimizer", "activations", "kv", "peak")
_LAYOUTS = {"fp32": "fp32", "bf16": "16-bit-autocast", "fp16": "16-bit-autocast"}
"""How the runs of this program keep their state, by the precision that was asked for."""


@dataclass(frozen=True, slots=True)
class LikeMemory:
    """The run as a plan of its own, and what it measured over the arithmetic of that plan."""

    plan: Serving | Training
    parts: tuple[Measured, ...]


def like_memory(path: str | Path) -> LikeMemory:
    """The run with most parts. Raises BadInput (TL231) for a run that measured none apart."""
    found = [each for run, summary in material_of(read(path)) if (each := _of(run, summary.metrics)) is not None]
    if not found:
        raise BadInput(
            f"--like {str(path)[-60:]!r} measured no memory by part (a server takes its cache beforehand, so its peak "
            "is not what it needs); give a run of the torch executor, in bf16, fp16 or fp32",
            code=UNREADABLE,
        )
    return max(found, key=lambda each: len(each.parts))


def _of(run: Run, metrics: Any) -> LikeMemory | None:
    shape = shape_of(run)
    values = {part: metrics[f"{part}_bytes"].value for part in _PARTS if f"{part}_bytes" in metrics}
    measured = {part: float(value) for part, value in values.items() if value}
    if shape is None or "weights" not in measured:
        return None
    workload, point = run.spec.workload, run.spec.point
    subject = Subject(str(workload.model), int(parameters(shape).total), shape, "the run's config")
    if isinstance(workload, TrainingWorkload):
        if point.precision not in _LAYOUTS:
            return None
        batch = point.microbatch or workload.global_batch
        taught = Training(
            subject, layout=_LAYOUTS[point.precision], context=workload.seq_len, batch=batch,
            recompute="full" if workload.checkpointing else "none",
        )  # fmt: skip
        return LikeMemory(taught, measured_parts(training_parts(taught, Split()), measured, run.id))
    assert isinstance(workload, InferenceWorkload)
    kept = str(run.spec.precision.classes("inference")["kv"])
    context = int(workload.input_tokens.max + workload.output_tokens.max)
    if point.precision not in ("fp32", "bf16", "fp16"):
        return None
    many = point.batch or 1
    served = Serving(subject, point.precision, kept, BITS[kept] / 8, many, context, PLAIN, many)
    return LikeMemory(served, measured_parts(serving_parts(served, 0.0), measured, run.id))


def owns_of(known: str | Path | None, like: str | Path | None, whole: Catalogue) -> Owns:
    """`known`: a file of `plan calibrate`; `like`: served runs, which go before it.

    Raises BadInput (TL231) for a file that does not say what its runs ran on, or of runs of several engines.
    """
    own: dict[Lens, Own] = {}
    if known is not None:
        own = {lens: _own(each, Path(known).name) for lens, each in own_constants(known).items()}
    if like is not None:
        this = next((each for each in whole.devices if each.name == THIS), None)
        seen = like_runs(like, this, None, 1, None)
        own["serving"] = Own(frozenset({seen.question.device.name}), seen.question.engine, seen.known)
    return own


def _own(known: Calibrated, name: str) -> Own:
    if not known.own:
        raise BadInput(f"{name} does not say what its runs ran on; write it again: plan calibrate -o", code=UNREADABLE)
    engines = sorted(known.own["engine"])
    if len(engines) > 1:
        raise BadInput(
            f"{name} is of runs of several engines ({', '.join(engines)}); calibrate each in a file of its own",
            code=UNREADABLE,
        )
    return Own(known.own["device"], engines[0], known)


# The speed of a measured run for plans of money: the rate within its SLO, tokens of a request, and power.


@dataclass(frozen=True, slots=True)
class Speed:
    """A measured run as a plan of money needs it.

    `power_w`: of all devices together, None where it was not measured; `notes`: what the run lacks.
    """

    throughput: Figure
    input_tokens: Figure | None
    output_tokens: Figure | None
    power_w: float | None
    name: str
    notes: tuple[Finding, ...] = ()


def measured(run: str | Path) -> Speed:
    """The point of the highest rate within its SLO. Raises BadInput (TL231) for runs that served nothing."""
    found = [side for side in sides(run, False) if side.lens == "inference" and not side.group.is_simulated]
    best = max(found, key=_rank, default=None)
    rate, is_good = _rate(best) if best is not None else (None, False)
    if best is None or rate is None or not rate.value or rate.value <= 0:
        raise BadInput(
            f"--like {str(run)[:60]!r} has no rate of requests: give a measured run of inference that ended",
            code=UNREADABLE,
        )
    name = best.name
    notes: tuple[Finding, ...] = () if best.group.ranked else (assumed("like-not-ranked", name),)
    notes += () if is_good else (assumed("like-without-slo", name),)
    is_banded = rate.low is not None and rate.high is not None and rate.low > 0
    ends = (rate.low, rate.high, rate.level) if is_banded else (None, None, None)
    notes += () if is_banded else (assumed("like-without-interval", name),)
    throughput = Figure("throughput", rate.value, "requests/s", low=ends[0], high=ends[1], level=ends[2],
                        origin="measured", source=name, assumptions=notes)  # fmt: skip
    ahead, after = _tokens(best, name)
    power = best.group.metrics.get("mean_power_w")
    return Speed(throughput, ahead, after, power.value if power else None, name, notes)


def _rank(side: Side) -> tuple[bool, bool, float]:
    rate, is_good = _rate(side)
    return side.group.ranked, is_good, (rate.value or 0.0) if rate else 0.0


def _rate(side: Side) -> tuple[Estimate | None, bool]:
    """Goodput, else the sustained rate whatever its latency; and whether it is goodput."""
    good = side.group.metrics.get("goodput_per_s")
    if good is not None and good.value is not None:
        return good, True
    return side.group.metrics.get("requests_per_s"), False


def _tokens(side: Side, name: str) -> tuple[Figure | None, Figure | None]:
    """Mean tokens of a request, in and out, from the rates of the run."""
    metrics = side.group.metrics
    rates = [metrics.get(each) for each in ("requests_per_s", "output_tokens_per_s", "total_tokens_per_s")]
    values = [rate.value if rate is not None else None for rate in rates]
    requests, after, both = values
    if not requests or after is None:
        return None, None
    out = Figure("output-tokens", after / requests, "tokens", origin="measured", source=name)
    if both is None or both <= after:
        return None, out
    return Figure("input-tokens", (both - after) / requests, "tokens", origin="measured", source=name), out
