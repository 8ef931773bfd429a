"""A tuning from its spec to its answer: the search, the proof and what the winner does elsewhere, in one folder.

A kill at any instant loses at most the row that was being written: the same command goes on with the same ledger.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from twinlens.errors import BadInput, Interrupted
from twinlens.executors.registry import capabilities, executor
from twinlens.measurement.event import Event, Watch
from twinlens.measurement.preflight.idle_gpu import uses_gpu
from twinlens.measurement.preflight.memory import refuse_what_cannot_fit_together
from twinlens.measurement.preflight.refuse import preflight, refuse_what_cannot_run
from twinlens.measurement.server.shared import shared_server
from twinlens.measurement.study_folder import held_folder
from twinlens.measurement.summary_file import summary_of
from twinlens.record.estimate import Estimate
from twinlens.record.sections import ComplianceTest
from twinlens.record.store import end_study, is_ended, now_utc, read_run, read_study
from twinlens.spec.load import wrong_fields
from twinlens.spec.study import Study
from twinlens.system.interrupts import ignore_interrupts
from twinlens.tuning.bound import Bound, bound_of
from twinlens.tuning.effects import SettingEffect, setting_effects
from twinlens.tuning.elsewhere import Elsewhere, found_elsewhere, measure_elsewhere
from twinlens.tuning.ledger import FILE, Begun, Ledger, Standing, Trial, fold, read_ledger
from twinlens.tuning.prior import beyond, device_here
from twinlens.tuning.proof import (
    FOLDER,
    GUARDED,
    Proof,
    as_searched,
    guarded_study,
    guards_in,
    proof_study,
    prove_study,
    proved_in,
)
from twinlens.tuning.propose import Settings
from twinlens.tuning.runner import InRuns, InTurns
from twinlens.tuning.search import Search, gains, search
from twinlens.tuning.setting import refused
from twinlens.version import __version__

SHARES, _OWN_SHARE = "memory_share", 0.9
"""The option by which a server takes a part of the GPU's memory, and the part that vLLM takes by itself."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """A tuning as far as it is. `searched`: tuned over default by the very values that chose the winner. `alone`: the
    objective of the default by its run in the search, where nothing is better. `guards`: rulings on the winner."""

    folder: Path
    bound: Bound
    standing: Standing
    searched: Estimate | None
    effects: tuple[SettingEffect, ...]
    proof: Proof | None
    elsewhere: tuple[Elsewhere, ...]
    alone: Estimate | None = None
    guards: tuple[ComplianceTest, ...] = ()

    @property
    def winner(self) -> Trial:
        """The trial that leads; the default where none is better."""
        return self.standing.trials[self.standing.leader]

    @property
    def default(self) -> Trial:
        """The trial that changes nothing."""
        return self.standing.trials[0]


def measure_tuning(study: Study, out: Path, watch: Watch = lambda event: None, *, fresh: bool = False) -> Path:
    """Search, prove and try elsewhere, into a folder under `out`, or go on with the unfinished one of the same spec
    unless `fresh`. Raises BadInput (TL262) before anything starts, and Interrupted."""
    bound = bound_of(study)
    preflight(_default_alone(study))
    _refuse_crowd(bound)
    with held_folder(study, out, unfinished_tuning, fresh=fresh) as folder:
        ledger = Ledger(folder)
        if not ledger.standing.bound:
            ledger.add(Begun(bound.asked, __version__, now_utc()))
        elif ledger.standing.bound != bound.asked:
            raise BadInput(f"{folder / FILE} is of another bound; take --fresh or another --out", code="TL262")
        _search(bound, ledger, folder, watch)
        winner = ledger.standing.trials[ledger.standing.leader]
        if winner.settings:
            round_s = _round_s(ledger.standing)
            study = proof_study(bound, winner.settings, round_s=round_s)
            prove_study(bound, winner.settings, study, folder / FOLDER, watch)
            if (guarded := guarded_study(bound, winner.settings)) is not None:
                prove_study(bound, winner.settings, guarded, folder / GUARDED, watch)
            if bound.tune.proof.elsewhere:
                measure_elsewhere(bound, winner, folder, watch, round_s)
    return folder


def _refuse_crowd(bound: Bound) -> None:
    """Raises BadInput (TL211) where candidates that are up together may not fit."""
    slots, spec = bound.tune.slots, bound.spec({})
    if not bound.objective.in_turns:
        return
    alone = "lower tune.slots, or set tune.in_turns = false: each round is then a run of its own"
    asked = spec.executor.options.get(SHARES)
    share = asked if isinstance(asked, int | float) else _OWN_SHARE
    if SHARES in capabilities(spec.executor.kind).options and uses_gpu(spec.device) and slots * share > 1:
        raise BadInput(
            f"[tune]: {slots} candidates are up together and each takes {share:.0%} of the GPU's memory; set "
            f"executor.options.{SHARES} = {math.floor(100 / slots) / 100:g}, {alone}",
            code="TL211",
        )
    try:
        refuse_what_cannot_fit_together([spec] * slots)
    except BadInput as error:
        raise BadInput(f"[tune]: {slots} candidates are up together ({error}); {alone}", code=error.code) from error


def _default_alone(study: Study) -> Study:
    return study.model_copy(update={"tune": None})


def _search(bound: Bound, ledger: Ledger, folder: Path, watch: Watch) -> None:
    spec = bound.spec({})

    def phrase(words: str) -> None:
        standing = ledger.standing
        share = standing.spent_s / (3600 * bound.tune.budget.wall_h)
        watch(Event(max(1, standing.counted), bound.tune.budget.trials, spec, words, min(1.0, share), standing.rounds))

    with _runner(bound, folder, phrase) as runner:
        search(Search(bound, ledger, runner, lambda settings: why_not(bound, settings),
                      lambda standing, words: phrase(words), devices_of(bound)))  # fmt: skip


@contextmanager
def _runner(bound: Bound, folder: Path, phrase: object) -> Iterator[InTurns | InRuns]:
    with shared_server(folder) as servers:
        made = InTurns if bound.objective.in_turns else InRuns
        runner = InTurns(bound, folder, phrase) if made is InTurns else InRuns(bound, folder, phrase, servers)  # type: ignore[arg-type]
        try:
            yield runner
        except (KeyboardInterrupt, Interrupted):
            with ignore_interrupts():
                runner.close()
            raise Interrupted(f"interrupted; the ledger and all runs are kept in {folder}; the same command goes on "
                              "with them") from None  # fmt: skip
        finally:
            runner.close()


def devices_of(bound: Bound) -> int:
    """How many devices a candidate of the bound uses at most; a processor is one."""
    divide = executor(bound.study.executor.kind).degrees
    if divide is None:
        return 1
    try:
        return max(1, divide(bound.spec({})).ranks)
    except BadInput:
        return 1


def why_not(bound: Bound, settings: Settings) -> str:
    """Why a candidate cannot run, before it costs anything: a condition of its settings, what its spec refuses, and
    what does not fit this machine, and what a prediction puts out of reach. "" where it can."""
    if sentence := refused({**bound.default, **settings}, bound.space, bound.study):
        return sentence
    try:
        spec = bound.spec(settings)
        refuse_what_cannot_run(spec)
    except ValidationError as error:
        return wrong_fields(error)
    except BadInput as error:
        return str(error)
    return beyond(spec, bound.tune.constraints, device_here(spec))


def unfinished_tuning(study: Study, out: Path) -> Path | None:
    """The newest tuning of the same spec under `out` that was not shown to its end; None without one."""
    for record in sorted(out.glob("*/study.json"), reverse=True):
        try:
            if (record.parent / FILE).exists() and read_study(record.parent).fingerprint() == study.fingerprint():
                return None if is_ended(record.parent) else record.parent
        except BadInput:
            continue  # a broken neighbour is no reason to stop
    return None


def end_tuning(folder: Path) -> None:
    """Say that a tuning was shown: asked for again, it is measured again."""
    end_study(folder)


def is_tuning(folder: Path) -> bool:
    """Whether a folder holds a tuning."""
    return (folder / FILE).exists()


def read_tuning(folder: Path) -> Tuning:
    """What a tuning came to so far. Raises BadInput (TL205) for a folder that is none."""
    standing = fold(read_ledger(folder))
    bound = bound_of(read_study(folder))
    if not standing.trials:
        raise BadInput(f"{folder} has no trial yet; run the same command again to go on", code="TL205")
    values, winner = gains(bound, standing), standing.trials[standing.leader]
    effects = setting_effects(standing.trials, values, bound.objective.sign)
    if not winner.settings:
        alone = _alone(folder, standing.trials[0], bound.objective.metric)
        return Tuning(folder, bound, standing, None, effects, None, (), alone)
    searched = as_searched(values, winner.number, bound.objective.sign)
    round_s = _round_s(standing)
    proof = proved_in(bound, proof_study(bound, winner.settings, round_s=round_s), folder / FOLDER)
    around = found_elsewhere(bound, winner, folder, round_s) if bound.tune.proof.elsewhere else ()
    return Tuning(folder, bound, standing, searched, effects, proof, around, guards=guards_in(folder / GUARDED))


def _round_s(standing: Standing) -> float:
    """How long a round took of the default or of the winner, whichever was slower."""
    return max(standing.trials[0].round_s, standing.trials[standing.leader].round_s)


def _alone(folder: Path, default: Trial, metric: str) -> Estimate | None:
    """The objective of the default by its last run in the search; None where that is not there or does not have it."""
    places = [folder / name for name in default.runs if (folder / name / "run.json").exists()]
    return summary_of(read_run(places[-1])).metrics.get(metric) if places else None
