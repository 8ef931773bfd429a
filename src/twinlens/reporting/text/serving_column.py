"""The columns of a table of served runs, shared by the terminal and the page."""

from __future__ import annotations

from collections.abc import Sequence

from twinlens.reporting.load_kind import LoadKind
from twinlens.reporting.text.column import Column, column
from twinlens.stats.metrics.fidelity import AGREEMENTS
from twinlens.stats.summary.group import Group

PLACE_HEADS: dict[LoadKind, str] = {"rate": "rate /s", "concurrency": "in flight", "other": "due /s"}
"""The head of the first column: what the points of a load differ in."""

ITEM_RATES = ("embedded_texts_per_s", "reranked_documents_per_s", "inference_images_per_s")
"""Rates of answers in one piece, one of which such a run has."""


GATE = column(*AGREEMENTS, head="quality")
"""The quality check as a word, with the share of tokens that agree."""


def served_columns(groups: Sequence[Group]) -> tuple[Column, ...]:
    """The columns of served runs: what was good (done, where no SLO says what is good), the two latencies at their
    median and their tail, and the share that was good. Where answers hold reasoning, the time to the answer itself;
    where they come in one piece, their latency and the texts, documents or images in them."""
    has_slo = any(
        "goodput_per_s" in group.metrics and group.metrics["goodput_per_s"].value is not None for group in groups
    )
    reasons = any("ttfat_s_p50" in group.metrics for group in groups)
    good = column("goodput_per_s", bare=True) if has_slo else column("requests_per_s", bare=True)
    if any(rate in group.metrics for group in groups for rate in ITEM_RATES):
        return (
            good,
            column(*ITEM_RATES, head="items /s", bare=True),
            column("e2e_latency_s_p50"),
            column("e2e_latency_s_p99"),
            column("slo_attainment"),
        )
    agrees = any("greedy_agreement" in group.metrics for group in groups)
    compared = any(name in group.metrics for group in groups for name in AGREEMENTS)
    return (
        good,
        column("ttft_s_p50"),
        # Who waits for an answer waits for its first token and not for that of the reasoning before it.
        *(
            (column("ttfat_s_p50"), column("ttfat_s_p99"))
            if reasons
            else (column("ttft_s_p99"), *(() if agrees else (column("tpot_s_p50"),)))
        ),
        column("tpot_s_p99"),
        column("slo_attainment"),
        *((column("greedy_agreement"),) if agrees else ()),
        *((GATE,) if compared else ()),
    )


_ALSO = (
    column("output_tokens_per_s", bare=True),
    column("ttft_s_p90"),
    column("tpot_s_p90"),
    column("e2e_latency_s_p50", head="E2E p50"),
    column("e2e_latency_s_p90", head="E2E p90"),
    column("e2e_latency_s_p99", head="E2E p99"),
    column("failed_share"),
)


def other_columns(groups: Sequence[Group]) -> tuple[Column, ...]:
    """What the columns of `served_columns` leave out and any of these points has: tokens per second, p90, the whole
    latency, the share that failed."""
    shown = {name for column in served_columns(groups) for name in column.ids}
    return tuple(
        column
        for column in _ALSO
        if not shown & {*column.ids} and any(name in group.metrics for group in groups for name in column.ids)
    )
