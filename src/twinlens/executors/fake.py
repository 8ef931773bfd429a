"""A machine whose truth is known: laws instead of hardware, so that every layer above can be checked against them.

A training step takes `step_s`, split 5/30/55/10 over data, forward, backward and optimize; a prefill
`a_s + b_s·tokens`, and a decode step `max(c_s, d_s·batch)`. An exchange between two ranks takes `latency_s` and
what its bytes take on the bus.
"""

from __future__ import annotations

import math

from twinlens.executors.capabilities import ALL_ARRIVALS, ALL_FAMILIES, Capabilities, Executor
from twinlens.executors.fake_exchanger import FakeExchanger
from twinlens.executors.fake_laws import OPTIONS, Laws
from twinlens.executors.protocol import Say, TakesRow
from twinlens.record.executor.facts import Facts
from twinlens.record.request import Request
from twinlens.record.step import Marks
from twinlens.schedule.request import Schedule, ScheduledRequest, request_of
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import Images, InferenceWorkload, TrainingWorkload

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
