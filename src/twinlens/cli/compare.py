"""`twinlens compare`: whether runs may be compared, and how far apart they are."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from twinlens.api.compare import compared, comparison_json, floor, ledger, pairs, ranked
from twinlens.api.table import table
from twinlens.cli.screen import err, out, print_json, sentences
from twinlens.comparison.limit import failures, limit_of
from twinlens.comparison.metric_name import one_metric
from twinlens.comparison.verdict import of_metric
from twinlens.errors import GateFailed
from twinlens.record.codec import encode
from twinlens.reporting.comparison_markdown import comparison_markdown
from twinlens.reporting.screen.comparison import comparison_screen, whole_screen
from twinlens.reporting.screen.ledger import ledger_screen
from twinlens.reporting.screen.tables import lenses_screen, runtimes_screen, switches_screen
from twinlens.reporting.wording.finding import sentence_of


@dataclass(frozen=True, slots=True)
class Form:
    """In what form comparisons are shown, and the limits that fail a pipeline. `page`: an HTML file beside that;
    `metric`: show this one only; `noise`: runs of one spec at several times, for the noise floor."""

    json: bool = False
    whole: bool = False
    markdown: bool = False
    fail_if: tuple[str, ...] = ()
    page: Path | None = None
    noise: Path | None = None
    metric: str | None = None


def run(paths: list[Path], form: Form) -> None:
    with sentences():
        _compare(paths, form)


def run_ledger(
    paths: list[Path], json: bool, price_per_hour: float | None, per_month: float | None, page: Path | None = None
) -> None:
    with sentences():
        found = ledger(*paths, price_per_hour=price_per_hour, per_month=per_month)
        if json:
            print_json(found.to_json())
        else:
            out().print(ledger_screen(found))
        if page is not None:
            from twinlens.reporting.html.ledger_page import write_ledger

            write_ledger(found, page)
            err().print(f"report: {page.resolve()}", soft_wrap=True)


def run_table(paths: list[Path], kind: str, json: bool, whole: bool, page: Path | None = None) -> None:
    with sentences():
        found = table(kind, *paths)
        fits = [(fit.name, each) for fit in found.fits for each in (fit.fitness, fit.training) if each is not None]
        if json:
            print_json(found.to_json())
        elif found.switches:
            out().print(switches_screen(found.switches))
        elif found.shares:
            out().print(runtimes_screen(found.shares))
        else:
            out().print(lenses_screen(found.rows, fits, whole))
        if page is not None:
            from twinlens.reporting.html.table_page import write_switches, write_table

            if found.switches:
                write_switches(found.switches, page)
            else:
                write_table(found.rows, fits, found.shares, page)
            err().print(f"report: {page.resolve()}", soft_wrap=True)


def _compare(paths: list[Path], form: Form) -> None:
    limits = [limit_of(text) for text in form.fail_if]
    metric = one_metric(form.metric) if form.metric else None
    found = pairs(*paths)
    comparisons, ranks = compared(found, floor(found, form.noise)), ranked(found)
    broken = list(failures(comparisons, limits, found.missed))
    if metric is not None:
        comparisons = tuple(of_metric(each, metric) for each in comparisons)
    alone = [side.name for side in found.alone]
    if form.json:
        print_json(comparison_json(comparisons, found.alone, ranks) | {"failures": encode(broken)})
    elif form.markdown:
        sys.stdout.write(comparison_markdown(comparisons, broken))
    else:
        out().print((whole_screen if form.whole or metric else comparison_screen)(comparisons, alone, ranks))
    if form.page is not None:
        from twinlens.reporting.html.comparison_page import write_comparison

        write_comparison(comparisons, form.page, alone, ranks)
        err().print(f"report: {form.page.resolve()}", soft_wrap=True)
    if broken:
        more = f" (and {len(broken) - 1} more)" if len(broken) > 1 else ""
        raise GateFailed(f"{sentence_of(broken[0])}{more}")
