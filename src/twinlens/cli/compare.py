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
from twinlens.reporting.comparing.comparison import comparison_document
from twinlens.reporting.comparing.ledger import ledger_document
from twinlens.reporting.document.block import Document
from twinlens.reporting.document.markdown import markdown
from twinlens.reporting.document.terminal import screen
from twinlens.reporting.tables import lenses_document, runtimes_document, switches_document
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
        document = ledger_document(found)
        if json:
            print_json(found.to_json())
        else:
            out().print(screen(document))
        _write(document, page)


def run_table(paths: list[Path], kind: str, json: bool, whole: bool, page: Path | None = None) -> None:
    with sentences():
        found = table(kind, *paths)
        fits = [(fit.name, each) for fit in found.fits for each in (fit.fitness, fit.training) if each is not None]
        if found.switches:
            document = switches_document(found.switches)
        elif found.shares:
            document = runtimes_document(found.shares)
        else:
            document = lenses_document(found.rows, fits)
        if json:
            print_json(found.to_json())
        else:
            out().print(screen(document, whole=whole))
        _write(document, page)


def _write(document: Document, page: Path | None) -> None:
    if page is not None:
        from twinlens.reporting.document.html import write  # charts are heavy

        write(document, page)
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
        sys.stdout.write(markdown(comparison_document(comparisons, alone, ranks, broken), head=False))
    else:
        out().print(screen(comparison_document(comparisons, alone, ranks), whole=form.whole or metric is not None))
    _write(comparison_document(comparisons, alone, ranks), form.page)
    if broken:
        more = f" (and {len(broken) - 1} more)" if len(broken) > 1 else ""
        raise GateFailed(f"{sentence_of(broken[0])}{more}")
