"""Document of a search: its answer as an interval, then every run of it in order; and the same in words."""

from __future__ import annotations

from collections.abc import Iterator

from twinlens.record.beside import SearchRecord, SearchResult
from twinlens.reporting import display
from twinlens.reporting.document.block import Block, Cell, Document, Line, Table, Title, Tone
from twinlens.reporting.wording.finding import clause_of
from twinlens.spec.slo import Slo

_TONES: dict[str, Tone] = {"pass": "good", "fail": "bad", "invalid": "doubt", "failed": "doubt"}


def search_document(record: SearchRecord) -> Document:
    """The answer of each search as an interval with its reason, and its runs: value, verdict, why."""
    blocks = (each for one in record.results for each in _blocks(record, one))
    return Document.of("Search", f"{slo_words(record)}.", blocks)


def swept_point(result: SearchResult) -> str:
    """The point of the sweep that a search stands for: "bf16", or "" where nothing else was swept."""
    return " · ".join(
        display.clean(value, 30) if key == "precision" else f"{display.clean(key, 30)} {display.clean(value, 30)}"
        for key, value in result.where.items()
        if value is not None
    )


def search_interval(result: SearchResult, unit: str) -> str:
    """ "[8, 8.9) requests/s", with words where a side is open."""
    if result.low is None and result.high is None:
        return "not known"
    if result.low is None:
        return f"below {result.high:g} {unit}"
    if result.high is None:
        return f"at least {result.low:g} {unit}"
    return f"[{result.low:g}, {result.high:g}) {unit}"


def slo_words(record: SearchRecord) -> str:
    """The SLO in words: "TTFT ≤ 0.5 s and TPOT ≤ 0.05 s for 99% of requests"."""
    return f"{limits_of(record.slo)} for {100 * record.slo.quantile:.4g}% of requests"


def limits_of(slo: Slo) -> str:
    """The limits of an SLO in words: "TTFT ≤ 0.5 s and TPOT ≤ 0.05 s"."""
    names = {"ttft_s": "TTFT", "tpot_s": "TPOT", "itl_s": "ITL", "e2e_latency_s": "latency"}
    return " and ".join(f"{names[key]} ≤ {limit:g} s" for key, limit in slo.limits().items())


def outcome_words(result: SearchResult) -> str:
    """The outcome and its reason, safe to show."""
    return f"{result.outcome}: {clause_of(result.reason)}"


def _blocks(record: SearchRecord, result: SearchResult) -> Iterator[Block]:
    name = swept_point(result)
    yield Title(f"Search{f' · {name}' if name else ''}: {search_interval(result, record.search.unit)}")
    rows = tuple(
        (Cell(str(number)), Cell(f"{trial.value:g}"), Cell(trial.verdict, _TONES.get(trial.verdict, "")),
         Cell(clause_of(trial.why)))
        for number, trial in enumerate(result.tried, start=1)
    )  # fmt: skip
    heads = ("run", record.search.unit.replace(" in ", "\nin "), "verdict", "why")
    yield Table("Each run of the search.", heads, rows, ("right", "right", "left", "left"), remarks=True)
    yield Line(outcome_words(result))
    yield Line(f"SLO: {slo_words(record)}.", "dim")
