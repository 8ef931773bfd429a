"""Energy and memory of a run, as they were counted and sampled, and what disturbed the machine meanwhile.

Scopes are never added, and none stands in for another: a run that used GPU boards is charged with those or with
nothing, one on the processor with its packages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twinlens.record.estimate import Estimate
from twinlens.record.samples import FOREIGN_SHARE
from twinlens.record.sections import DeviceMemory
from twinlens.stats.estimator.repeats import scaled
from twinlens.units import BYTES, JOULES, WATTS, show

LEAST_PERIODS = 100  # counter periods in the shortest window worth reading: one is then at most 1 % of it
LEAST_OF_A_TURN = 10  # counter periods in the mean turn: what others drew before it is in the first of them
CROSS_CHECK_LIMIT = 0.05
_PERIOD_S = {
    "gpu": 0.1,
    "package": 0.001,
}  # NVML counters move every 10 to 100 ms by board; RAPL every millisecond
EnergyScope = Literal["gpu", "package"]
_STILL = "the energy counter of {} stood still, was reset or was not read"
_SCOPES = {"gpu": "GPU board", "package": "processor package"}


@dataclass(frozen=True, slots=True)
class _Counter:
    """One source's readings in the window: seconds, joules, and watts where power was sampled."""

    time_s: np.ndarray
    joules: np.ndarray
    power_w: np.ndarray

    @property
    def moved(self) -> bool:
        """Whether it was read at least twice, and only rose."""
        return len(self.time_s) > 1 and self.joules[-1] > self.joules[0] and bool((np.diff(self.joules) >= 0).all())

    def has_ends_of(self, turns: Sequence[tuple[float, float]]) -> bool:
        """Whether it was read between any two turns twice: after the one and before the other."""
        begins, ends = np.array(turns, dtype=float).T
        after, before = np.searchsorted(self.time_s, ends, "left"), np.searchsorted(self.time_s, begins, "right")
        return bool((before[1:] - after[:-1] >= 2).all())


def energy(
    telemetry: pa.Table,
    begin_s: float,
    end_s: float,
    work: dict[str, float],
    why_not: str,
    scope: EnergyScope | None = None,
    without: Sequence[tuple[float, float]] = (),
    turns: Sequence[tuple[float, float]] = (),
) -> dict[str, Estimate]:
    """Joules per unit of work (`work`: metric id → how many units the window holds), and mean power.

    `why_not`: the reason to give where no counter was read at all. `scope`: what the run is charged with and nothing
    else, its GPU boards or the processor packages; None (runs of which that is not known): boards before packages.
    `without`: stretches (begin, end) in seconds whose energy is not charged, as none of the work was done in them.
    `turns`: stretches in which all of the work was done, where points took turns; what others drew is not charged.
    """
    inside, own = (_inside(stretches, begin_s, end_s) for stretches in (without, turns))
    if turns:
        spent, left_s = _in_turns(telemetry, own, why_not, scope), _length(own)
    else:
        spent, left_s = _spent(telemetry, begin_s, end_s, why_not, scope, inside), end_s - begin_s - _length(inside)
    if spent.value is None:
        reason = spent.reason or why_not
        absent = {name: Estimate.absent(JOULES, reason) for name in work}
        return absent | {"mean_power_w": Estimate.absent(WATTS, reason)}
    metrics = {
        name: scaled(spent, 1 / amount, JOULES, "energy / work done in the window", "measured")
        for name, amount in work.items()
        if amount
    }
    return metrics | {"mean_power_w": scaled(spent, 1 / left_s, WATTS, "energy / window", "measured")}


def energy_of_training(
    telemetry: pa.Table,
    span_s: tuple[float, float],
    to_target_s: Estimate | None,
    why_not: str,
    scope: EnergyScope | None = None,
    *,
    is_finished: bool = True,
    turns: Sequence[tuple[float, float]] = (),
) -> dict[str, Estimate]:
    """Joules from the first step to the end of the last row, evaluations and warm-up included, and to the target.

    `span_s`: (begin, end) of all rows. `to_target_s`: the time to the target with its bracket, None where none was set;
    `turns` as for `energy`.
    """
    whole = _in_turns(telemetry, turns, why_not, scope) if turns else _spent(telemetry, *span_s, why_not, scope, ())
    if not is_finished:
        whole = Estimate.absent(JOULES, "the run did not come to its end")
    metrics = {"energy_to_completion_j": whole}
    if to_target_s is not None:
        metrics["energy_to_target_j"] = _to_target(telemetry, span_s[0], to_target_s, why_not, scope)
    return metrics


