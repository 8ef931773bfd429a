"""The columns of a table of served runs, shared by the terminal and the page."""

from __future__ import annotations

from collections.abc import Sequence

from twinlens.reporting.load_kind import LoadKind
from twinlens.reporting.text.column import Column
from twinlens.stats.metrics.fidelity import AGREEMENTS
from twinlens.stats.summary.group import Group

PLACE_HEADS: dict[LoadKind, str] = {"rate": "rate /s", "concurrency": "in flight", "other": "due /s"}
"""The head of the first column: what the points of a load differ in."""

ITEM_RATES = ("embedded_texts_per_s", "reranked_documents_per_s", "inference_images_per_s")
"""Rates of answers in one piece, one of which such a run has."""


GATE = Column("gate", AGREEMENTS)
"""The fidelity gate as a word, with the share of tokens that agree."""


def served_columns(groups: Sequence[Group]) -> tuple[Column, ...]:
    """The columns of served runs: what was good (done, where no SLO says what is good), the two latencies at their
    median and their tail, and the share that was good. Where answers hold reasoning, the time to the answer itself;
    where they come in one piece, their latency and the texts, documents or images in them."""
    has_slo = any(
        "goodput_per_s" in group.metrics and group.metrics["goodput_per_s"].value is not None for group in groups
    )
    reasons = any("ttfat_s_p50" in group.metrics for group in groups)
    good = (
        Column("goodput /s", ("goodput_per_s",), bare=True)
        if has_slo
        else Column("done /s", ("requests_per_s",), bare=True)
    )
    if any(rate in group.metrics for group in groups for rate in ITEM_RATES):
        return (
            good,
            Column("items /s", ITEM_RATES, bare=True),
            *(Column(f"latency {q}", (f"e2e_latency_s_{q}",)) for q in ("p50", "p99")),
            Column("within SLO", ("slo_attainment",)),
        )
    agrees = any("greedy_agreement" in group.metrics for group in groups)
    compared = any(name in group.metrics for group in groups for name in AGREEMENTS)
    return (
        good,
        Column("TTFT p50", ("ttft_s_p50",)),
        # Who waits for an answer waits for its first token and not for that of the reasoning before it.
        *(
            (Column("TTFAT p50", ("ttfat_s_p50",)), Column("TTFAT p99", ("ttfat_s_p99",)))
            if reasons
            else (Column("TTFT p99", ("ttft_s_p99",)), *(() if agrees else (Column("TPOT p50", ("tpot_s_p50",)),)))
        ),
        Column("TPOT p99", ("tpot_s_p99",)),
        Column("within SLO", ("slo_attainment",)),
        *((Column("agree", ("greedy_agreement",)),) if agrees else ()),
        *((GATE,) if compared else ()),
    )


_ALSO = (
    Column("output tokens/s", ("output_tokens_per_s",), bare=True),
    Column("TTFT p90", ("ttft_s_p90",)),
    Column("TPOT p90", ("tpot_s_p90",)),
    Column("E2E p50", ("e2e_latency_s_p50",)),
    Column("E2E p90", ("e2e_latency_s_p90",)),
    Column("E2E p99", ("e2e_latency_s_p99",)),
    Column("failed", ("failed_share",)),
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
