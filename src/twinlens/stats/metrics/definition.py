"""Metrics that may be printed, one row each, with all that is known of it. Each has a page (`twinlens explain ID`)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

from twinlens.record.estimate import Estimate
from twinlens.stats.peers.names import peer_names
from twinlens.units import (
    BYTES,
    BYTES_PER_S,
    COUNT,
    DOCUMENTS_PER_S,
    EXCHANGES_PER_S,
    FLOP_PER_S,
    IMAGES_PER_S,
    JOULES,
    NATS,
    RATIO,
    REQUESTS_PER_S,
    SAMPLES_PER_S,
    SECONDS,
    STEPS_PER_S,
    TEXTS_PER_S,
    TOKENS_PER_S,
    WATTS,
)

if TYPE_CHECKING:
    from twinlens.stats.estimator.repeats import Kind

MetricLens = Literal["training", "inference", "collective", "both"]
Group = Literal[
    "sustained", "time", "efficiency", "memory", "quality", "energy", "share", "client", "server", "startup", "peer",
    "other",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Metric:
    """One row. `better`: which way is good, or "none" where neither is. `group`: the table it stands in.

    `least`, `most`: bounds of the quantity itself, at which intervals end. `joins`: the rule that joins its repeats (a
    quantile is read from all values of the repeats together). `of_pace`: another value when each row takes longer, if
    its group is of pace; `per_request`: so it is where requests come on a schedule, too. `is_headline`: a sustained
    rate that may stand first. `head`: of a column, where the label is too long. `ceiling`: the rate of the device that
    it is a share of. `tolerance`: the limit of `protocol.tolerance` that it is held to. `of_slo`: it needs an SLO.
    """

    id: str
    label: str
    lens: MetricLens
    unit: str
    group: Group
    better: Literal["more", "less", "none"] = "none"
    least: float | None = 0.0
    most: float | None = None
    joins: Kind = "mean"
    of_pace: bool = True
    per_request: bool = False
    is_headline: bool = False
    head: str = ""
    ceiling: str = ""
    tolerance: str = ""
    of_slo: bool = False

    @property
    def heading(self) -> str:
        """The head of its column."""
        return self.head or self.label


_rate = partial(Metric, group="sustained", better="more")
_share = partial(Metric, unit=RATIO, group="share", most=1.0)
_of_ceiling = partial(Metric, unit=RATIO, group="efficiency", better="more", most=1.0)
_bytes = partial(Metric, unit=BYTES, group="memory", better="less")
_quality = partial(Metric, group="quality", better="less")


def _times(
    name: str,
    label: str,
    lens: MetricLens,
    wanted: tuple[str, ...] = ("p50", "p90", "p99"),
    group: Literal["time", "client"] = "time",
) -> list[Metric]:
    return [Metric(f"{name}_{q}", f"{label} {q}", lens, SECONDS, group, "less") for q in wanted]


def _training() -> list[Metric]:
    lens: MetricLens = "training"
    return [
        _rate("training_tokens_per_s", "tokens/s", lens, TOKENS_PER_S, is_headline=True),
        _rate("training_images_per_s", "images/s", lens, IMAGES_PER_S, is_headline=True),
        _rate("training_samples_per_s", "samples/s", lens, SAMPLES_PER_S, is_headline=True),
        Metric("training_peak_tokens_per_s", "peak tokens/s", lens, TOKENS_PER_S, "sustained"),
        Metric("training_peak_images_per_s", "peak images/s", lens, IMAGES_PER_S, "sustained"),
        Metric("training_peak_samples_per_s", "peak samples/s", lens, SAMPLES_PER_S, "sustained"),
        *_times("step_s", "step", lens),
        _share("data_share", "data", lens),
        _share("forward_share", "forward", lens),
        _share("backward_share", "backward", lens),
        _share("communicate_share", "communicate", lens),
        _share("optimize_share", "optimizer", lens),
        _share("checkpoint_share", "save", lens, better="less"),
        _share("straggler_share", "straggler", lens, better="less"),
        _share("unattributed_share", "unattributed", lens),
        _of_ceiling("mfu", "MFU", lens, ceiling="matrix_flop_per_s"),
        _of_ceiling("hfu", "HFU", lens, ceiling="matrix_flop_per_s"),
        _of_ceiling("mfu_datasheet", "MFU of datasheet", lens, ceiling="datasheet_flop_per_s"),
        _of_ceiling("mfu_own_shapes", "MFU at own shapes", lens, ceiling="matrix_flop_per_s_at"),
        Metric("flop_per_s", "model FLOP/s", lens, FLOP_PER_S, "efficiency", "more"),
        Metric("flop_coverage", "FLOP coverage", lens, RATIO, "efficiency", "more", of_pace=False),
        Metric("trainable_parameters", "trainable", lens, COUNT, "memory", "less"),
        Metric("trainable_share", "trained", lens, RATIO, "memory", "less"),
        _bytes("gradients_bytes", "gradients", lens),
        _bytes("optimizer_bytes", "optimizer state", lens),
        _bytes("activations_bytes", "activations", lens),
        _bytes("bytes_per_parameter", "bytes/parameter", lens),
        _quality("final_loss", "final loss", lens, NATS, head="loss"),
        _quality("loss_gap", "gap to entropy rate", lens, NATS, least=None),
        _quality("time_to_target_s", "time to target", lens, SECONDS, joins="bracket", head="to target"),
        _quality("samples_to_target", "samples to target", lens, COUNT, joins="bracket"),
        Metric("training_tokens_per_s_between_saves", "tokens/s between saves", lens, TOKENS_PER_S, "sustained"),
        Metric("training_images_per_s_between_saves", "images/s between saves", lens, IMAGES_PER_S, "sustained"),
        Metric("training_samples_per_s_between_saves", "samples/s between saves", lens, SAMPLES_PER_S, "sustained"),
        *_of_saves(),
        Metric("energy_per_step_j", "energy/step", lens, JOULES, "energy", "less"),
        Metric("energy_per_token_j", "energy/token", lens, JOULES, "energy", "less", head="energy"),
        Metric(
            "energy_to_target_j", "energy to target", lens, JOULES, "energy", "less", joins="bracket", of_pace=False
        ),
        Metric("energy_to_completion_j", "energy of the run", lens, JOULES, "energy", "less", of_pace=False),
    ]


def _of_saves() -> list[Metric]:
    """Saves, reading them back, a rank that was lost, and where the wall time went."""
    lens: MetricLens = "training"
    times = {
        "save_blocked_s": "save blocks", "save_durable_s": "save durable after", "save_slowdown_s": "save slows",
        "save_cost_s": "cost of a save", "restore_storage_s": "restore from storage",
        "restore_cache_s": "restore from page cache", "recovery_s": "recovery", "recovery_notice_s": "noticed after",
        "recovery_restart_s": "restarted in", "recovery_load_s": "loaded in", "recovery_lost_s": "lost to a failure",
    }  # fmt: skip
    heads = {"save_cost_s": "save costs"}
    losses = {
        "startup": "start-up", "data": "waiting for data", "checkpoint": "saves", "restart": "restart",
        "repeat": "repeated steps", "evaluation": "evaluation", "other": "other",
    }  # fmt: skip
    return [
        *(
            Metric(id, label, lens, SECONDS, "time", "less", of_pace=False, head=heads.get(id, ""))
            for id, label in times.items()
        ),
        _bytes("save_bytes", "size of a save", lens),
        Metric("save_bytes_per_s", "save rate", lens, BYTES_PER_S, "efficiency", "more", of_pace=False),
        Metric("repeated_steps", "steps repeated", lens, COUNT, "share", "less"),
        Metric("restarts_used", "restarts used", lens, COUNT, "share", "less"),
        _share("training_goodput", "training goodput", lens, better="more", head="goodput"),
        Metric("useful_steps_per_s", "useful steps/s", lens, STEPS_PER_S, "share", "more"),
        *(_share(f"lost_{part}_share", f"lost to {label}", lens, better="less") for part, label in losses.items()),
    ]


def _inference() -> list[Metric]:
    lens: MetricLens = "inference"
    return [
        _rate("output_tokens_per_s", "output tokens/s", lens, TOKENS_PER_S, is_headline=True),
        Metric("peak_output_tokens_per_s", "peak tokens/s", lens, TOKENS_PER_S, "sustained"),
        _rate("inference_images_per_s", "images/s", lens, IMAGES_PER_S, is_headline=True),
        Metric("peak_inference_images_per_s", "peak images/s", lens, IMAGES_PER_S, "sustained"),
        _rate("requests_per_s", "requests/s", lens, REQUESTS_PER_S, head="done /s"),
        _rate("prefill_tokens_per_s", "prefill tokens/s", lens, TOKENS_PER_S),
        _rate("decode_tokens_per_s", "decode tokens/s", lens, TOKENS_PER_S),
        _rate("tokens_per_s_per_request", "tokens/s/request", lens, TOKENS_PER_S, per_request=True),
        *_times("ttft_s", "TTFT", lens),
        *_times("tpot_s", "TPOT", lens),
        *_times("itl_s", "ITL", lens),
        *_times("e2e_latency_s", "latency", lens),
        _of_ceiling("mbu", "MBU", lens, ceiling="read_bytes_per_s"),
        _of_ceiling("matvec_share", "of mat-vec rate", lens, ceiling="matvec_bytes_per_s"),
        _of_ceiling("prefill_mfu", "prefill MFU", lens, ceiling="matrix_flop_per_s"),
        _bytes("kv_bytes", "KV cache", lens),
        _quality("top1_agreement", "top-1 agreement", lens, RATIO, better="more", most=1.0, tolerance="top1_agreement"),
        _quality("kl_nats", "KL per token", lens, NATS, tolerance="kl_nats"),
        _quality("kl_top_nats", "KL of top tokens", lens, NATS, tolerance="kl_nats"),
        _quality(
            "answer_agreement", "answer agreement", lens, RATIO, better="more", most=1.0, tolerance="top1_agreement"
        ),
        _quality("greedy_agreement", "greedy agreement", lens, RATIO, better="more", head="agree"),
        _quality("perplexity_change", "perplexity change", lens, RATIO, least=None, tolerance="perplexity_change"),
        Metric("energy_per_request_j", "energy/request", lens, JOULES, "energy", "less"),
        Metric("energy_per_output_token_j", "energy/output token", lens, JOULES, "energy", "less", head="energy"),
    ]


def _serving() -> list[Metric]:
    """Metrics that only a run under load has, beside most of the above."""
    lens: MetricLens = "inference"
    return [
        Metric("offered_requests_per_s", "offered requests/s", lens, REQUESTS_PER_S, "sustained"),
        _rate("goodput_per_s", "goodput", lens, REQUESTS_PER_S, of_slo=True, head="goodput /s"),
        _rate("embedded_texts_per_s", "texts/s", lens, TEXTS_PER_S, is_headline=True),
        _rate("reranked_documents_per_s", "documents/s", lens, DOCUMENTS_PER_S, is_headline=True),
        _rate("input_tokens_per_s", "input tokens/s", lens, TOKENS_PER_S),
        _rate("total_tokens_per_s", "total tokens/s", lens, TOKENS_PER_S),
        _rate("output_tokens_per_s_per_device", "output tokens/s/device", lens, TOKENS_PER_S),
        _rate("total_tokens_per_s_per_device", "total tokens/s/device", lens, TOKENS_PER_S),
        _rate("slow_tokens_per_s_per_request", "slow tokens/s/request", lens, TOKENS_PER_S, per_request=True),
        Metric("mean_in_flight", "in flight", lens, COUNT, "sustained"),
        *_times("ttft_from_send_s", "TTFT from send", lens),
        *_times("ttfat_s", "TTFAT", lens),
        *_times("e2e_from_send_s", "latency from send", lens),
        *_times("icl_s", "ICL", lens),
        *_times("hold_s", "hold", lens, ("p50", "p99")),
        *_times("queued_s", "queued", lens, ("mean", "p99")),
        *_times("blocked_s", "blocked", lens, ("mean", "p99")),
        *_times("gathering_s", "gathering", lens, ("mean", "p99")),
        _share("slo_attainment", "SLO attainment", lens, better="more", joins="share", of_slo=True, head="within SLO"),
        _share("ttft_s_within", "TTFT within limit", lens, better="more", joins="share", of_slo=True),
        _share("tpot_s_within", "TPOT within limit", lens, better="more", joins="share", of_slo=True),
        _share("itl_s_within", "ITL within limit", lens, better="more", joins="share", of_slo=True),
        _share("e2e_latency_s_within", "latency within limit", lens, better="more", joins="share", of_slo=True),
        _share("fluidity_index", "fluidity index", lens, better="more"),
        _share("fluid_share", "fluid answers", lens, better="more", joins="share", of_slo=True),
        *_times("schedule_lag_s", "schedule lag", lens, ("p50", "p99"), "client"),
        *_times("client_lag_s", "client lag", lens, ("p50", "p99"), "client"),
        *_times("read_lag_s", "read lag", lens, ("p99",), "client"),
        Metric("clock_bound_s", "clock bound", lens, SECONDS, "client", "less"),
        Metric("client_load", "client load", lens, RATIO, "client", "less"),
        Metric("merged_share", "merged reads", lens, RATIO, "client", "less", most=1.0),
        Metric("arrival_distance", "arrival distance", lens, RATIO, "client", "less"),
        Metric("arrival_dispersion", "arrival dispersion", lens, COUNT, "client"),
    ]


def _server() -> list[Metric]:
    """The server's own figures, if it has a metrics page."""
    lens: MetricLens = "inference"
    return [
        Metric("server_running_mean", "running requests", lens, COUNT, "server"),
        Metric("server_running_max", "most running requests", lens, COUNT, "server"),
        Metric("server_waiting_mean", "waiting requests", lens, COUNT, "server", "less"),
        Metric("server_waiting_max", "most waiting requests", lens, COUNT, "server", "less"),
        Metric("server_kv_use_mean", "KV use", lens, RATIO, "server"),
        Metric("server_kv_use_max", "most KV use", lens, RATIO, "server"),
        Metric("server_preemptions", "preemptions", lens, COUNT, "server", "less"),
        Metric("prefix_hit_ratio", "prefix hits", lens, RATIO, "server", most=1.0),
        Metric("planned_hit_ratio", "prefix hits planned", lens, RATIO, "server"),
        Metric("draft_acceptance", "drafts accepted", lens, RATIO, "server", "more", most=1.0),
        Metric("tokens_per_iteration", "tokens/step", lens, COUNT, "server", "more"),
        Metric("batching_efficiency", "batching efficiency", lens, RATIO, "server", "more"),
        Metric("server_ttft_s_mean", "server TTFT mean", lens, SECONDS, "server", "less"),
        Metric("server_queue_s_mean", "server queue mean", lens, SECONDS, "server", "less"),
        Metric("server_prefill_s_mean", "server prefill mean", lens, SECONDS, "server", "less"),
        Metric("server_decode_s_mean", "server decode mean", lens, SECONDS, "server", "less"),
        Metric("server_e2e_s_mean", "server latency mean", lens, SECONDS, "server", "less"),
        Metric("server_itl_s_mean", "server ITL mean", lens, SECONDS, "server", "less"),
        Metric("server_tokens_agreement", "tokens server/client", lens, RATIO, "server", head="tokens"),
        Metric("server_requests_agreement", "requests server/client", lens, RATIO, "server"),
        Metric("server_ttft_agreement", "TTFT server/client", lens, RATIO, "server"),
    ]