def _to_target(
    telemetry: pa.Table, begin_s: float, to_target_s: Estimate, why_not: str, scope: EnergyScope | None
) -> Estimate:
    """Censored as the time is: more than at the last miss, at most as at the first hit; the value is the middle."""
    if to_target_s.value is None or to_target_s.low is None or to_target_s.high is None:
        return Estimate.absent(JOULES, to_target_s.reason or why_not)
    missed_s, hit_s = begin_s + to_target_s.low, begin_s + to_target_s.high
    hit = _spent(telemetry, begin_s, hit_s, why_not, scope, ())
    if hit.value is None:
        return hit
    # A target met at the first look has nothing before it.
    missed = _spent(telemetry, begin_s, hit_s, why_not, scope, [(missed_s, hit_s)]) if missed_s > begin_s else None
    low = (missed.low if missed else None) or 0.0
    value = ((missed.value if missed else None) or 0.0) / 2 + hit.value / 2
    method = f"energy at the last miss to energy at the first hit, the value is the middle; {hit.method}"
    return Estimate(value, JOULES, method, "measured", low, hit.high, n=1)


def _spent(
    telemetry: pa.Table,
    begin_s: float,
    end_s: float,
    why_not: str,
    scope: EnergyScope | None,
    without: Sequence[tuple[float, float]],
) -> Estimate:
    """Joules in the window less those in `without`, summed over the devices of one scope."""
    counters, kind = _charged(_counters(telemetry, begin_s, end_s), scope)
    if kind is None:
        return Estimate.absent(JOULES, why_not)
    window_s, period_s = end_s - begin_s, _PERIOD_S[kind]
    if window_s < LEAST_PERIODS * period_s:
        return Estimate.absent(JOULES, f"the steady window of {window_s:.2f} s is shorter than {_periods(kind)}")
    total, notes = 0.0, []
    for name, counter in counters.items():
        if not counter.moved:
            return Estimate.absent(JOULES, _STILL.format(name))
        covered_s = float(counter.time_s[-1] - counter.time_s[0])
        # Samples fall inside the window; its edges are charged at the mean power between them.
        joules = float(counter.joules[-1] - counter.joules[0]) * window_s / covered_s
        notes.append(_cross_check(counter, joules / window_s))
        total += joules - _in_between(counter, without)
    left_s = window_s - _length(without)
    # Each stretch left out has two edges of its own, known to a counter period as those of the window are.
    edge = total * period_s / left_s * np.sqrt(1 + len(without))
    evaluated = f" less {len(without)} stretches without work" if without else ""
    method = f"{_SCOPES[kind]} energy counter over {window_s:.1f} s{evaluated}, {'; '.join(notes)}"
    return Estimate(total, JOULES, method, "measured", total - edge, total + edge, n=int(window_s / period_s))


def _in_turns(
    telemetry: pa.Table, turns: Sequence[tuple[float, float]], why_not: str, scope: EnergyScope | None
) -> Estimate:
    """Joules in the turns, summed over the devices of one scope. What all points draw that wait is in them.

    A counter shows what was drawn until up to a period ago, so the first period of a turn may be another's: each turn
    is known to one period, always to the same side.
    """
    counters, kind = _charged(_counters(telemetry, -np.inf, np.inf), scope)
    if kind is None or not turns:
        return Estimate.absent(JOULES, why_not)
    own_s, period_s = _length(turns), _PERIOD_S[kind]
    if own_s < LEAST_PERIODS * period_s:
        return Estimate.absent(
            JOULES, f"the turns of the steady window, {own_s:.2f} s, are shorter than {_periods(kind)}"
        )
    if own_s / len(turns) < LEAST_OF_A_TURN * period_s:
        of_turn = f"a turn of {own_s / len(turns):.2g} s is shorter than {_periods(kind, LEAST_OF_A_TURN)}"
        return Estimate.absent(JOULES, f"points took turns, and {of_turn}")
    for name, counter in counters.items():
        if not counter.moved:
            return Estimate.absent(JOULES, _STILL.format(name))
        if not counter.has_ends_of(turns):
            return Estimate.absent(JOULES, "points took turns, and the counter was not read at the ends of each")
    total = sum(_in_between(counter, turns) for counter in counters.values())
    method = f"{_SCOPES[kind]} energy counter over {len(turns)} turns, {own_s:.1f} s; what waiting points draw is in it"
    edge = total * period_s * len(turns) / own_s
    return Estimate(total, JOULES, method, "measured", total - edge, total + edge, n=int(own_s / period_s))


