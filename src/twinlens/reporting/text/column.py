"""The columns of a lens's table, shared by the terminal and the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from twinlens.record.estimate import Estimate
from twinlens.reporting import display
from twinlens.reporting.load_kind import LoadKind
from twinlens.reporting.view import headline
from twinlens.spec.precision import Lens
from twinlens.stats.metrics.definition import HEADLINE, METRICS
from twinlens.stats.metrics.fidelity import AGREEMENTS
from twinlens.stats.summary.group import Group


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `ids` are tried in turn: the first with a value is shown. `bare`: the head has the unit."""

    head: str
    ids: tuple[str, ...]
    bare: bool = False

    @property
    def label(self) -> str:
        """The head where there is room for the metric's own name."""
        return METRICS["retention"].label if self.ids == ("retention",) else self.head

    def estimate(self, group: Group) -> tuple[str, Estimate] | None:
        """The metric's id and estimate for one group; None where it was never computed."""
        present = [(key, group.metrics[key]) for key in self.ids if key in group.metrics]
        return next((pair for pair in present if pair[1].value is not None), present[0] if present else None)

    def reason(self, group: Group, *, counted: bool = True) -> str:
        """Why the first run without a value has none. `counted`: with how much it had of what it takes, which differs

        from point to point.
        """
        for key in self.ids:
            for run in group.runs:
                estimate = run.metrics.get(key)
                if estimate is not None and estimate.value is None and estimate.reason:
                    return display.absence(estimate, counted=counted)
        # What is known of a group alone, such as how it agrees with another, is in none of its runs.
        of_group = [group.metrics[key] for key in self.ids if key in group.metrics and group.metrics[key].value is None]
        return display.absence(of_group[0] if of_group else None, counted=counted)


def column(*ids: str, head: str = "", bare: bool = False) -> Column:
    """A column of metrics, under the head of the first of them or a head of this table's own."""
    return Column(head or METRICS[ids[0]].heading, ids, bare)


_ENERGY = {
    "training": ("energy_per_token_j", "energy_per_step_j"),
    "inference": ("energy_per_output_token_j", "energy_per_request_j"),
}


def columns(lens: Lens, groups: Sequence[Group]) -> tuple[Column, ...]:
    """The columns of one lens's table, in order; the fidelity column is text and stands apart."""
    rate_id = next((pair[0] for pair in map(headline, groups) if pair), HEADLINE[lens][0])
    first = (
        column(*HEADLINE[lens], head=METRICS[rate_id].label, bare=True),
        column("retention"),
    )
    if lens == "collective":
        return (
            column(*HEADLINE[lens]),
            first[1],
            column("algorithm_bytes_per_s"),
            column("exchanges_per_s", bare=True),
            column("exchange_s_p50", head="p50"),
            column("exchange_s_p99", head="p99"),
        )
    if lens == "training" and any("save_blocked_s" in group.metrics for group in groups):
        return (
            *first,
            column("step_s_p50"),
            column("save_cost_s", "save_blocked_s"),
            column("recovery_s"),
            column("training_goodput"),
            column("final_loss", bare=True),
        )
    if lens == "training":
        return (
            *first,
            *_trained(groups),
            column("step_s_p50"),
            # Runs to a target are small and short: how long it took says more of them than how busy they were.
            column("time_to_target_s")
            if any("time_to_target_s" in group.metrics for group in groups)
            else column("mfu", "mfu_own_shapes"),
            column("peak_bytes"),
            column("final_loss", bare=True),
            column(*_ENERGY[lens]),
        )
    times = (
        (column("e2e_latency_s_p50"),) if rate_id == HEADLINE[lens][1] else (column("ttft_s_p50"), column("tpot_s_p50"))
    )
    return (
        *first,
        *times,
        column("mbu", "matvec_share"),
        column("peak_bytes"),
        column(*_ENERGY[lens]),
    )


def _trained(groups: Sequence[Group]) -> tuple[Column, ...]:
    """The share of parameters that is trained, in a table in which it is not all of them everywhere."""
    shares = [share for group in groups if (share := group.metrics.get("trainable_share"))]
    some = any(share.value is not None and share.value < 1 for share in shares)
    return (column("trainable_share"),) if some else ()


# The columns of a table of served runs.

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