def _startup() -> list[Metric]:
    """Load and cold-start times of a launched server, or of an engine in this process."""
    lens: MetricLens = "inference"
    return [
        Metric("start_ready_s", "start to ready", lens, SECONDS, "startup", "less"),
        Metric("start_weights_s", "loading weights", lens, SECONDS, "startup", "less"),
        Metric("start_load_s", "loading the engine", lens, SECONDS, "startup", "less"),
        Metric("start_first_token_s", "first TTFT after start", lens, SECONDS, "startup", "less"),
        Metric("start_second_token_s", "second TTFT after start", lens, SECONDS, "startup", "less"),
        Metric("start_first_answer_s", "first answer after start", lens, SECONDS, "startup", "less"),
        Metric("start_second_answer_s", "second answer after start", lens, SECONDS, "startup", "less"),
        Metric("start_cached_share", "page cache at start", lens, RATIO, "startup"),
    ]


def _collective() -> list[Metric]:
    lens: MetricLens = "collective"
    return [
        _rate("bus_bytes_per_s", "bus bandwidth", lens, BYTES_PER_S, is_headline=True, head="busbw"),
        _rate("algorithm_bytes_per_s", "algorithm bandwidth", lens, BYTES_PER_S, head="algbw"),
        _rate("exchanges_per_s", "exchanges/s", lens, EXCHANGES_PER_S),
        Metric("peak_exchanges_per_s", "peak exchanges/s", lens, EXCHANGES_PER_S, "sustained"),
        *_times("exchange_s", "exchange", lens),
    ]


