"""A machine whose truth is known: laws instead of hardware, so that every layer above can be checked against them.

A training step takes `step_s`, split 5/30/55/10 over data, forward, backward and optimize; a prefill
`a_s + b_s·tokens`, and a decode step `max(c_s, d_s·batch)`. An exchange between two ranks takes `latency_s` and
what its bytes take on the bus.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from twinlens.clock import Clock, MonotonicClock, VirtualClock
from twinlens.errors import ExecutorFailed
from twinlens.executors.capabilities import (
    ALL_ARRIVALS,
    ALL_FAMILIES,
    Capabilities,
    Executor,
    Option,
    refuse_unknown_options,
)
from twinlens.executors.protocol import Say, TakesRow
from twinlens.record.estimate import Estimate
from twinlens.record.executor.facts import Facts
from twinlens.record.executor.record import ExecutorRecord, declared, observed
from twinlens.record.finding import Finding
from twinlens.record.request import Request
from twinlens.record.step import Exchange, Marks
from twinlens.schedule.request import Schedule, ScheduledRequest, request_of
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import CollectiveWorkload, Images, InferenceWorkload, TrainingWorkload

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


_RANKS, _FASTER = 2, 0.9
"""Ranks of an exchange, and the time of rank 0 in that of rank 1."""
_SPLIT = {"data": 0.05, "forward": 0.30, "backward": 0.55, "optimize": 0.10}


class FakeTrainer:
    """Steps that last what the laws say."""

    def open(self, spec: RunSpec, say: Say) -> Facts:
        assert isinstance(spec.workload, TrainingWorkload)
        self._laws, self._workload = Laws(spec), spec.workload
        return self._laws.facts(spec)

    def step(self) -> Marks:
        laws, workload = self._laws, self._workload
        index, begin_ns = laws.row, laws.now_ns()
        stall_s = laws.begin_row()
        at_ns, phases = begin_ns, dict[str, int]()
        for name, share in _SPLIT.items():
            end_ns = laws.spend(share * self._step_s(index) + (stall_s if name == "data" else 0.0))
            phases[f"{name}_ns"], at_ns = end_ns - at_ns, end_ns
        tokens = 0 if isinstance(workload.data, Images) else workload.global_batch * workload.seq_len
        loss = laws.law["loss_to"] + (laws.law["loss_from"] - laws.law["loss_to"]) * math.exp(
            -index / laws.law["loss_steps"]
        )
        return Marks(begin_ns, at_ns, samples=workload.global_batch, tokens=tokens, loss=loss, **phases)  # type: ignore[arg-type]

    def close(self) -> None:
        pass

    def _step_s(self, index: int) -> float:
        law = self._laws.law
        seconds = law["step_s"] * (1 + law["drift"] * index / 1000)
        if index < law["warmup_steps"]:
            seconds *= 1 + (law["warmup_factor"] - 1) * (1 - index / law["warmup_steps"])
        return float(seconds * (law["throttle_factor"] if index >= law["throttle_at"] else 1))


class FakeServer:
    """Batches whose prefill and decode last what the laws say."""

    def open(self, spec: RunSpec, say: Say) -> Facts:
        assert isinstance(spec.workload, InferenceWorkload)
        self._laws = Laws(spec)
        return self._laws.facts(spec)

    def play(self, schedule: Schedule, rows: TakesRow) -> None:
        laws = self._laws
        while True:
            upcoming = schedule.due(laws.now_ns())
            if upcoming:
                for request in self._answer(upcoming):
                    rows(request)
                    schedule.done(request)
            elif (due_ns := schedule.next_due_ns()) is not None:
                laws.clock.sleep_until_ns(laws.start_ns + due_ns)
            else:
                return

    def close(self) -> None:
        pass

    def _answer(self, upcoming: tuple[ScheduledRequest, ...]) -> list[Request]:
        laws, law = self._laws, self._laws.law
        sent_ns = laws.now_ns()
        stall_s = laws.begin_row()
        times = [laws.spend(stall_s + law["a_s"] + law["b_s"] * sum(scheduled.input_tokens for scheduled in upcoming))]
        longest = max(scheduled.output_tokens for scheduled in upcoming)
        times += [laws.spend(max(law["c_s"], law["d_s"] * len(upcoming))) for _ in range(longest - 1)]
        return [
            request_of(
                scheduled,
                sent_ns=sent_ns,
                chunk_ns=tuple(times[: max(1, scheduled.output_tokens)]),
                chunk_tokens=(1,) * scheduled.output_tokens or (0,),
                end_ns=times[max(1, scheduled.output_tokens) - 1],
            )
            for scheduled in upcoming
        ]


class FakeExchanger:
    """Exchanges that last what the laws say on rank 1, and nine tenths of it on rank 0."""

    def open(self, spec: RunSpec, say: Say) -> Facts:
        workload = spec.workload
        assert isinstance(workload, CollectiveWorkload)
        self._laws = laws = Laws(spec)
        moved = workload.size_bytes * workload.bus_factor(_RANKS)
        self._lasts_s = laws.law["latency_s"] + moved / laws.law["bus_bytes_per_s"]
        return laws.facts(spec)

    def exchange(self) -> tuple[Exchange, ...]:
        begin_ns = self._laws.now_ns()
        end_ns = self._laws.spend(self._lasts_s + self._laws.begin_row())
        taken_ns = end_ns - begin_ns
        return (Exchange(begin_ns, end_ns, (max(1, round(_FASTER * taken_ns)), taken_ns)),)

    def close(self) -> None:
        pass


EXECUTOR = Executor(
    Capabilities(
        families=ALL_FAMILIES,
        arrivals=ALL_ARRIVALS,
        options=OPTIONS,
    ),
    trainer=FakeTrainer,
    server=FakeServer,
    exchanger=FakeExchanger,
)
