"""Sampling the machine while something runs, in a daemon thread that reports its own cost.

Every source may be missing: its columns are then absent, and the run goes on.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

import psutil

from twinlens.clock import Clock, MonotonicClock
from twinlens.measurement.machine.contention import CpuReading, Pressure, read_cpu, shares
from twinlens.measurement.machine.energy import Meters
from twinlens.measurement.machine.nvidia import Gpm, open_gpm
from twinlens.record.estimate import Estimate
from twinlens.record.samples import Sample
from twinlens.system.nvml import Gpu
from twinlens.units import RATIO

Sink = Callable[[list[dict[str, Any]]], None]
DEFAULT_PERIOD_S = 0.5
_CHILDREN_EVERY = 20  # samples


class Sampler:
    """Reads host and GPUs every `period_s` and hands one row per source to `sink`, from its own thread.

    Use it as a context manager around the run. Sample times count from `start_ns` on `clock`: unless given, the moment
    it is entered. A sink that raises ends the sampling and `error` keeps why: telemetry never ends a run. Ratios
    are over the interval since the sample before, so the first row has none. `server_pids`: the first processes
    of the server or of the ranks that are measured, whose work is ours. `knows_others` False: such a server is here,
    and its processes cannot be seen, so that nothing is said of what others used. `more`: rows of another source at a
    moment. `most_share`: of a processor that sampling may take; a sample that cost more is followed by a longer pause.
    """

    def __init__(
        self,
        sink: Sink,
        gpus: Sequence[Gpu] = (),
        period_s: float = DEFAULT_PERIOD_S,
        start_ns: int | None = None,
        clock: Clock | None = None,
        meters: Meters | None = None,
        server_pids: Sequence[int] = (),
        knows_others: bool = True,
        more: Callable[[int], Sequence[Sample]] | None = None,
        most_share: float | None = None,
    ) -> None:
        self._clock = clock or MonotonicClock()
        self._starts_open = start_ns is None
        self._start_ns = self._clock.now_ns() if start_ns is None else start_ns
        self._sink, self._gpus, self._period_s, self._meters = sink, tuple(gpus), period_s, meters
        self._metered = None if meters is None else {meter.scope for meter in meters.meters}
        self._counters, self._more = dict[str, Gpm](), more or (lambda now_ns: ())
        self._process = psutil.Process()
        self._pressure = Pressure(self._process)
        self._server_pids, self._knows_others = tuple(server_pids), knows_others
        self._children, self._theirs = list[psutil.Process](), list[psutil.Process]()
        self._reads = 0
        self._before: CpuReading | None = None
        self._ended, self._awake, self._one = threading.Event(), threading.Event(), threading.Lock()
        self._awake.set()
        self._thread = threading.Thread(target=self._loop, name="telemetry", daemon=True)
        self._spent_ns = self._last_ns = 0
        self._most_share = most_share
        self._begin_ns = self._clock.now_ns()
        self._end_ns: int | None = None
        self.samples = 0
        self.error: str | None = None

    def __enter__(self) -> Self:
        self._pressure.open()
        self._counters = {gpu.uuid: gpm for gpu in self._gpus if (gpm := open_gpm(gpu)) is not None}
        self._awake.clear()
        self._thread.start()  # on a busy machine this takes long: time zero comes after it, right before the rows' own
        self._begin_ns = self._clock.now_ns()
        if self._starts_open:
            self._start_ns = self._begin_ns
        self._awake.set()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        was_awake = self._awake.is_set()
        self._ended.set()
        self._awake.set()
        self._thread.join(timeout=5.0)
        if was_awake and not self._thread.is_alive() and self.error is None:
            with self._one:
                self._sample()  # the interval since the last sample, so that the end of the run is covered
        self._pressure.close()
        if not self._thread.is_alive():  # one that hangs in a driver may still use them
            for gpm in self._counters.values():
                gpm.close()
        self._end_ns = self._clock.now_ns()

    def pause(self) -> None:
        """Take one more sample, and no other until `resume`: for a run that waits while others work."""
        with self._one:  # a sample that the thread was about to take is not taken in another's turn
            if self.error is None:
                self._sample()
            self._awake.clear()

    def resume(self) -> None:
        """Go on sampling. Ratios count from here: what happened meanwhile is none of this run's. Energy counters are
        read at once, so that what others drew is none of its own."""
        with self._one:
            self._before = None
            for gpm in self._counters.values():
                gpm.restart()
            if self.error is None and (self._gpus or (self._meters and self._meters.meters)):
                self._sample()
            if self._before is None:
                self._before = read_cpu(self._process, self._children)
        self._awake.set()

    def read(self) -> list[dict[str, Any]]:
        """One row per source now, as table rows; the intervals of ratios begin at the call before.

        Counters that no GPU row holds (processor packages, other vendors' boards) have rows of their own, in
        millijoules since opening.
        """
        now_ns = self._clock.now_ns() - self._start_ns
        counters = self._meters.read() if self._meters else {}
        sampled = {f"gpu:{gpu.uuid}" for gpu in self._gpus}
        others = [
            Sample(now_ns, scope, energy_mj=None if joules is None else round(joules * 1e3))
            for scope, joules in counters.items()
            if scope not in sampled
        ]
        boards = [self._gpu(gpu, now_ns) for gpu in self._gpus]
        samples = [self._host(now_ns), *self._of_server(now_ns), *boards, *others, *self._more(now_ns)]
        return [sample.to_row() for sample in samples]

    def cost(self) -> Estimate:
        """Processor time of the sampling thread as a share of the time it was open: what observing cost."""
        open_ns = (self._end_ns or self._clock.now_ns()) - self._begin_ns
        if self.samples == 0 or open_ns <= 0:
            return Estimate.absent(RATIO, "no sample was taken", "processor time of the sampler / wall time")
        share = self._spent_ns / open_ns
        return Estimate(share, RATIO, "processor time of the sampler / wall time", "measured", n=self.samples)

    def _loop(self) -> None:
        while not self._ended.is_set() and self.error is None:
            self._awake.wait()
            with self._one:
                if self._awake.is_set() and not self._ended.is_set():
                    self._sample()
            self._ended.wait(self._pause_s())

    def _pause_s(self) -> float:
        if self._most_share is None:
            return self._period_s
        return max(self._period_s, self._last_ns / 1e9 / self._most_share)

    def _sample(self) -> None:
        """Read and hand over, while `_one` is held."""
        begin_ns = time.thread_time_ns()
        try:
            self._sink(self.read())
            self.samples += 1
        except Exception as error:  # the boundary between an observer and what it observes
            self.error = f"{type(error).__name__}: {error}"
        self._last_ns = time.thread_time_ns() - begin_ns
        self._spent_ns += self._last_ns

    def _host(self, now_ns: int) -> Sample:
        if self._reads % _CHILDREN_EVERY == 0:  # listing them walks every process of the host
            self._theirs = self._server()
            ours = self._process.children(recursive=True) + self._theirs
            self._children = list({process.pid: process for process in ours}.values())
        self._reads += 1
        reading = read_cpu(self._process, self._children)
        busy = shares(self._before, reading) if self._before else None
        if busy or self._before is None:  # the kernel counts in ticks: keep the earlier reading until one has passed
            self._before = reading
        own, host, foreign = busy or (None, None, None)
        return Sample(
            now_ns,
            "host",
            rss_bytes=int(self._process.memory_info().rss),
            cpu_busy=own,
            host_busy=host,
            foreign_cpu=foreign if self._knows_others else None,
            cpu_mhz=_cpu_mhz(),
            available_memory_bytes=int(psutil.virtual_memory().available),
            **self._pressure.read(self._children),
        )

    def _server(self) -> list[psutil.Process]:
        """The server's processes: they are the executor, not somebody else's work, whoever started them."""
        found: list[psutil.Process] = []
        for pid in self._server_pids:
            with contextlib.suppress(psutil.Error):
                first = psutil.Process(pid)
                found += [first, *first.children(recursive=True)]
        return found

    def _of_server(self, now_ns: int) -> list[Sample]:
        """Resident memory of a launched server's processes, what they share counted for each: of all or not at all."""
        resident = 0
        try:
            for process in self._theirs:
                with contextlib.suppress(psutil.NoSuchProcess):  # it has just ended
                    resident += process.memory_info().rss
        except psutil.Error:  # a part of the sum would be read as the whole
            return []
        return [Sample(now_ns, "server", rss_bytes=int(resident))] if resident else []

    def _gpu(self, gpu: Gpu, now_ns: int) -> Sample:
        gpm = self._counters.get(gpu.uuid)
        scope, columns = f"gpu:{gpu.uuid}", gpu.reading() | dict(gpm.read(now_ns) if gpm else {})
        if self._metered is not None and scope not in self._metered:  # refused, or a neighbour's in it
            columns["energy_mj"] = None
        return Sample(now_ns, scope, **columns)


def _cpu_mhz() -> float | None:
    try:
        frequency = psutil.cpu_freq()
    except (OSError, RuntimeError, AttributeError, NotImplementedError):
        return None
    return float(frequency.current) if frequency and frequency.current else None