def _both() -> list[Metric]:
    return [
        Metric("retention", "retention", "both", RATIO, "sustained", "more", most=1.0, head="of peak"),
        _share("failed_share", "failed", "both", better="less", joins="share"),
        _bytes("weights_bytes", "weights", "both"),
        _bytes("adapter_bytes", "adapter weights", "both"),
        _bytes("peak_bytes", "peak memory", "both", head="memory"),
        Metric("mean_power_w", "mean power", "both", WATTS, "energy", "less", of_pace=False),
    ]


def _peers() -> list[Metric]:
    """Other tools' names: computed on demand (`peers`), never beside our own in a table."""
    return [Metric(id, label, "inference", unit, "peer") for id, (label, unit) in peer_names().items()]


METRICS: dict[str, Metric] = {
    metric.id: metric
    for metric in _training() + _inference() + _serving() + _server() + _startup() + _collective() + _both() + _peers()
}
HEADLINE: dict[str, tuple[str, ...]] = {
    lens: tuple(id for id, metric in METRICS.items() if metric.lens == lens and metric.is_headline)
    for lens in ("training", "inference", "collective")
}
"""The sustained rate that stands first in each lens; the first one present is it."""

_GROUPS_OF_PACE = ("sustained", "time", "efficiency", "energy")


def definition_of(id: str) -> Metric:
    """The row of a metric; for one that only an executor of somebody else knows, a row of defaults."""
    return METRICS.get(id) or Metric(id, id, "both", "", "other")


def is_of_pace(id: str, *, rate_is_given: bool) -> bool:
    """Test for a metric that becomes another one when each row takes longer: rates, times, shares of a ceiling, energy.

    `rate_is_given`: requests come on a schedule, so that latencies and the speed of each request do, and no rate does.
    """
    metric = definition_of(id)
    if metric.better == "none" or not metric.of_pace:
        return False
    return metric.group == "time" or metric.per_request if rate_is_given else metric.group in _GROUPS_OF_PACE


def is_impossible(id: str, estimate: Estimate) -> bool:
    """Test for a share of a ceiling that is above it."""
    return bool(definition_of(id).ceiling) and estimate.value is not None and estimate.value > 1
