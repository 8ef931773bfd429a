"""Twinlens: two lenses on AI performance, training and inference, never averaged.

    import twinlens as tl
    study = tl.load("pretrain.toml")
    outcome = tl.measure(study.at(precision="bf16"))
    tl.summary(outcome.runs[0]).metrics["training_tokens_per_s"]
    tl.report(outcome.runs, to="report.html")

Names are loaded when they are first used: `import twinlens` costs nothing.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from twinlens.version import __version__

if TYPE_CHECKING:
    from twinlens.api.compare import broken_limits, compare, ledger
    from twinlens.api.diagnose import diagnose
    from twinlens.api.history import history
    from twinlens.api.judging.answers import Answers, answers
    from twinlens.api.judging.claim import ClaimResult, claim
    from twinlens.api.judging.evidence import evidence, verify
    from twinlens.api.judging.falsify import falsify
    from twinlens.api.measuring.burnin import BurninResult, burnin
    from twinlens.api.measuring.demo import Demo, demo
    from twinlens.api.measuring.gate import gate
    from twinlens.api.measuring.progress import Progress
    from twinlens.api.measuring.spec_asked import new
    from twinlens.api.measuring.studies import check, measure
    from twinlens.api.measuring.tune import TuneResult, tune, tuned
    from twinlens.api.measuring.watch import lightning_callback, trainer_callback, watch
    from twinlens.api.plan import verbs as plan
    from twinlens.api.plan.calibrate import Calibration
    from twinlens.api.plan.capacity import CapacityResult
    from twinlens.api.plan.check import CheckResult
    from twinlens.api.plan.checkpoint import CheckpointResult
    from twinlens.api.plan.choose import ChooseResult
    from twinlens.api.plan.cost import CostResult
    from twinlens.api.plan.fit import FitResult
    from twinlens.api.plan.method import MethodResult
    from twinlens.api.plan.model import ModelResult
    from twinlens.api.plan.quotes import QuotesResult
    from twinlens.api.plan.roi import RoiResult
    from twinlens.api.reference import explain, probe
    from twinlens.api.report import report
    from twinlens.api.runs import frame, peers, read, rows, show, summary
    from twinlens.api.simulating.mixed import SimulatedMix
    from twinlens.api.simulating.simulate import SimulateResult, simulate
    from twinlens.api.simulating.training import SimulatedTraining
    from twinlens.api.table import Table, table
    from twinlens.comparison.history import History
    from twinlens.comparison.ledger import Ledger
    from twinlens.comparison.verdict import Comparison
    from twinlens.diagnosis.diagnosis import Diagnosis
    from twinlens.errors import BadInput, ExecutorFailed, GateFailed, Interrupted, TwinlensError
    from twinlens.measurement.attach import attach
    from twinlens.measurement.event import Event
    from twinlens.measurement.machine.probe import CeilingRow, Probe
    from twinlens.measurement.own_loop.loop import OwnLoop
    from twinlens.measurement.preflight.check import Check, Prediction
    from twinlens.measurement.study import Outcome
    from twinlens.pack.check import Checked
    from twinlens.planning.prediction.band import Calibrated
    from twinlens.record.estimate import Estimate
    from twinlens.record.executor.facts import Facts
    from twinlens.record.finding import Finding
    from twinlens.record.run import Run, Runs
    from twinlens.spec.load import load, parse
    from twinlens.spec.study import RunSpec, Study
    from twinlens.stats.summary.group import Machine, Summary, Verdict
    from twinlens.web.published.site import Published, site


_NAMES = {
    "twinlens.api.judging.answers": ("Answers", "answers"),
    "twinlens.api.judging.claim": ("ClaimResult", "claim"),
    "twinlens.api.compare": ("broken_limits", "compare", "ledger"),
    "twinlens.api.measuring.burnin": ("BurninResult", "burnin"),
    "twinlens.api.measuring.demo": ("Demo", "demo"),
    "twinlens.api.diagnose": ("diagnose",),
    "twinlens.api.judging.evidence": ("evidence", "verify"),
    "twinlens.api.judging.falsify": ("falsify",),
    "twinlens.api.measuring.gate": ("gate",),
    "twinlens.api.history": ("history",),
    "twinlens.api.measuring.spec_asked": ("new",),
    "twinlens.api.plan.calibrate": ("Calibration",),
    "twinlens.api.plan.capacity": ("CapacityResult",),
    "twinlens.api.plan.check": ("CheckResult",),
    "twinlens.api.plan.checkpoint": ("CheckpointResult",),
    "twinlens.api.plan.choose": ("ChooseResult",),
    "twinlens.api.plan.cost": ("CostResult",),
    "twinlens.api.plan.fit": ("FitResult",),
    "twinlens.api.plan.method": ("MethodResult",),
    "twinlens.api.plan.model": ("ModelResult",),
    "twinlens.api.plan.quotes": ("QuotesResult",),
    "twinlens.api.plan.roi": ("RoiResult",),
    "twinlens.api.measuring.progress": ("Progress",),
    "twinlens.api.reference": ("explain", "list", "probe"),
    "twinlens.api.report": ("report",),
    "twinlens.api.runs": ("frame", "peers", "read", "rows", "show", "summary"),
    "twinlens.api.measuring.studies": ("check", "measure"),
    "twinlens.api.simulating.mixed": ("SimulatedMix",),
    "twinlens.api.measuring.tune": ("TuneResult", "tune", "tuned"),
    "twinlens.api.simulating.simulate": ("SimulateResult", "simulate"),
    "twinlens.api.simulating.training": ("SimulatedTraining",),
    "twinlens.api.table": ("table", "Table"),
    "twinlens.api.measuring.watch": ("lightning_callback", "trainer_callback", "watch"),
    "twinlens.comparison.history": ("History",),
    "twinlens.comparison.ledger": ("Ledger",),
    "twinlens.comparison.verdict": ("Comparison",),
    "twinlens.diagnosis.diagnosis": ("Diagnosis",),
    "twinlens.errors": ("BadInput", "ExecutorFailed", "GateFailed", "Interrupted", "TwinlensError"),
    "twinlens.measurement.attach": ("attach",),
    "twinlens.measurement.event": ("Event",),
    "twinlens.measurement.machine.probe": ("CeilingRow", "Probe"),
    "twinlens.measurement.own_loop.loop": ("OwnLoop",),
    "twinlens.measurement.preflight.check": ("Check", "Prediction"),
    "twinlens.measurement.study": ("Outcome",),
    "twinlens.pack.check": ("Checked",),
    "twinlens.planning.prediction.band": ("Calibrated",),
    "twinlens.record.estimate": ("Estimate",),
    "twinlens.record.executor.facts": ("Facts",),
    "twinlens.record.finding": ("Finding",),
    "twinlens.record.run": ("Run", "Runs"),
    "twinlens.spec.load": ("load", "parse"),
    "twinlens.spec.study": ("RunSpec", "Study"),
    "twinlens.stats.summary.group": ("Machine", "Summary", "Verdict"),
    "twinlens.web.published.site": ("Published", "site"),
}
_HOME = {name: module for module, names in _NAMES.items() for name in names}

# `list` is a verb here too, but no name that `import *` should put in the place of Python's own.
__all__ = [
    "Answers",
    "BadInput",
    "BurninResult",
    "Calibrated",
    "Calibration",
    "CapacityResult",
    "CeilingRow",
    "Check",
    "CheckResult",
    "Checked",
    "CheckpointResult",
    "ChooseResult",
    "ClaimResult",
    "Comparison",
    "CostResult",
    "Demo",
    "Diagnosis",
    "Estimate",
    "Event",
    "ExecutorFailed",
    "Facts",
    "Finding",
    "FitResult",
    "GateFailed",
    "History",
    "Interrupted",
    "Ledger",
    "Machine",
    "MethodResult",
    "ModelResult",
    "Outcome",
    "OwnLoop",
    "Prediction",
    "Probe",
    "Progress",
    "Published",
    "QuotesResult",
    "RoiResult",
    "Run",
    "RunSpec",
    "Runs",
    "SimulateResult",
    "SimulatedMix",
    "SimulatedTraining",
    "Study",
    "Summary",
    "Table",
    "TuneResult",
    "TwinlensError",
    "Verdict",
    "__version__",
    "answers",
    "attach",
    "broken_limits",
    "burnin",
    "check",
    "claim",
    "compare",
    "demo",
    "diagnose",
    "evidence",
    "explain",
    "falsify",
    "frame",
    "gate",
    "history",
    "ledger",
    "lightning_callback",
    "load",
    "measure",
    "new",
    "parse",
    "peers",
    "plan",
    "probe",
    "read",
    "report",
    "rows",
    "show",
    "simulate",
    "site",
    "summary",
    "table",
    "trainer_callback",
    "tune",
    "tuned",
    "verify",
    "watch",
]


_GROUPS = {"plan": "twinlens.api.plan.verbs"}
"""Verbs that stand in a group: `tl.plan.fit(...)`."""


def __getattr__(name: str) -> Any:
    if name in _GROUPS:
        from importlib import import_module

        return import_module(_GROUPS[name])
    if name not in _HOME:
        raise AttributeError(f"module 'twinlens' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)


if "IPython" in sys.modules:  # values show themselves in a notebook
    from twinlens.api.notebook import register

    register()