def joules_between(telemetry: pa.Table, edges_s: np.ndarray, scope: EnergyScope | None) -> np.ndarray | None:
    """Joules between each two moments, over all devices of a scope, (edges - 1,); None where one was not read there."""
    counters = _charged(_counters(telemetry, -np.inf, np.inf), scope)[0].values()
    around = [each.moved and each.time_s[0] <= edges_s[0] and each.time_s[-1] >= edges_s[-1] for each in counters]
    if not around or not all(around):
        return None
    return sum((np.diff(np.interp(edges_s, each.time_s, each.joules)) for each in counters), np.zeros(len(edges_s) - 1))


def _charged(counters: Mapping[str, _Counter], scope: EnergyScope | None) -> tuple[dict[str, _Counter], str | None]:
    """The counters of the scope that is charged, and which that is; None where there is none."""
    allowed = _SCOPES if scope is None else (scope,)
    kind = next((k for k in allowed if any(name.startswith(k) for name in counters)), None)
    return {name: each for name, each in counters.items() if kind and name.startswith(kind)}, kind


def _periods(kind: str, count: int = LEAST_PERIODS) -> str:
    return f"{count} counter periods ({count * _PERIOD_S[kind]:g} s)"


def _inside(stretches: Sequence[tuple[float, float]], begin_s: float, end_s: float) -> list[tuple[float, float]]:
    return [(max(begin_s, begin), min(end_s, end)) for begin, end in stretches if begin < end_s and end > begin_s]


def _length(stretches: Sequence[tuple[float, float]]) -> float:
    return sum(end - begin for begin, end in stretches)


def _in_between(counter: _Counter, stretches: Sequence[tuple[float, float]]) -> float:
    """Joules in the stretches, the counter read between its samples as if power were even there."""
    edges = np.array(stretches, dtype=float).reshape(-1, 2)
    read = np.interp(edges, counter.time_s, counter.joules)
    return float((read[:, 1] - read[:, 0]).sum())


def _counters(telemetry: pa.Table, begin_s: float, end_s: float) -> dict[str, _Counter]:
    time_s = telemetry.column("time_ns").to_numpy() / 1e9
    source = telemetry.column("source").to_numpy(zero_copy_only=False).astype(str)
    joules = telemetry.column("energy_mj").cast(pa.float64()).to_numpy(zero_copy_only=False) / 1e3
    power_w = telemetry.column("power_w").to_numpy(zero_copy_only=False).astype(float)
    readable = np.isfinite(joules)
    inside = readable & (time_s >= begin_s) & (time_s <= end_s)
    names = sorted(set(source[readable]))
    return {
        str(name): _Counter(*(column[inside & (source == name)] for column in (time_s, joules, power_w)))
        for name in names
    }


def _cross_check(counter: _Counter, mean_power_w: float) -> str:
    """Compares the counter's mean power with the time-weighted mean of the power samples."""
    sampled = np.isfinite(counter.power_w)
    if sampled.sum() < 2:
        return "not cross-checked against power"
    time_s, power_w = counter.time_s[sampled], counter.power_w[sampled]
    mean = float(np.trapezoid(power_w, time_s) / (time_s[-1] - time_s[0]))
    gap = mean / mean_power_w - 1
    verdict = "DISAGREES with" if abs(gap) > CROSS_CHECK_LIMIT else "agrees with"
    return f"{verdict} integrated power ({gap:+.1%})"


# Disturbances in the steady window: throttling, and other work on the machine. Shares, not corrections.

POWER_CAP = "software power cap"
# NVML's clocks event reasons (nvml.h); idle, application clocks and sync boost are no throttling.
REASONS = {
    0x4: POWER_CAP,
    0x8: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}


