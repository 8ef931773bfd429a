"""Sentences on training: the executor, its quality, several processes, saves, and logs of trainers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding
from twinlens.reporting.display import clean
from twinlens.reporting.wording.number import named_by, number, numbers
from twinlens.units import BYTES, JOULES, RATIO, SECONDS, WATTS, show


def as_shipped(finding: Finding) -> str:
    seen = ", ".join(f"{name} {word}" for name, word in finding.numbers.items() if word)
    left = ", ".join(name for name, word in finding.numbers.items() if not word)
    said = f"As shipped: the precision names the stored weights; the runtime itself took {seen or 'formats not seen'}."
    return f"{said} Not seen: {left}." if left else said


def data_from_files(finding: Finding) -> str:
    files, size, step, workers = numbers(finding, "files", "size_bytes", "step_bytes", "workers")
    origin, pages, digest = numbers(finding, "origin", "pages", "sha256")
    who = f"{workers} workers ahead of the loop" if workers else "the loop itself"
    held = (
        "were in the page cache when training began, so storage is not in the figures"
        if pages == "warm"
        else "were dropped from the page cache before the first row, and are in it again once each was read"
    )
    whose = "made here" if origin == "made" else "yours"
    return (
        f"Data is read from {files:,} file{'s' if files != 1 else ''} of {show(float(size), BYTES)} ({whose}, sha256 "
        f"{str(digest)[:12]}) by {who}, {show(float(step), BYTES)} a step. They {held}."
    )


def adapter_cost(finding: Finding) -> str:
    share, longer = finding.evidence["share"], finding.evidence["longer"]
    by = "" if longer.value is None else f" ({show(longer.value, SECONDS)})"
    if share.low is None or share.high is None:
        ends = "no interval"
    else:
        ends = f"{100 * share.low:+.0f} to {100 * share.high:+.0f} %"
    told = "" if number(finding, "apart") else "; no difference can be told"
    return (
        f"An adapter beside the weights makes a token {100 * (share.value or 0.0):+.0f} % longer{by} than one merged "
        f"into them: {ends}{told}."
    )


IMPOSSIBLE = (
    "above 100%: its ceiling was measured too low (a busy neighbour, or a cache), so do not read it as efficiency"
)


def impossible_share(finding: Finding) -> str:
    return f"{named_by(finding)} is {show(float(number(finding, 'share')), RATIO)}, {IMPOSSIBLE}."


def ceiling_moved(finding: Finding) -> str:
    before, after, change = numbers(finding, "before", "after", "change")
    unit = str(finding.numbers["unit"])
    what = _CEILINGS.get(finding.subject, finding.subject)
    size = f"{change:+.0%}" if change < 1 else f"{1 + change:.3g} times as much"
    return (
        f"The {what} of this machine was {show(before, unit)} before the run and {show(after, unit)} after it "
        f"({size}): a share of it is uncertain by as much."
    )


_CEILINGS = {"matrix_flop_per_s": "matrix rate", "read_bytes_per_s": "read bandwidth"}


def _of_twin(finding: Finding) -> str:
    few, many = finding.numbers.get("twin_layers"), finding.numbers.get("layers")
    return "" if few is None else f", on a twin of the model with {few} of its {many} layers"


def one_process_differs(finding: Finding) -> str:
    steps, tolerance, allowed = numbers(finding, "steps", "tolerance", "gradient_tolerance")
    worst, norm, unknown = (finding.numbers.get(name) for name in ("worst", "gradient_norm_off", "unknown"))
    off = [] if worst is None else [f"losses are {worst:.1e} apart ({tolerance:g} is allowed)"]
    if unknown:
        off.append(f"in {unknown} of them a loss is absent or not finite")
    gradient = "is absent or not finite" if norm is None else f"{norm:.1e} ({allowed:g})"
    off.append(f"the first gradient's norm {gradient}")
    return f"The ranks do not train as one process does{_of_twin(finding)}: over {steps} steps {' and '.join(off)}."


def exchange_hidden(finding: Finding) -> str:
    share, exposed_s, flight_s = numbers(finding, "share", "exposed_s", "flight_s")
    size, buckets, on_processor = numbers(finding, "bytes", "buckets", "on_processor")
    why = "; processor cores are shared with the exchange, so this says nothing of a GPU" if on_processor else ""
    cost = f"make it {show(exposed_s, SECONDS)} longer"
    if finding.numbers.get("by_kernels"):
        cost = f"for {show(exposed_s, SECONDS)} of it no kernel computes beside them"
    return (
        f"The backward pass hides {share:.0%} of the exchange of gradients: {show(size, BYTES)} in {buckets} buckets "
        f"are under way for {show(flight_s, SECONDS)}, and {cost}{why}."
    )


def exposed(finding: Finding) -> str:
    collectives, flight_s, exposed_s = numbers(finding, "collectives", "flight_s", "exposed_s")
    share, on_processor = numbers(finding, "share", "on_processor")
    many = " and ".join(f"{count} {name.replace('_', '-')}" for name, count in dict(collectives).items())
    why = "; processor cores are shared with the exchange, so this says nothing of a GPU" if on_processor else ""
    return (
        f"In one profiled step {many} are under way for {show(flight_s, SECONDS)}, and for {show(exposed_s, SECONDS)} "
        f"of it ({share:.0%}) no operator runs beside them: communication that is exposed{why}."
    )


def memory(finding: Finding) -> str:
    counted, predicted = numbers(finding, "counted_bytes", "predicted_bytes")
    off, limit = numbers(finding, "off", "limit")
    who = "Training" if finding.numbers.get("of_adapter") else "The fullest rank"
    head = f"{who} holds {show(counted, BYTES)} of {finding.subject}, {show(predicted, BYTES)} predicted"
    if finding.code == "memory-differs":
        return f"{head}: {off:.0%} apart, more than {limit:.0%}."
    others = [name for name in finding.numbers.get("categories", ()) if name != finding.subject]
    rest = f"; {' and '.join(others)} are nearer" if others else ""
    return f"{head}{rest} (within {limit:.0%})."


def scaling(finding: Finding) -> str:
    kind, fewer, more, on_processor = numbers(finding, "kind", "fewer", "more", "on_processor")
    efficiency = finding.evidence["efficiency"]
    whole = f"{efficiency.value or 0.0:.0%}{_interval(efficiency)}"
    if kind == "replicas":
        load = "at the same number of requests in flight"
        boards = finding.numbers.get("boards")
        shared = "; they share the cores of one processor" if on_processor else ""
        shared = f"; they share {boards} GPU{'s' * (boards > 1)}" if boards else shared
        return f"From {fewer} to {more} replicas the throughput scales with an efficiency of {whole}, {load}{shared}."
    same = "the global batch stays" if kind == "strong" else "the batch grows with the ranks"
    shared = "; the ranks share the cores of one processor" if on_processor else ""
    if "threads_of_fewer" in finding.numbers:
        before, after = numbers(finding, "threads_of_fewer", "threads_of_more")
        shared += f", with {before} threads each before and {after} after"
    return f"{kind.capitalize()} scaling from {fewer} to {more} ranks has an efficiency of {whole}: {same}{shared}."


_RESUMED = {"recovery": "after the kill", "restore": "from the newest save once the rows were taken"}


def resumed_differs(finding: Finding) -> str:
    steps, tolerance = numbers(finding, "steps", "tolerance")
    worst, unknown = finding.numbers.get("worst"), finding.numbers.get("unknown", 0)
    off = [] if worst is None else [f"a loss is {worst:.1e} from the first time ({tolerance:g} is allowed)"]
    if unknown:
        off.append(f"in {unknown} of them a loss is absent or not finite")
    return (
        f"Training does not go on as it was: over {steps} steps done again {_RESUMED[finding.subject]} "
        f"{' and '.join(off)}."
    )


def read_from_log(finding: Finding) -> str:
    lines, first, last, resolution_s = numbers(finding, "lines", "first", "last", "resolution_s")
    counted = "; ".join(words for words in (_counted(finding, *each) for each in _COUNTS) if words)
    phases = finding.numbers.get("phases") or ()
    known = f"Of phases it says {', '.join(map(str, phases))}." if phases else "It says no phases, so none are known."
    of_clock = "command" in finding.numbers
    nowhere = "lies in rows of its own, which no rate counts" if of_clock else "lies in no row"
    between = "lies in the rows" if finding.numbers.get("gaps") == "inside" else nowhere
    return (
        f"{_whence(finding)}: {lines:,} lines that say a step's time, steps {first:,} to {last:,}, "
        f"to {show(float(resolution_s), SECONDS, 2)}{f' ({counted})' if counted else ''}{_measured(finding)}. "
        f"{known}{_of_gpu(finding)} What came between steps (evaluations, checkpoints) {between}{_clock(finding)}."
    )


def _whence(finding: Finding) -> str:
    command = finding.numbers.get("command")
    if isinstance(command, str):
        return f"This run started `{clean(command, 320)}` and quotes the lines of {finding.subject} that it wrote"
    return f"{'Followed' if finding.numbers.get('followed') else 'Read from'} a log of {finding.subject}"


def _measured(finding: Finding) -> str:
    if "command" not in finding.numbers:
        return "; nothing was measured here"
    return (
        ". Step times, losses and counts are quoted from it; what is told of power, energy, temperature, memory and "
        "processors was measured here meanwhile"
    )


def _clock(finding: Finding) -> str:
    """How the log's step times lie on the clock of the run that read them while they were written."""
    if "command" not in finding.numbers:
        return ""
    before, between_s, ahead_s = (float(finding.numbers.get(name) or 0.0) for name in _ON_CLOCK)
    gaps = f": {show(between_s, SECONDS, 2)} in all" if between_s else ""
    early = f"; lines from before sampling began: {before:.0f}" if before else ""
    wrong = f"; its step times add up to {show(ahead_s, SECONDS, 2)} more than passed here" if ahead_s > _LATE_S else ""
    return f"{gaps}{early}{wrong}"


