"""Ceilings from an earlier `twinlens probe --json` of the machine that served a run, named as such."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from twinlens.errors import BadInput
from twinlens.record.codec import decode
from twinlens.record.estimate import Estimate
from twinlens.record.executor.facts import absurd
from twinlens.record.run import Run
from twinlens.stats.estimator.repeats import scaled

LINK = "all_reduce_bus_bytes_per_s"
"""The bus bandwidth of large all-reduces, of a probe with collectives."""
_IDENTITY = ("accelerator.product", "accelerator.memory_bytes", "host.cpu.model", "host.cpu.cores", "host.memory_bytes")
_SAME = 0.02  # memory is told to within a page or a driver's reserve
_CODE = "TL229"


def probe_ceilings(run: Run, probe: Any, where: str) -> dict[str, Estimate]:
    """The read bandwidth and the matrix rate in the format of `run`, at its threads, from the JSON of a probe.

    `where`: the file, for sentences. Raises BadInput (TL229) for what is no probe, for one of another machine than the
    one the run names, and for one that measured no ceiling.
    """
    try:
        facts = {key: fact["value"] for key, fact in probe["executor"].items()}
        rows = [_row(each) for each in probe["ceilings"]]
        why = next(filter(None, (absurd(f"{kind} {form}".strip(), each) for kind, form, _, each in rows)), None)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise BadInput(f"{where} is no probe; make one with `twinlens probe --json > FILE`", code=_CODE) from None
    if why is not None:
        raise BadInput(f"{where}: {why}; probe that machine again", code=_CODE)
    said = _same_machine(run, facts, where)
    threads = {count for _, _, count, _ in rows}
    if not threads:
        raise BadInput(
            f"{where} has no ceilings ({probe.get('why_no_ceilings')}); probe that machine again", code=_CODE
        )
    boards, ranks = _boards_and_ranks(run)
    wanted = run.spec.executor.threads * ranks  # ranks on one processor have so many each
    chosen = wanted if wanted in threads else max(threads)
    format = run.spec.precision.compute
    found = {}
    for name, kind, of in (("read_bytes_per_s", "read", ""), ("matrix_flop_per_s", "matrix", format)):
        match = next((each for k, f, count, each in rows if (k, f, count) == (kind, of, chosen)), None)
        if match is not None:
            whole = match if boards == 1 else scaled(match, boards, match.unit, f"{boards} boards, each as the one")
            found[name] = replace(whole, method=f"{whole.method}; {said}", origin=match.origin)
    link = _link(run, probe.get("collectives"))
    return found if link is None else found | {LINK: replace(link, method=f"{link.method}; {said}")}


def _boards_and_ranks(run: Run) -> tuple[int, int]:
    """GPUs that a run is charged with, 1 on a processor, and the processes that share this machine's processors."""
    record = run.facts.executor if run.facts else None
    uuids, ranks = (record.value(name) if record else None for name in ("accelerator.uuid", "training.world_size"))
    if isinstance(uuids, list | tuple) and uuids:
        return len(uuids), 1
    return 1, ranks if isinstance(ranks, int) and ranks > 0 else 1


def _link(run: Run, collectives: Any) -> Estimate | None:
    """Fitted to all-reduces between as many ranks as the run has; None where there is no fit of those that holds."""
    ranks = run.facts.executor.value("training.world_size") if run.facts else None
    try:
        fits = [fit for fit in collectives["fits"] if fit["kind"] == "all-reduce" and fit["refused"] is None]
        if collectives["ranks"] != ranks or not fits:
            return None
        link = decode(Estimate, fits[0]["segments"][-1]["bus_bytes_per_s"])
    except (AttributeError, KeyError, IndexError, TypeError, ValueError):
        return None  # a probe without collectives, or one of somebody else's making
    return None if absurd(LINK, link) else link


def _row(row: Mapping[str, Any]) -> tuple[str, str, int, Estimate]:
    estimate = {key: value for key, value in row.items() if key not in ("kind", "format", "layout", "threads")}
    return str(row["kind"]), str(row["format"]), int(row["threads"]), decode(Estimate, estimate)


def _same_machine(run: Run, facts: Mapping[str, Any], where: str) -> str:
    """How the machines were held against each other, for the method of each ceiling."""
    ran = run.facts.executor if run.facts else None
    known = {key: (ran.value(key), facts.get(key)) for key in _IDENTITY} if ran else {}
    both = {key: pair for key, pair in known.items() if None not in pair}
    for key, (one, other) in both.items():
        if not _alike(one, other):
            raise BadInput(f"{where} is of another machine: its {key} is {other}, that of the run is {one}", code=_CODE)
    if not both:
        return "an earlier probe, given as one of the server's machine, which the run does not name"
    return f"an earlier probe of the same machine (same {', '.join(both)})"


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, int | float) and isinstance(other, int | float):
        return abs(one - other) <= _SAME * max(abs(one), abs(other))
    return bool(one == other)