def throttled(telemetry: pa.Table, begin_s: float, end_s: float) -> list[tuple[str, float]]:
    """(reason, share of the window) for each reason for which an accelerator was slowed down."""
    bits = _window(telemetry, "throttle_bits", begin_s, end_s).astype(np.int64)
    shares = ((reason, float(((bits & bit) != 0).mean()) if bits.size else 0.0) for bit, reason in REASONS.items())
    return [(reason, share) for reason, share in shares if share]


def other_programs(telemetry: pa.Table, begin_s: float, end_s: float) -> float | None:
    """The share of the processors that other programs used, on average; None below FOREIGN_SHARE or not sampled."""
    shares = _window(telemetry, "foreign_cpu", begin_s, end_s)
    mean = float(shares.mean()) if shares.size else 0.0
    return mean if mean >= FOREIGN_SHARE else None


def _window(telemetry: pa.Table, column: str, begin_s: float, end_s: float) -> np.ndarray:
    """The known values of a column between two moments of the run."""
    time_s = telemetry.column("time_ns").to_numpy() / 1e9
    inside = telemetry.filter(pa.array((time_s >= begin_s) & (time_s <= end_s)))
    return np.asarray(inside.column(column).drop_null().to_numpy())


# Memory by category as the executor counted it, and the peak as it was sampled.

_CATEGORIES = ("weights_bytes", "adapter_bytes", "gradients_bytes", "optimizer_bytes", "activations_bytes", "kv_bytes")


def memory(known: dict[str, Estimate]) -> dict[str, Estimate]:
    """The categories that were counted."""
    return {name: known[name] for name in _CATEGORIES if name in known}


def _of_boards(telemetry: pa.Table) -> tuple[pa.ChunkedArray, int]:
    """Memory in use at each moment, of all boards of the run together, and how many they are: a model that is split
    over several needs the sum. Moments at which a board could not be read are left out."""
    known = telemetry.filter(pc.is_valid(telemetry.column("memory_used_bytes")))
    boards = len(known.column("source").unique())
    if boards < 2:
        return known.column("memory_used_bytes"), boards
    summed = known.group_by("time_ns").aggregate([("memory_used_bytes", "sum"), ("memory_used_bytes", "count")])
    whole = summed.filter(pc.equal(summed.column("memory_used_bytes_count"), boards))
    return whole.column("memory_used_bytes_sum"), boards


def peak_memory(
    telemetry: pa.Table,
    *,
    is_server: bool = False,
    of_ranks: bool = False,
    on_gpu: bool = False,
    allocator: DeviceMemory | None = None,
) -> Estimate:
    """The most memory in use over the rows: of the device the run was on, and of no other.

    On a GPU the allocator's own peak where the executor has one (`allocator`), else the largest sampled use of
    the board; never the memory of the host.
    """
    board, boards = _of_boards(telemetry)
    if on_gpu and allocator:
        who, most = "board" if boards == 1 else f"{boards} boards", float(pc.max(board).as_py() or 0.0)
        in_use = f"; the {who} had {show(most, BYTES)} in use, others' too" if len(board) else ""
        kept = show(float(allocator.reserved_peak_bytes), BYTES)
        each = ""
        if allocator.fullest_peak_bytes is not None:
            fullest = show(float(allocator.fullest_peak_bytes), BYTES)
            each = f", summed over {allocator.boards} boards, of which the fullest {fullest}"
        method = f"most the allocator gave out since the first row{each} ({kept} reserved{in_use})"
        return Estimate(float(allocator.allocated_peak_bytes), BYTES, method, "measured", n=1)
    if on_gpu and not len(board):
        return Estimate.absent(BYTES, "the GPU's memory was not read, and the host's is not the run's")
    source, process = ("server", "the server's processes") if is_server else ("host", "the process")
    if of_ranks:  # the samples of processes of its own stand under the same name
        source, process = "server", "all ranks, what they share counted for each"
    of_it = telemetry.filter(pc.equal(telemetry.column("source"), source))
    for values, described in (
        (board, "accelerator memory in use" + (f", summed over {boards} boards" if boards > 1 else "")),
        (of_it.column("rss_bytes").drop_null(), f"resident memory of {process}"),
    ):
        if len(values):
            method = f"largest of {len(values)} samples of {described}; a shorter peak between samples is not seen"
            return Estimate(float(pc.max(values).as_py()), BYTES, method, "measured", n=len(values))
    return Estimate.absent(BYTES, "no telemetry sample has it")
