"""Training in virtual time, as the verb answers it: what was asked read into courses, and their forecasts."""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twinlens.api.documented import Documented
from twinlens.api.questions import Simulate
from twinlens.api.simulating.settings import UNREADABLE
from twinlens.api.simulating.training_basis import learnt, quoted, workload_of
from twinlens.api.simulating.training_settings import MOST_STEPS, TrainingSettings, training_settings
from twinlens.errors import BadInput
from twinlens.record.codec import encode
from twinlens.record.run import Run
from twinlens.record.store import now_utc
from twinlens.simulation.points.sweep import with_seeds
from twinlens.simulation.training.course import NOTHING, Constant
from twinlens.simulation.training.forecast import Forecast, Forecasts, Known, forecast, over
from twinlens.simulation.training.rows import NOT_MODELLED
from twinlens.simulation.training.run_folder import RULES_FROM, law_of, write_course
from twinlens.spec.load import load, parse
from twinlens.spec.study import RunSpec, Study
from twinlens.theory.waiting.checkpoint import daly
from twinlens.version import __version__

if TYPE_CHECKING:
    from twinlens.reporting.document.block import Document

_OF_SERVING = ("batching", "routing", "signal_age", "failing", "slow", "price", "replicas", "pools", "link")
_MOST_WORK, _MOST_ROWS = 100_000_000, 2_000_000
_INSTEAD = {"slow": "--set slow=1.2", "replicas": "--set ranks=64", "failing": "--set mtbf=8h"}


@dataclass(frozen=True, slots=True, repr=False)
class SimulatedTraining(Forecasts, Documented):
    """What `simulate` found of a training; `tl.report(found)` and `tl.show(found)` take it as its runs."""

    def document(self) -> Document:
        from twinlens.reporting.simulated.training import training_document

        return training_document(self)

    def to_json(self) -> dict[str, Any]:
        """As plain data; every figure with its band, its method and its origin."""
        return {
            "schema": 1, "twinlens": __version__, "simulated": True, "lens": "training",
            "rules": {"read_from": RULES_FROM}, "changed": list(self.changed), "not_modelled": list(NOT_MODELLED),
            "points": [forecast_json(each) for each in self.points],
            "before": [forecast_json(each) for each in self.before],
            "changes": [encode(dict(over(old, new)))
                        for old, new in zip(self.before, self.points, strict=bool(self.before))],
            "runs": [str(run.folder) for run in self.runs],
        }  # fmt: skip


def forecast_json(one: Forecast) -> dict[str, Any]:
    """A training as plain data."""
    known, saves = one.known, one.saves
    return {
        "point": one.spec.point.model_dump(mode="json", exclude_none=True), "seeds": len(one.found.each),
        "law": {"origin": known.origin, "source": known.course.source, "device": known.device or None,
                "constants": law_of(known.course), "shares": dict(known.shares), "doubts": list(known.doubts),
                "not_known": list(known.lacks)},
        "steps": known.course.steps, "samples_per_step": known.step.samples, "tokens_per_step": known.step.tokens,
        "bubble": None if known.passes is None else known.passes.idle_share,
        "wall_s": encode(one.found.wall), "productive": encode(one.found.productive),
        "failures": encode(one.found.failures), "account": encode(dict(one.account)),
        "tokens_per_s": encode(one.tokens_per_s), "samples_per_s": encode(one.samples_per_s),
        "saves": None if saves is None else {
            "best_s": encode(saves.best), "daly_s": encode(one.daly), "young_s": encode(one.young),
            "kept": [{"interval_s": at, "kept": encode(share)} for at, share in saves.kept.items()],
        },
    }  # fmt: skip


def simulate_training(spec: Study | RunSpec | str | Path, asked: Simulate) -> SimulatedTraining:
    """A training spec in virtual time. Raises BadInput (TL245, TL250), before any work."""
    _refuse_serving(asked)
    said = training_settings(asked.set_)
    study = study_of(spec, asked, said)
    points = [(run, known_of(run, asked, said)) for run in study.point_runs()]
    plain = said.without_change
    others = study_of(spec, asked, plain).point_runs() if said.changed else []
    before = [(run, known_of(run, asked, plain)) for run in others] if len(others) == len(points) else []
    _refuse_endless([known for _, known in (*points, *before)], asked.seeds)
    _refuse_rows([known for _, known in points], asked)
    found = tuple(forecast(run, known, asked.seeds) for run, known in points)
    runs = () if asked.dry else _written(study, found, asked.seeds, asked.out)
    old = tuple(forecast(run, known, asked.seeds, is_before=True) for run, known in before)
    return SimulatedTraining(study, found, old, said.changed, runs)


def _refuse_serving(asked: Simulate) -> None:
    """Raises BadInput (TL250) for options of serving."""
    plain = Simulate.model_construct(spec=asked.spec)
    for name in _OF_SERVING:
        if getattr(asked, name) != getattr(plain, name):
            what = name.replace("_", "-")
            other = f"say {_INSTEAD[name]}" if name in _INSTEAD else "leave it out"
            raise BadInput(f"--{what} is of serving, and this spec is of training; {other}", code=UNREADABLE)


