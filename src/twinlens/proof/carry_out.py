"""One case: measured down the same way as any run, and diagnosed."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from twinlens.diagnosis.diagnosis import Diagnosis, diagnose_run
from twinlens.errors import BadInput, Interrupted, TwinlensError
from twinlens.executors.protocol import Trainer
from twinlens.measurement.session import run_here
from twinlens.measurement.study import measure_one
from twinlens.measurement.summary_file import store_summary
from twinlens.measurement.take_rows import SayProgress
from twinlens.proof.small_server import Case, small_server, spec_data
from twinlens.record.store import create_run, read_run
from twinlens.spec.load import parse
from twinlens.spec.study import RunSpec
from twinlens.system.processes import usable_cores

Outcome = Literal["right", "wrong", "undecided", "not tested"]


@dataclass(frozen=True, slots=True)
class Result:
    """`found`: the diagnosis; None where the case was not tested here, for `reason`."""

    case: Case
    outcome: Outcome
    found: Diagnosis | None = None
    reason: str = ""

    def __json__(self) -> dict[str, Any]:
        """A plain mapping."""
        return {
            "case": self.case.expected,
            "expected": self.case.expected,
            "found": self.found.verdict.code if self.found else None,
            "outcome": self.outcome,
            "reason": self.reason,
            "diagnosis": self.found,
        }


def carry_out(case: Case, folder: Path, say: SayProgress) -> Result:
    """Measure one case into `folder` and diagnose it. A case that cannot run here is not tested, with the reason."""
    try:
        run = read_run(_measured(case, folder, say))
        return judged(case, diagnose_run(run, store_summary(run)))
    except Interrupted:
        raise
    except (TwinlensError, ImportError) as error:
        return Result(case, "not tested", reason=str(error))


def judged(case: Case, found: Diagnosis) -> Result:
    """Whether the diagnosis names what the case saturates. Where it decides nothing it is not wrong; nor is it where
    the case cannot saturate memory, as the machine's own kernels read more slowly."""
    code = found.verdict.code
    unsure = code == "indeterminate" or (code, case.expected) == ("kernel-bound", "bandwidth-bound")
    outcome: Outcome = "right" if code == case.expected else "undecided" if unsure else "wrong"
    return Result(case, outcome, found)


def _measured(case: Case, folder: Path, say: SayProgress) -> Path:
    with ExitStack() as stack:
        url = stack.enter_context(small_server(case.pace)) if case.program == "server" else ""
        data = spec_data(case, _model(case, folder), url, max(1, usable_cores() - 1))
        (spec,) = parse(data).runs()
        if case.program in ("spec", "server"):
            return measure_one(folder, spec, say)
        return _with(_trainer(case), folder, spec, say)


def _model(case: Case, folder: Path) -> str | None:
    if case.config is None:
        return None
    path = folder / f"{case.expected}.json"
    path.write_text(json.dumps(case.config), encoding="utf-8")
    return str(path)


def _trainer(case: Case) -> Callable[[], Trainer]:
    if case.program == "slow-input":
        from twinlens.proof.slow_input import SlowInput

        return SlowInput
    from twinlens.executors.torch.two_processes import TwoProcesses, is_possible

    if not is_possible():
        raise BadInput("this torch has no gloo, so two processes cannot add up gradients", code="TL207")
    return TwoProcesses


def _with(trainer: Callable[[], Trainer], folder: Path, spec: RunSpec, say: SayProgress) -> Path:
    run = create_run(folder, spec)
    run_here(run, spec, say, opened=trainer())
    return run
