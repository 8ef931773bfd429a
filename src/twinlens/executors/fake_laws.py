"""The laws of the fake executor: its options, its noise and its clock."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from twinlens.clock import Clock, MonotonicClock, VirtualClock
from twinlens.errors import ExecutorFailed
from twinlens.executors.capabilities import Option
from twinlens.executors.options import refuse_unknown_options
from twinlens.record.estimate import Estimate
from twinlens.record.executor.facts import Facts
from twinlens.record.executor.record import ExecutorRecord, declared, observed
from twinlens.record.finding import Finding
from twinlens.spec.study import RunSpec

OPTIONS: dict[str, Option] = {
    "step_s": Option(0.1, description="Seconds of a training step."),
    "warmup_steps": Option(0, description="Steps until the first, slow ones have decayed."),
    "warmup_factor": Option(3.0, description="How much slower the first step is."),
    "drift": Option(0.0, description="The relative slow-down over 1000 steps."),
    "throttle_at": Option(math.inf, description="The row from which it is slower."),
    "throttle_factor": Option(1.1, description="How much slower it is from there."),
    "loss_from": Option(6.0, description="The loss at the first step."),
    "loss_to": Option(2.0, description="The loss after many steps."),
    "loss_steps": Option(100.0, description="The steps in which the loss falls by a factor e."),
    "a_s": Option(0.01, description="Seconds of a prefill, whatever its length."),
    "b_s": Option(1e-4, description="Seconds of a prefill per token."),
    "c_s": Option(0.01, description="The least seconds of a decode step."),
    "d_s": Option(0.002, description="Seconds of a decode step per request of its batch."),
    "latency_s": Option(1e-3, description="Seconds of an exchange, whatever its size."),
    "bus_bytes_per_s": Option(1e9, description="Bandwidth of the bus of an exchange, beyond its latency."),
    "noise": Option(0.0, description="The coefficient of variation of a lognormal noise."),
    "stall_at": Option(math.inf, description="The row at which it stands still."),
    "stall_s": Option(5.0, description="How long it stands still."),
    "fail_at": Option(math.inf, description="The row at which it fails."),
    "pace": Option(0, description="Whether it sleeps: 0 is virtual time, 1 real time."),
}
_DEFAULTS: dict[str, float] = {name: option.default for name, option in OPTIONS.items()}


class Laws:
    """The options, the noise and the clock that all lenses share."""

    def __init__(self, spec: RunSpec) -> None:
        refuse_unknown_options("fake", spec.executor.options, _DEFAULTS)
        self.law: dict[str, Any] = _DEFAULTS | spec.executor.options
        self.clock: Clock = MonotonicClock() if self.law["pace"] else VirtualClock()
        self._start_ns: int | None = None
        self.row = 0
        self._rng = np.random.default_rng([spec.seed, 7])

    @property
    def start_ns(self) -> int:
        """The zero of the rows: the first time that anybody asks."""
        if self._start_ns is None:
            self._start_ns = self.clock.now_ns()
        return self._start_ns

    def now_ns(self) -> int:
        return -self.start_ns + self.clock.now_ns()

    def spend(self, seconds: float) -> int:
        """Let a duration pass, with its noise, and say when it is over."""
        if cv := self.law["noise"]:
            sigma = math.sqrt(math.log1p(cv**2))
            seconds *= float(self._rng.lognormal(-sigma * sigma / 2, sigma))
        self.clock.sleep_until_ns(self.clock.now_ns() + round(seconds * 1e9))
        return self.now_ns()

    def begin_row(self) -> float:
        """Count a row; the seconds it stalls. Raises ExecutorFailed where the law says so."""
        row, self.row = self.row, self.row + 1
        if row == self.law["fail_at"]:
            raise ExecutorFailed(f"the fake executor fails at row {row}, as asked", code="TL302")
        return float(self.law["stall_s"]) if row == self.law["stall_at"] else 0.0

    def facts(self, spec: RunSpec) -> Facts:
        fields = {
            "accelerator.product": observed("a fake with known laws", "executors/fake.py"),
            "software.framework.name": declared("fake", "executors/fake.py"),
        }
        work = {"weights_bytes": Estimate(1e6, "bytes", "a law of the fake executor", "modelled", n=1)}
        return Facts(ExecutorRecord(fields), work=work, memory=work, findings=(Finding("fake-executor", "notes"),))
