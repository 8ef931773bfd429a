"""A small fragment of HTML for a notebook cell: one run, its verdict and its first numbers."""

from __future__ import annotations

from markupsafe import escape

from twinlens.record.run import Run
from twinlens.reporting import display
from twinlens.reporting.view import headline
from twinlens.reporting.wording.finding import clause_of, sentence_of, standing
from twinlens.stats.metrics.definition import METRICS
from twinlens.stats.summary.group import Summary

_SHOWN = {
    "training": ("retention", "step_s_p50", "mfu", "peak_bytes", "final_loss", "energy_per_token_j"),
    "inference": ("retention", "ttft_s_p50", "tpot_s_p50", "mbu", "peak_bytes", "top1_agreement"),
}
_CELL = "text-align:{};padding:2px 12px 2px 0"


def run_html(run: Run, summary: Summary) -> str:
    """A fragment for `_repr_html_`: no style sheet, no script, everything foreign escaped."""
    pair = headline(summary)
    ids = [*([pair[0]] if pair else []), *(id for id in _SHOWN[summary.lens] if id in summary.metrics)]
    rows = "".join(_row(id, summary) for id in ids)
    verdict = summary.verdict
    ranked = "ranked" if summary.ranked else "not ranked"
    said = f"{standing(verdict.label)} ({clause_of(verdict.reason)})"
    told = "".join(
        f"<br><span>{escape(sentence_of(one))}</span>" for one in summary.findings if one.severity != "notes"
    )
    head = f"{display.clean(summary.model)} · {display.clean(run.spec.point.precision)} · {summary.lens}"
    under = f"repeat {summary.repeat + 1}, {run.state}, {summary.rows:,} rows, {ranked}: {said}"
    return (
        f"<div><strong>{escape(head)}</strong><br><span>{escape(under)}</span>{told}"
        f"<table><caption>{escape(display.clean(run.id))}; intervals are within this one run</caption>"
        f"<tbody>{rows}</tbody></table></div>"
    )


def _row(id: str, summary: Summary) -> str:
    estimate = summary.metrics[id]
    shown = display.value(estimate) if estimate.value is not None else "not measured"
    beside = display.bounds(estimate) if estimate.value is not None else display.absence(estimate)
    return (
        f'<tr><th scope="row" style="{_CELL.format("left")}">{escape(METRICS[id].label)}</th>'
        f'<td style="{_CELL.format("right")}">{escape(shown)}</td>'
        f'<td style="{_CELL.format("left")}">{escape(beside)}</td></tr>'
    )