_ON_CLOCK = ("before", "between_s", "ahead_s")


_LATE_S = 1.0


def _of_gpu(finding: Finding) -> str:
    """What it says of one GPU; how many there are it does not say, so that nothing can be summed."""
    found = finding.numbers.get("of_gpu")
    said = found if isinstance(found, Mapping) else {}
    words = [f"{show(float(said[name]), unit)} {what}" for name, unit, what in _OF_GPU if name in said]
    return f" Of one GPU it says {', '.join(words)}; of how many GPUs, it does not say." if words else ""


_OF_GPU = (
    ("allocated_bytes", BYTES, "allocated at most"),
    ("reserved_bytes", BYTES, "reserved at most"),
    ("energy_j", JOULES, "a step"),
    ("power_w", WATTS, "mean power"),
)


_COUNTS = (
    ("unread", 0, "unreadable lines: {:,}"),
    ("others", 0, "lines left out, of other processes or on the same step: {:,}"),
    ("starts", 1, "starts: {:,}"),
    ("skipped", 0, "skipped steps: {:,}"),
    ("nan", 0, "steps with a loss that is no number: {:,}"),
)


def _counted(finding: Finding, name: str, usual: int, words: str) -> str:
    found: Any = finding.numbers.get(name)
    return words.format(found) if isinstance(found, int) and found > usual else ""


def longer(finding: Finding) -> str:
    longer_s = number(finding, "longer_s")
    return f"{show(abs(longer_s), SECONDS)} {'longer' if longer_s >= 0 else 'shorter'}"


def _interval(estimate: Estimate) -> str:
    """ " (70% to 80%)", or nothing."""
    if estimate.low is None or estimate.high is None:
        return ""
    return f" ({estimate.low:.0%} to {estimate.high:.0%})"
