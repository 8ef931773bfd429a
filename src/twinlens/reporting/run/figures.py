"""The figures that matter for a lens, each with its interval or why it has none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from twinlens.record.estimate import Estimate
from twinlens.record.executor.facts import Facts
from twinlens.record.run import Run
from twinlens.reporting import display
from twinlens.reporting.display import clean, value
from twinlens.reporting.document.block import Cell, Table
from twinlens.reporting.run.cell import cell_of
from twinlens.reporting.search import limits_of
from twinlens.reporting.text.column import ITEM_RATES
from twinlens.spec.workload.workload import InferenceWorkload
from twinlens.stats.metrics.definition import METRICS
from twinlens.stats.metrics.fidelity import AGREEMENTS
from twinlens.stats.summary.group import Summary
from twinlens.stats.summary.serving import is_served

_TRAINING = (
    ("training_tokens_per_s", "training_images_per_s", "training_samples_per_s"), ("retention",),
    ("step_s_p50",), ("step_s_p99",), ("mfu", "mfu_own_shapes"), ("final_loss",), ("time_to_target_s",),
    ("peak_bytes",),
    ("energy_to_target_j", "energy_per_token_j", "energy_per_step_j"),
)  # fmt: skip
_ENGINE = (
    ("output_tokens_per_s", "inference_images_per_s"), ("prefill_tokens_per_s",), ("ttft_s_p50", "e2e_latency_s_p50"),
    ("decode_tokens_per_s",), ("tpot_s_p50",), ("tpot_s_p99", "e2e_latency_s_p99"), ("mbu", "matvec_share"),
    ("peak_bytes",), ("top1_agreement",), ("energy_per_output_token_j", "energy_per_request_j"),
)  # fmt: skip
_EXCHANGES = (
    ("bus_bytes_per_s",), ("retention",), ("algorithm_bytes_per_s",), ("exchanges_per_s",), ("exchange_s_p50",),
    ("exchange_s_p90",), ("exchange_s_p99",), ("peak_bytes",),
)  # fmt: skip
_OF_LENS = {"training": _TRAINING, "inference": _ENGINE, "collective": _EXCHANGES}
_SERVED = (
    ("output_tokens_per_s", *ITEM_RATES, "requests_per_s"), ("goodput_per_s", "requests_per_s"), ("slo_attainment",),
    ("failed_share",), ("input_tokens_per_s",), AGREEMENTS, ("peak_bytes",),
    ("energy_per_output_token_j", "energy_per_request_j"),
)  # fmt: skip
_WAITS = {
    "TTFT": "ttft_s",
    "TTFAT": "ttfat_s",
    "TPOT": "tpot_s",
    "ITL": "itl_s",
    "ICL": "icl_s",
    "E2E": "e2e_latency_s",
}
_QUANTILES = ("p50", "p90", "p99")
_LABELS = {"retention": "share of peak rate"}


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of one run, and what was not measured with why."""

    tables: tuple[Table, ...]
    absent: tuple[tuple[str, str], ...]


def figures_of(run: Run, summary: Summary) -> Figures:
    """The figures on the first screen of a run. A figure that was never computed is not there at all."""
    served, known = is_served(run), remarks(run, summary)
    lines, absent = [], []
    for choice in _SERVED if served else _OF_LENS[summary.lens]:
        pair = _first(summary, choice)
        if pair is None:
            continue
        label = _LABELS.get(pair[0], METRICS[pair[0]].label)
        if pair[1].value is None:
            absent.append((label, display.absence(pair[1], counted=False).partition("; ")[0]))
        else:
            lines.append((Cell(label), _cell(*pair, label), Cell(known.get(pair[0], ""), "dim")))
    sides = ("left", "right", "left")
    table = Table("", ("",) * 3, tuple(lines), sides, remarks=True, is_split=True)
    return Figures((*([waits] if served and (waits := _waits(summary)).rows else []), table), tuple(absent))


def _waits(summary: Summary) -> Table:
    """The quantiles of each time that a client waits."""
    rows = []
    for label, name in _WAITS.items():
        known = {id: summary.metrics.get(f"{name}_{id}") for id in _QUANTILES}
        if any(estimate is not None and estimate.value is not None for estimate in known.values()):
            rows.append((Cell(label), *(Cell("") if each is None else _cell(f"{name}_{id}", each)
                                        for id, each in known.items())))  # fmt: skip
    return Table("", ("", *_QUANTILES), tuple(rows), is_split=True)


def _cell(metric: str, estimate: Estimate, label: str = "") -> Cell:
    absent = f"not measured: {display.absence(estimate, counted=False)}"
    return cell_of(metric, estimate, absent, label=label)


def _first(summary: Summary, ids: Sequence[str]) -> tuple[str, Estimate] | None:
    pairs = [(id, summary.metrics[id]) for id in ids if id in summary.metrics]
    return next((pair for pair in pairs if pair[1].value is not None), pairs[0] if pairs else None)


# Remarks without which a figure must not be read: a ceiling, a FLOP convention, an SLO, the first error.

_CEILINGS = {
    "mfu": "matrix rate measured here",
    "mfu_own_shapes": "matrix rate at its own shapes",
    "mbu": "read bandwidth measured here",
    "matvec_share": "matrix-vector rate measured here",
}


def remarks(run: Run, summary: Summary) -> dict[str, str]:
    """By the id of a metric, what stands behind it on its line."""
    by_metric = _of_ceilings(run.facts) if run.facts else {}
    workload = run.spec.workload
    if isinstance(workload, InferenceWorkload) and workload.slo is not None:
        by_metric["slo_attainment"] = f"must be {100 * workload.slo.quantile:g}%: {limits_of(workload.slo)}"
    if "offered_requests_per_s" in summary.metrics:
        by_metric["goodput_per_s"] = f"of {value(summary.metrics['offered_requests_per_s'])} arriving"
    failed = summary.metrics.get("failed_share")
    if failed is not None and failed.value == 0 and failed.n:
        by_metric["failed_share"] = f"0 of {failed.n:,}"
    lost = next(
        (finding for finding in summary.findings if "reasons" in finding.numbers and "lost" in finding.numbers), None
    )
    if lost is not None:
        reason, count = next(iter(lost.numbers["reasons"]), ["", 0])
        often = f"{count} × " if count < lost.numbers["lost"] else ""
        by_metric["failed_share"] = f"{lost.numbers['lost']} of {lost.numbers['requests']}: {often}{clean(reason, 60)}"
    return by_metric


def _of_ceilings(facts: Facts) -> dict[str, str]:
    by_metric = {}
    for id, words in _CEILINGS.items():
        name = METRICS[id].ceiling
        if name in facts.ceilings and facts.ceilings[name].value is not None:
            by_metric[id] = f"of {value(facts.ceilings[name])}, {words}"
    model = facts.work.get("step_flop")
    if model is not None:
        convention = clean(model.method, 60).removeprefix("convention ")
        by_metric |= {id: f"{by_metric[id]}; FLOP: {convention}" for id in ("mfu", "mfu_own_shapes") if id in by_metric}
    return by_metric
