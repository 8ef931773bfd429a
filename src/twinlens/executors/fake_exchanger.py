"""Exchanges whose truth is known: two ranks, a latency, and a bandwidth of the bus."""

from __future__ import annotations

from twinlens.executors.fake_laws import Laws
from twinlens.executors.protocol import Say
from twinlens.record.executor.facts import Facts
from twinlens.record.step import Exchange
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.collective import CollectiveWorkload

_RANKS, _FASTER = 2, 0.9


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
