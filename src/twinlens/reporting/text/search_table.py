"""A search in a terminal of 80 columns: its answer, then every run of it in order."""

from __future__ import annotations

from rich import box
from rich.console import Group as Stack
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from twinlens.record.beside import SearchRecord, SearchResult
from twinlens.reporting import display
from twinlens.reporting.wording.finding import clause_of
from twinlens.spec.slo import Slo

_COLOURS = {"pass": "green", "fail": "red", "invalid": "yellow", "failed": "yellow"}


def search_table(record: SearchRecord) -> RenderableType:
    """The answer of each search as an interval with its reason, and its runs: value, verdict, why."""
    return Stack(*(_answer(record, result) for result in record.results))


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


def _answer(record: SearchRecord, result: SearchResult) -> RenderableType:
    name = swept_point(result)
    title = Text(f"Search{f' · {name}' if name else ''}: {search_interval(result, record.search.unit)}", style="bold")
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    table.add_column("run", justify="right", no_wrap=True)
    table.add_column(record.search.unit.replace(" in ", "\nin "), justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("why", overflow="fold")
    for number, trial in enumerate(result.tried, start=1):
        style = _COLOURS.get(trial.verdict, "")
        words = Text(trial.verdict, style=style)
        table.add_row(str(number), f"{trial.value:g}", words, clause_of(trial.why))
    lines = [Text(outcome_words(result)), Text(f"SLO: {slo_words(record)}.", style="dim")]
    return Stack(title, Text(""), table, Text(""), *lines, Text(""))
