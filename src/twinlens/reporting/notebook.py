"""Small fragments of HTML for a notebook cell: a run with its verdict and first numbers, and several in a table."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import escape

from twinlens.errors import BadInput
from twinlens.reporting import display
from twinlens.reporting.view import headline
from twinlens.reporting.wording.finding import clause_of, label_words, sentence_of
from twinlens.stats.metrics.definition import METRICS
from twinlens.stats.summary.group import Summary

_SHOWN = {
    "training": ("retention", "step_s_p50", "mfu", "peak_bytes", "final_loss", "energy_per_token_j"),
    "inference": ("retention", "ttft_s_p50", "tpot_s_p50", "mbu", "peak_bytes", "top1_agreement"),
    "collective": ("retention", "algorithm_bytes_per_s", "exchange_s_p50", "exchange_s_p99"),
}
_CELL = "text-align:{};padding:2px 12px 2px 0"


_HEADS = ("run", "lens", "model", "precision", "repeat", "state", "verdict", "sustained")


def runs_html(summaries: Sequence[Summary], total: int, faults: Sequence[BadInput] = ()) -> str:
    """The first runs of `total`, a line each, and what could not be read. The same rules as of `summary_html`."""
    head = "".join(f'<th scope="col" style="{_CELL.format("left")}">{escape(name)}</th>' for name in _HEADS)
    body = "".join(_line(summary) for summary in summaries)
    rest = f"; {total - len(summaries)} more are not shown" if total > len(summaries) else ""
    lost = "".join(f"<br><span>Left out: {escape(display.clean(fault))}</span>" for fault in faults[:3])
    return (
        f"<div><table><caption>{total} run{'s' * (total != 1)}{rest}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{lost}</div>"
    )


def _line(summary: Summary) -> str:
    pair = headline(summary)
    cells = (
        summary.run,
        summary.lens,
        summary.model,
        summary.point.get("precision", "?"),
        summary.repeat + 1,
        summary.state,
        f"{summary.validity} ({label_words(summary.label)})",
        display.value(pair[1]) if pair else display.ABSENT,
    )
    style = _CELL.format("left")
    return f"<tr>{''.join(f'<td style={style!r}>{escape(display.clean(cell, 60))}</td>' for cell in cells)}</tr>"


def summary_html(summary: Summary) -> str:
    """A fragment for `_repr_html_`: no style sheet, no script, everything foreign escaped."""
    pair = headline(summary)
    ids = [*([pair[0]] if pair else []), *(id for id in _SHOWN[summary.lens] if id in summary.metrics)]
    rows = "".join(_row(id, summary) for id in ids)
    verdict = summary.verdict
    label = f"{label_words(verdict.label)} ({clause_of(verdict.reason)})"
    told = "".join(
        f"<br><span>{escape(sentence_of(finding))}</span>"
        for finding in summary.findings
        if finding.severity != "notes"
    )
    head = f"{display.clean(summary.model)} · {display.clean(summary.point.get('precision', '?'))} · {summary.lens}"
    under = f"repeat {summary.repeat + 1}, {display.clean(summary.state)}, {summary.rows:,} rows"
    under = f"{under}, {summary.validity}: {label}"
    return (
        f"<div><strong>{escape(head)}</strong><br><span>{escape(under)}</span>{told}"
        f"<table><caption>{escape(display.clean(summary.run))}; intervals are within this one run</caption>"
        f"<tbody>{rows}</tbody></table></div>"
    )


def _row(metric: str, summary: Summary) -> str:
    estimate = summary.metrics[metric]
    shown = display.value(estimate) if estimate.value is not None else "not measured"
    beside = display.bounds(estimate) if estimate.value is not None else display.absence(estimate)
    return (
        f'<tr><th scope="row" style="{_CELL.format("left")}">{escape(METRICS[metric].label)}</th>'
        f'<td style="{_CELL.format("right")}">{escape(shown)}</td>'
        f'<td style="{_CELL.format("left")}">{escape(beside)}</td></tr>'
    )