def study_of(spec: Study | RunSpec | str | Path, asked: Simulate, said: TrainingSettings) -> Study:
    """The spec under what was set of it; a precision that was set is the only one."""
    from twinlens.api.measuring.spec_asked import as_settings

    told = [*as_settings(asked.at), *said.spec]
    told += [f'sweep.precision=["{said.precision}"]'] if said.precision else []
    if isinstance(spec, str | Path):
        return load(spec, told)
    data = spec.to_dict()
    data.pop("repeat", None)
    return parse(data, told)


def known_of(spec: RunSpec, asked: Simulate, said: TrainingSettings) -> Known:
    """What is known of one point, with its length, its saves and its failures. Raises BadInput (TL250)."""
    laws = {"--like": asked.like, "--law": asked.law, "--device": asked.device}
    named = [name for name, given in laws.items() if given]
    if len(named) != 1:
        raise BadInput(
            f"training in virtual time has one law, and {' and '.join(named) or 'nothing'} was given: name measured "
            "runs of training (--like RUN), a table (--law FILE) or a device of the catalogue (--device H100)",
            code=UNREADABLE)  # fmt: skip
    if asked.like:
        return with_length(learnt(asked.like, spec, said), said, spec)
    if asked.law is not None:
        return with_length(quoted(asked.law, spec, said, asked.devices), said, spec)
    from twinlens.api.simulating.training_theory import modelled  # planning is loaded where a step is modelled

    return with_length(modelled(spec, asked.device or "", said, asked.devices), said, spec)


def with_length(known: Known, said: TrainingSettings, spec: RunSpec) -> Known:
    """The course with what was asked of it: its steps, its saves, and its failures. Raises BadInput (TL250)."""
    course, lacks = known.course, set(known.lacks) - {name for name in ("save", "restart") if said[name] is not None}
    save, restart = said["save"] or course.save, said["restart"] or course.restart
    failure = said["mtbf"] or _of_devices(said["device_mtbf"], known.ranks)
    missing = [name for name in ("save", "restart") if failure is not None and name in lacks]
    if missing:
        raise BadInput(
            f"failures throw training back to its last save, and what a {' and a '.join(missing)} takes is not known: "
            f"{' '.join(f'--set {name}=40s' for name in missing)}", code=UNREADABLE)  # fmt: skip
    if said["save_every"] and "save" in lacks:
        raise BadInput("what a save takes is not known: --set save=40s, or runs that saved", code=UNREADABLE)
    asked = workload_of(spec).checkpoint
    every = said["save_every"] or (0 if "save" in lacks else asked.every_steps if asked else course.save_every)
    steps = _steps(known, said)
    if failure is not None and not every:  # as often as is best
        best_s = float(daly(save.value, failure.value)) if save.value else course.step_s
        every = max(1, min(round(best_s / course.step_s), steps))
    made = replace(course, steps=steps, save_every=every, save=save if every else NOTHING, restart=restart,
                   failure=failure)  # fmt: skip
    return replace(known, course=made, lacks=tuple(sorted(lacks)))


def _of_devices(each: Constant | None, ranks: int) -> Constant | None:
    """The time between failures of a job that fails when any of its devices does."""
    if each is None:
        return None
    low, high = (None if end is None else end / ranks for end in (each.low, each.high))
    return Constant(each.value / ranks, low, high)


def _steps(known: Known, said: TrainingSettings) -> int:
    steps = said["steps"] or known.course.steps
    if said["tokens"] is not None:
        if not known.step.tokens:
            raise BadInput("images have no tokens: say how long training is with --set steps=10000", code=UNREADABLE)
        steps = math.ceil(said["tokens"] / known.step.tokens)
    if not steps:
        raise BadInput("a spec does not say how long training is: --set steps=10000, or --set tokens=300B",
                       code=UNREADABLE)  # fmt: skip
    if steps > MOST_STEPS:
        raise BadInput(f"that is {steps:,} steps, and at most {MOST_STEPS:,} are simulated: fewer steps or tokens",
                       code=UNREADABLE)  # fmt: skip
    return int(steps)


def _refuse_endless(courses: Sequence[Known], seeds: int) -> None:
    """Raises BadInput (TL250) for more work than anybody waits for."""
    steps = seeds * sum(each.course.steps for each in courses)
    if steps > _MOST_WORK:
        raise BadInput(f"{seeds} simulations of them make {steps:,} steps, and at most {_MOST_WORK:,} are simulated at "
                       "once: fewer --seeds, or fewer steps", code=UNREADABLE)  # fmt: skip


def _refuse_rows(courses: Sequence[Known], asked: Simulate) -> None:
    rows = asked.seeds * sum(each.course.steps for each in courses)
    if not asked.dry and rows > _MOST_ROWS:
        raise BadInput(f"the runs have {rows:,} rows, and at most {_MOST_ROWS:,} are kept: --dry keeps none",
                       code=UNREADABLE)  # fmt: skip


def _written(study: Study, found: Sequence[Forecast], seeds: int, out: Path) -> tuple[Run, ...]:
    """A run folder for each simulation of each point."""
    folder = out / f"{now_utc()}_{study.name}_simulated_{secrets.token_hex(2)}"
    return tuple(
        write_course(folder, spec, one.course, one.known.step, one.known.origin, _facts(one.known))
        for one in found
        for spec in with_seeds([one.spec], seeds)
    )


def _facts(known: Known) -> dict[str, Any]:
    device = {"accelerator.product": known.device} if known.device else {}
    return device | {"software.runtime.name": "simulated"}
