"""How often the labels of steadiness are right, by simulation: false alarms, misses, and where stalls end up.

    python -m benchmarks.coverage.labels [TRACES] > docs/results/coverage-labels.md

Fixed seeds; rows are made by formulas whose truth is known, and judged by the functions that judge runs.
"""

from __future__ import annotations

import heapq
import sys
from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np

from twinlens.record.request import Requests
from twinlens.stats.serving.window import find_window
from twinlens.stats.steady.segment import segment

Rows = Callable[[np.random.Generator, int, float], np.ndarray]
STEADY = ("flat", "warm-up")


def noise(rng: np.random.Generator, n: int, cv: float) -> np.ndarray:
    return np.exp(cv * rng.normal(size=n))


def first_order(phi: float) -> Rows:
    def rows(rng: np.random.Generator, n: int, cv: float) -> np.ndarray:
        series = rng.normal(size=n)
        for i in range(1, n):
            series[i] = phi * series[i - 1] + np.sqrt(1 - phi**2) * series[i]
        return np.exp(cv * series)

    return rows


def times(shape: Callable[[int], np.ndarray]) -> Rows:
    return lambda rng, n, cv: noise(rng, n, cv) * shape(n)


def share(n: int) -> np.ndarray:
    return np.arange(n) / n


HAPPENED: dict[str, Rows] = {
    "nothing": noise,
    "nothing, rows depend (0.5)": first_order(0.5),
    "nothing, rows depend (0.8)": first_order(0.8),
    "5 % slower from half time": times(lambda n: np.where(share(n) >= 0.5, 1.05, 1.0)),
    "10 % slower from half time": times(lambda n: np.where(share(n) >= 0.5, 1.10, 1.0)),
    "20 % slower from four fifths": times(lambda n: np.where(share(n) >= 0.8, 1.20, 1.0)),
    "drift of 10 %": times(lambda n: 1 + 0.1 * share(n)),
    "a tenth of the rows 1.5 times as long": times(lambda n: np.where((share(n) >= 0.4) & (share(n) < 0.5), 1.5, 1.0)),
    "warm-up of 8 rows": times(lambda n: 1 + np.exp(-np.arange(n) / 8)),
}


