"""`twinlens compare`: whether runs may be compared and how far apart they are, as pairs, ledger, table or history."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from twinlens.api.compare import compared, comparison_json, floor, ledger, pairs, ranked
from twinlens.api.questions import COMPARE, Compare, History, Ledger, Table
from twinlens.cli.console import out
from twinlens.cli.screen import err, print_json, sentences
from twinlens.comparison.limit import failures, limit_of
from twinlens.comparison.side import one_metric
from twinlens.comparison.verdict import of_metric
from twinlens.errors import GateFailed
from twinlens.record.codec import encode
from twinlens.reporting.comparing.comparison import comparison_document
from twinlens.reporting.document.block import Document
from twinlens.reporting.document.markdown import markdown as in_markdown
from twinlens.reporting.document.terminal import screen
from twinlens.reporting.wording.finding import sentence_of, with_words
from twinlens.version import __version__

Asked = Compare | Ledger | Table | History


def run(name: str, given: Mapping[str, Any]) -> None:
    with sentences():
        if given.get("history"):
            _history(History.read(name, given, *COMPARE.questions))
        elif given.get("table") is not None:
            _table(Table.read(name, given, *COMPARE.questions))
        elif given.get("ledger"):
            _ledger(Ledger.read(name, given, *COMPARE.questions))
        else:
            _compare(Compare.read(name, given, *COMPARE.questions))


def _ledger(asked: Ledger) -> None:
    from twinlens.reporting.comparing.ledger import ledger_document

    found = ledger(*asked.runs, price_per_hour=asked.price_per_hour, per_month=asked.per_month)
    _tell(asked, found.to_json(), ledger_document(found))


def _table(asked: Table) -> None:
    from twinlens.api.table import table
    from twinlens.reporting.tables import lenses_document, runtimes_document, switches_document

    found = table(asked.table, *asked.runs)
    if found.switches:
        document = switches_document(found.switches)
    elif found.shares:
        document = runtimes_document(found.shares)
    else:
        fits = [(fit.name, each) for fit in found.fits for each in (fit.fitness, fit.training) if each is not None]
        document = lenses_document(found.rows, fits)
    _tell(asked, found.to_json(), document, whole=asked.all_)


def _history(asked: History) -> None:
    from twinlens.api.history import history
    from twinlens.reporting.comparing.history import history_document

    found = history(*asked.runs, metric=asked.metric)
    data = with_words({"schema": 1, "twinlens": __version__, "histories": [each.to_json() for each in found]})
    document = history_document(found)
    _tell(asked, data, document, whole=asked.all_, markdown=document if asked.markdown else None)


def _compare(asked: Compare) -> None:
    limits = [limit_of(text) for text in asked.fail_if]
    metric = one_metric(asked.metric) if asked.metric else None
    found = pairs(*asked.runs)
    comparisons, ranks = compared(found, floor(found, asked.noise)), ranked(found)
    broken = list(failures(comparisons, limits, found.missed))
    if metric is not None:
        comparisons = tuple(of_metric(each, metric) for each in comparisons)
    alone = [side.name for side in found.alone]
    data = comparison_json(comparisons, found.alone, ranks) | {"failures": encode(broken)}
    with_limits = comparison_document(comparisons, alone, ranks, broken) if asked.markdown else None
    whole = asked.all_ or metric is not None
    _tell(asked, data, comparison_document(comparisons, alone, ranks), whole=whole, markdown=with_limits)
    if broken:
        more = f" (and {len(broken) - 1} more)" if len(broken) > 1 else ""
        raise GateFailed(f"{sentence_of(broken[0])}{more}")


def _tell(
    asked: Asked, data: Any, document: Document, *, whole: bool = False, markdown: Document | None = None
) -> None:
    """The answer as it was asked for: `data`, `markdown` or the screen, and a page beside it."""
    if asked.json_:
        print_json(data)
    elif markdown is not None:
        sys.stdout.write(in_markdown(markdown, head=False))
    else:
        out().print(screen(document, whole=whole))
    if asked.file is not None:
        from twinlens.reporting.document.html import write  # charts are heavy

        write(document, asked.file)
        err().print(f"report: {asked.file.resolve()}", soft_wrap=True)
