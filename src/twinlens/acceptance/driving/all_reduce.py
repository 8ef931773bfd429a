"""The fit of an all-reduce, measured before the first window, where one of the specs is an all-reduce."""

from __future__ import annotations

from collections.abc import Sequence

from twinlens.acceptance.window import Fit
from twinlens.errors import TwinlensError
from twinlens.executors.registry import place_of
from twinlens.measurement.machine.probe import CollectiveFit, probe_collectives
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import CollectiveWorkload


def fit_of(turns: Sequence[RunSpec]) -> Fit | None:
    """The fit at the size of the first all-reduce, on as many ranks; None without one, and where none can be had. It
    takes a minute."""
    for spec in turns:
        workload = spec.workload
        if isinstance(workload, CollectiveWorkload) and workload.exchange == "all-reduce":
            return _measured(spec, workload)
    return None


def _measured(spec: RunSpec, workload: CollectiveWorkload) -> Fit | None:
    ranks = spec.executor.options.get("ranks", 2)
    if place_of(spec) != "here" or spec.executor.kind == "fake" or not isinstance(ranks, int):
        return None
    try:
        found = probe_collectives(spec.executor.device, ranks, lambda phrase: None)
    except TwinlensError:
        return None
    fits = [each for each in found.fits if each.kind == "all-reduce"]
    return at_size(fits[0], workload.size_bytes, workload.bus_factor(ranks)) if fits else None


def at_size(fit: CollectiveFit, size_bytes: int, factor: float) -> Fit | None:
    """The line of the segment that holds a buffer of this size, in bytes of the buffer; `factor`: the part of it that
    passes a link. None where no segment may be used."""
    moved = size_bytes * factor
    segments = [each for each in fit.segments if each.begin_bytes <= moved <= each.end_bytes]
    if fit.refused or not segments or factor <= 0:
        return None
    latency, bandwidth = segments[0].latency_s.value, segments[0].bus_bytes_per_s.value
    return None if latency is None or not bandwidth else Fit(latency, bandwidth / factor)