def steps(traces: int) -> Iterator[str]:
    """One line a case: labels and the bias of the rate where it is valid, against that of the settled level."""
    yield "| what happened | rows | CV | valid | provisional | other labels | bias of valid |"
    yield "|---|---|---|---|---|---|---|"
    for name, make in HAPPENED.items():
        for n, cv in ((22, 0.03), (70, 0.03), (70, 0.10), (200, 0.05), (1000, 0.05), (1000, 0.10)):
            labels: Counter[str] = Counter()
            bias = []
            for seed in range(traces):
                row_s = make(np.random.default_rng([seed, n]), n, cv)
                found = segment(row_s)
                labels[found.label] += 1
                if found.validity == "valid":
                    bias.append(row_s[-max(1, n // 10) :].mean() / row_s[found.steady_begin :].mean() - 1)
            ranked = sum(labels.pop(label, 0) for label in STEADY)
            unproven = labels.pop("unproven", 0)
            others = ", ".join(f"{label} {100 * count / traces:.0f} %" for label, count in labels.most_common())
            mean = f"{100 * np.mean(bias):+.1f} %" if len(bias) >= 5 else "–"
            shares = f"{100 * ranked / traces:.0f} % | {100 * unproven / traces:.0f} %"
            yield f"| {name} | {n} | {100 * cv:.0f} % | {shares} | {others or '–'} | {mean} |"


def queue(rng: np.random.Generator, n: int, load: float, slots: int, stall: tuple[float, float] | None) -> Requests:
    """Poisson arrivals at `slots` servers of 0.25 s a request (gamma, CV 0.5); `stall`: from, for, in seconds."""
    due_s = np.cumsum(rng.exponential(0.25 / load / slots, n))
    needs_s = rng.gamma(4, 0.25 / 4, n)
    at_s, for_s = stall if stall else (np.inf, 0.0)
    own_s = np.where(due_s < at_s, due_s, np.maximum(at_s, due_s - for_s))
    free, ends = [0.0] * slots, np.empty(n)
    for i in range(n):
        ends[i] = max(heapq.heappop(free), own_s[i]) + needs_s[i]
        heapq.heappush(free, ends[i])
    ends = np.where(ends <= at_s, ends, ends + for_s)
    due_ns, end_ns = (np.rint(one * 1e9).astype(np.int64) for one in (due_s, ends))
    nothing = np.full(n, np.nan)
    return Requests(
        group=np.arange(n), intended_ns=due_ns, sent_ns=due_ns, end_ns=end_ns, input_tokens=np.full(n, 16),
        output_tokens=np.full(n, 8), outcome=np.full(n, "ok", dtype=object), offsets=np.arange(n + 1), chunk_ns=end_ns,
        chunk_tokens=np.full(n, 8), asked_tokens=np.full(n, 8.0), released_ns=nothing, session=nothing, turn=nothing,
        slice=nothing, reasoning_chunks=nothing,
    )  # fmt: skip


def served(traces: int) -> Iterator[str]:
    """Labels of queues in an open loop, by load and length."""
    yield "| load | servers | requests | valid | overload | other labels |"
    yield "|---|---|---|---|---|---|"
    for load in (0.5, 0.8, 0.9, 1.05, 1.2):
        for slots in (1, 16):
            for n in (300, 1000, 3000):
                labels: Counter[str] = Counter()
                for seed in range(traces):
                    window = find_window(queue(np.random.default_rng([seed, n, slots]), n, load, slots, None), "open")
                    labels[window.label if window else "none"] += 1
                ranked, over = sum(labels.pop(label, 0) for label in STEADY), labels.pop("overload", 0)
                others = ", ".join(f"{label} {100 * count / traces:.0f} %" for label, count in labels.most_common())
                shares = f"{100 * ranked / traces:.0f} % | {100 * over / traces:.0f} %"
                yield f"| {load} | {slots} | {n} | {shares} | {others or '–'} |"


def stalls(traces: int) -> Iterator[str]:
    """A server that stands still for 5 s: whether those requests are in the window, and what the run is called."""
    yield "| seconds | requests/s | stall at | inside the window | valid without a word | labels |"
    yield "|---|---|---|---|---|---|"
    for seconds, rate in ((60, 2), (60, 8), (120, 4), (600, 2)):
        for place in (0.25, 0.5, 0.75):
            labels: Counter[str] = Counter()
            inside = silent = 0
            for seed in range(traces):
                rng = np.random.default_rng([seed, seconds, rate])
                run = queue(rng, seconds * rate, rate * 0.25 / 8, 8, (place * seconds, 5.0))
                window = find_window(run, "open")
                assert window is not None
                hit = np.flatnonzero(run.end_ns - run.intended_ns > 2.5e9)
                inside += bool(np.isin(hit, window.rows).all())
                silent += bool(window.validity == "valid" and hit.size and not window.disturbed.stretches)
                labels[window.label] += 1
            said = ", ".join(f"{label} {100 * count / traces:.0f} %" for label, count in labels.most_common())
            shares = f"{100 * inside / traces:.0f} % | {100 * silent / traces:.0f} %"
            yield f"| {seconds} | {rate} | {place:g} | {shares} | {said} |"


def main() -> None:
    traces = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    print("# Labels of steadiness, by simulation\n")
    print(f"Made by `python -m benchmarks.coverage.labels {traces}`: {traces} runs a line, fixed seeds. Valid: flat or")
    print("warm-up. Bias: the last tenth of the rows over the rate that a valid run reports.\n")
    for title, lines in (("Steps", steps), ("Queues", served), ("A server that stands still for 5 s", stalls)):
        print(f"## {title}\n")
        for line in lines(traces):
            print(line, flush=True)
        print()


if __name__ == "__main__":
    main()
