"""Every metric that may be printed: its id, its label, its unit, its lens. Each has a page (`twinlens explain ID`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from twinlens import units
from twinlens.stats.peers.names import peer_names

MetricLens = Literal["training", "inference", "collective", "both"]


@dataclass(frozen=True, slots=True)
class Metric:
    """`better`: which way is good, or "none" where neither is. `group`: the table it stands in."""

    id: str
    label: str
    unit: str
    lens: MetricLens
    group: Literal[
        "sustained", "time", "efficiency", "memory", "quality", "energy", "share", "client", "server", "startup", "peer"
    ]
    better: Literal["more", "less", "none"] = "none"


def _training() -> list[Metric]:
    lens: MetricLens = "training"
    return [
        Metric("training_tokens_per_s", "tokens/s", units.TOKENS_PER_S, lens, "sustained", "more"),
        Metric("training_images_per_s", "images/s", units.IMAGES_PER_S, lens, "sustained", "more"),
        Metric("training_samples_per_s", "samples/s", units.SAMPLES_PER_S, lens, "sustained", "more"),
        Metric("training_peak_tokens_per_s", "peak tokens/s", units.TOKENS_PER_S, lens, "sustained"),
        Metric("training_peak_images_per_s", "peak images/s", units.IMAGES_PER_S, lens, "sustained"),
        Metric("training_peak_samples_per_s", "peak samples/s", units.SAMPLES_PER_S, lens, "sustained"),
        Metric("step_s_p50", "step p50", units.SECONDS, lens, "time", "less"),
        Metric("step_s_p90", "step p90", units.SECONDS, lens, "time", "less"),
        Metric("step_s_p99", "step p99", units.SECONDS, lens, "time", "less"),
        Metric("data_share", "data", units.RATIO, lens, "share"),
        Metric("forward_share", "forward", units.RATIO, lens, "share"),
        Metric("backward_share", "backward", units.RATIO, lens, "share"),
        Metric("communicate_share", "communicate", units.RATIO, lens, "share"),
        Metric("optimize_share", "optimizer", units.RATIO, lens, "share"),
        Metric("checkpoint_share", "save", units.RATIO, lens, "share", "less"),
        Metric("straggler_share", "straggler", units.RATIO, lens, "share", "less"),
        Metric("unattributed_share", "unattributed", units.RATIO, lens, "share"),
        Metric("mfu", "MFU", units.RATIO, lens, "efficiency", "more"),
        Metric("hfu", "HFU", units.RATIO, lens, "efficiency", "more"),
        Metric("mfu_datasheet", "MFU of datasheet", units.RATIO, lens, "efficiency", "more"),
        Metric("mfu_own_shapes", "MFU at own shapes", units.RATIO, lens, "efficiency", "more"),
        Metric("flop_per_s", "model FLOP/s", units.FLOP_PER_S, lens, "efficiency", "more"),
        Metric("flop_coverage", "FLOP coverage", units.RATIO, lens, "efficiency", "more"),
        Metric("trainable_parameters", "trainable", units.COUNT, lens, "memory", "less"),
        Metric("trainable_share", "trained", units.RATIO, lens, "memory", "less"),
        Metric("gradients_bytes", "gradients", units.BYTES, lens, "memory", "less"),
        Metric("optimizer_bytes", "optimizer state", units.BYTES, lens, "memory", "less"),
        Metric("activations_bytes", "activations", units.BYTES, lens, "memory", "less"),
        Metric("bytes_per_parameter", "bytes/parameter", units.BYTES, lens, "memory", "less"),
        Metric("final_loss", "final loss", units.NATS, lens, "quality", "less"),
        Metric("loss_gap", "gap to entropy rate", units.NATS, lens, "quality", "less"),
        Metric("time_to_target_s", "time to target", units.SECONDS, lens, "quality", "less"),
        Metric("samples_to_target", "samples to target", units.COUNT, lens, "quality", "less"),
        Metric("training_tokens_per_s_between_saves", "tokens/s between saves", units.TOKENS_PER_S, lens, "sustained"),
        Metric("training_images_per_s_between_saves", "images/s between saves", units.IMAGES_PER_S, lens, "sustained"),
        Metric(
            "training_samples_per_s_between_saves", "samples/s between saves", units.SAMPLES_PER_S, lens, "sustained"
        ),
        *_of_saves(),
        Metric("energy_per_step_j", "energy/step", units.JOULES, lens, "energy", "less"),
        Metric("energy_per_token_j", "energy/token", units.JOULES, lens, "energy", "less"),
        Metric("energy_to_target_j", "energy to target", units.JOULES, lens, "energy", "less"),
        Metric("energy_to_completion_j", "energy of the run", units.JOULES, lens, "energy", "less"),
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
    losses = {
        "startup": "start-up", "data": "waiting for data", "checkpoint": "saves", "restart": "restart",
        "repeat": "repeated steps", "evaluation": "evaluation", "other": "other",
    }  # fmt: skip
    return [
        *(Metric(id, label, units.SECONDS, lens, "time", "less") for id, label in times.items()),
        Metric("save_bytes", "size of a save", units.BYTES, lens, "memory", "less"),
        Metric("save_bytes_per_s", "save rate", units.BYTES_PER_S, lens, "efficiency", "more"),
        Metric("repeated_steps", "steps repeated", units.COUNT, lens, "share", "less"),
        Metric("restarts_used", "restarts used", units.COUNT, lens, "share", "less"),
        Metric("training_goodput", "training goodput", units.RATIO, lens, "share", "more"),
        Metric("useful_steps_per_s", "useful steps/s", units.STEPS_PER_S, lens, "share", "more"),
        *(
            Metric(f"lost_{part}_share", f"lost to {label}", units.RATIO, lens, "share", "less")
            for part, label in losses.items()
        ),
    ]


def _inference() -> list[Metric]:
    lens: MetricLens = "inference"
    return [
        Metric("output_tokens_per_s", "output tokens/s", units.TOKENS_PER_S, lens, "sustained", "more"),
        Metric("peak_output_tokens_per_s", "peak tokens/s", units.TOKENS_PER_S, lens, "sustained"),
        Metric("inference_images_per_s", "images/s", units.IMAGES_PER_S, lens, "sustained", "more"),
        Metric("peak_inference_images_per_s", "peak images/s", units.IMAGES_PER_S, lens, "sustained"),
        Metric("requests_per_s", "requests/s", units.REQUESTS_PER_S, lens, "sustained", "more"),
        Metric("prefill_tokens_per_s", "prefill tokens/s", units.TOKENS_PER_S, lens, "sustained", "more"),
        Metric("decode_tokens_per_s", "decode tokens/s", units.TOKENS_PER_S, lens, "sustained", "more"),
        Metric("tokens_per_s_per_request", "tokens/s/request", units.TOKENS_PER_S, lens, "sustained", "more"),
        Metric("ttft_s_p50", "TTFT p50", units.SECONDS, lens, "time", "less"),
        Metric("ttft_s_p90", "TTFT p90", units.SECONDS, lens, "time", "less"),
        Metric("ttft_s_p99", "TTFT p99", units.SECONDS, lens, "time", "less"),
        Metric("tpot_s_p50", "TPOT p50", units.SECONDS, lens, "time", "less"),
        Metric("tpot_s_p90", "TPOT p90", units.SECONDS, lens, "time", "less"),
        Metric("tpot_s_p99", "TPOT p99", units.SECONDS, lens, "time", "less"),
        Metric("itl_s_p50", "ITL p50", units.SECONDS, lens, "time", "less"),
        Metric("itl_s_p90", "ITL p90", units.SECONDS, lens, "time", "less"),
        Metric("itl_s_p99", "ITL p99", units.SECONDS, lens, "time", "less"),
        Metric("e2e_latency_s_p50", "latency p50", units.SECONDS, lens, "time", "less"),
        Metric("e2e_latency_s_p90", "latency p90", units.SECONDS, lens, "time", "less"),
        Metric("e2e_latency_s_p99", "latency p99", units.SECONDS, lens, "time", "less"),
        Metric("mbu", "MBU", units.RATIO, lens, "efficiency", "more"),
        Metric("matvec_share", "of mat-vec rate", units.RATIO, lens, "efficiency", "more"),
        Metric("prefill_mfu", "prefill MFU", units.RATIO, lens, "efficiency", "more"),
        Metric("kv_bytes", "KV cache", units.BYTES, lens, "memory", "less"),
        Metric("top1_agreement", "top-1 agreement", units.RATIO, lens, "quality", "more"),
        Metric("kl_nats", "KL per token", units.NATS, lens, "quality", "less"),
        Metric("kl_top_nats", "KL of top tokens", units.NATS, lens, "quality", "less"),
        Metric("answer_agreement", "answer agreement", units.RATIO, lens, "quality", "more"),
        Metric("greedy_agreement", "greedy agreement", units.RATIO, lens, "quality", "more"),
        Metric("perplexity_change", "perplexity change", units.RATIO, lens, "quality", "less"),
        Metric("energy_per_request_j", "energy/request", units.JOULES, lens, "energy", "less"),
        Metric("energy_per_output_token_j", "energy/output token", units.JOULES, lens, "energy", "less"),
    ]


def _serving() -> list[Metric]:
    """Metrics that only a run under load has, beside most of the above."""
    lens: MetricLens = "inference"
    return [
        Metric("offered_requests_per_s", "offered requests/s", units.REQUESTS_PER_S, lens, "sustained"),
        Metric("goodput_per_s", "goodput", units.REQUESTS_PER_S, lens, "sustained", "more"),
        Metric("embedded_texts_per_s", "texts/s", units.TEXTS_PER_S, lens, "sustained", "more"),
        Metric("reranked_documents_per_s", "documents/s", units.DOCUMENTS_PER_S, lens, "sustained", "more"),
        Metric("input_tokens_per_s", "input tokens/s", units.TOKENS_PER_S, lens, "sustained", "more"),
        Metric("total_tokens_per_s", "total tokens/s", units.TOKENS_PER_S, lens, "sustained", "more"),
        Metric(
            "output_tokens_per_s_per_device", "output tokens/s/device", units.TOKENS_PER_S, lens, "sustained", "more"
        ),
        Metric("total_tokens_per_s_per_device", "total tokens/s/device", units.TOKENS_PER_S, lens, "sustained", "more"),
        Metric("slow_tokens_per_s_per_request", "slow tokens/s/request", units.TOKENS_PER_S, lens, "sustained", "more"),
        Metric("mean_in_flight", "in flight", units.COUNT, lens, "sustained"),
        *_times("ttft_from_send_s", "TTFT from send", ("p50", "p90", "p99")),
        *_times("ttfat_s", "TTFAT", ("p50", "p90", "p99")),
        *_times("e2e_from_send_s", "latency from send", ("p50", "p90", "p99")),
        *_times("icl_s", "ICL", ("p50", "p90", "p99")),
        *_times("hold_s", "hold", ("p50", "p99")),
        *_times("queued_s", "queued", ("mean", "p99")),
        *_times("blocked_s", "blocked", ("mean", "p99")),
        *_times("gathering_s", "gathering", ("mean", "p99")),
        Metric("slo_attainment", "SLO attainment", units.RATIO, lens, "share", "more"),
        Metric("ttft_s_within", "TTFT within limit", units.RATIO, lens, "share", "more"),
        Metric("tpot_s_within", "TPOT within limit", units.RATIO, lens, "share", "more"),
        Metric("itl_s_within", "ITL within limit", units.RATIO, lens, "share", "more"),
        Metric("e2e_latency_s_within", "latency within limit", units.RATIO, lens, "share", "more"),
        Metric("fluidity_index", "fluidity index", units.RATIO, lens, "share", "more"),
        Metric("fluid_share", "fluid answers", units.RATIO, lens, "share", "more"),
        *_times("schedule_lag_s", "schedule lag", ("p50", "p99"), "client"),
        *_times("client_lag_s", "client lag", ("p50", "p99"), "client"),
        *_times("read_lag_s", "read lag", ("p99",), "client"),
        Metric("clock_bound_s", "clock bound", units.SECONDS, lens, "client", "less"),
        Metric("client_load", "client load", units.RATIO, lens, "client", "less"),
        Metric("merged_share", "merged reads", units.RATIO, lens, "client", "less"),
        Metric("arrival_distance", "arrival distance", units.RATIO, lens, "client", "less"),
        Metric("arrival_dispersion", "arrival dispersion", units.COUNT, lens, "client"),
    ]


def _server() -> list[Metric]:
    """The server's own figures, if it has a metrics page."""
    lens: MetricLens = "inference"
    return [
        Metric("server_running_mean", "running requests", units.COUNT, lens, "server"),
        Metric("server_running_max", "most running requests", units.COUNT, lens, "server"),
        Metric("server_waiting_mean", "waiting requests", units.COUNT, lens, "server", "less"),
        Metric("server_waiting_max", "most waiting requests", units.COUNT, lens, "server", "less"),
        Metric("server_kv_use_mean", "KV use", units.RATIO, lens, "server"),
        Metric("server_kv_use_max", "most KV use", units.RATIO, lens, "server"),
        Metric("server_preemptions", "preemptions", units.COUNT, lens, "server", "less"),
        Metric("prefix_hit_ratio", "prefix hits", units.RATIO, lens, "server"),
        Metric("planned_hit_ratio", "prefix hits planned", units.RATIO, lens, "server"),
        Metric("draft_acceptance", "drafts accepted", units.RATIO, lens, "server", "more"),
        Metric("tokens_per_iteration", "tokens/step", units.COUNT, lens, "server", "more"),
        Metric("batching_efficiency", "batching efficiency", units.RATIO, lens, "server", "more"),
        Metric("server_ttft_s_mean", "server TTFT mean", units.SECONDS, lens, "server", "less"),
        Metric("server_queue_s_mean", "server queue mean", units.SECONDS, lens, "server", "less"),
        Metric("server_prefill_s_mean", "server prefill mean", units.SECONDS, lens, "server", "less"),
        Metric("server_decode_s_mean", "server decode mean", units.SECONDS, lens, "server", "less"),
        Metric("server_e2e_s_mean", "server latency mean", units.SECONDS, lens, "server", "less"),
        Metric("server_itl_s_mean", "server ITL mean", units.SECONDS, lens, "server", "less"),
        Metric("server_tokens_agreement", "tokens server/client", units.RATIO, lens, "server"),
        Metric("server_requests_agreement", "requests server/client", units.RATIO, lens, "server"),
        Metric("server_ttft_agreement", "TTFT server/client", units.RATIO, lens, "server"),
    ]


def _startup() -> list[Metric]:
    """Load and cold-start times of a launched server, or of an engine in this process."""
    lens: MetricLens = "inference"
    return [
        Metric("start_ready_s", "start to ready", units.SECONDS, lens, "startup", "less"),
        Metric("start_weights_s", "loading weights", units.SECONDS, lens, "startup", "less"),
        Metric("start_load_s", "loading the engine", units.SECONDS, lens, "startup", "less"),
        Metric("start_first_token_s", "first TTFT after start", units.SECONDS, lens, "startup", "less"),
        Metric("start_second_token_s", "second TTFT after start", units.SECONDS, lens, "startup", "less"),
        Metric("start_first_answer_s", "first answer after start", units.SECONDS, lens, "startup", "less"),
        Metric("start_second_answer_s", "second answer after start", units.SECONDS, lens, "startup", "less"),
        Metric("start_cached_share", "page cache at start", units.RATIO, lens, "startup"),
    ]


def _times(name: str, label: str, wanted: tuple[str, ...], group: Literal["time", "client"] = "time") -> list[Metric]:
    return [Metric(f"{name}_{q}", f"{label} {q}", units.SECONDS, "inference", group, "less") for q in wanted]


def _collective() -> list[Metric]:
    lens: MetricLens = "collective"
    return [
        Metric("bus_bytes_per_s", "bus bandwidth", units.BYTES_PER_S, lens, "sustained", "more"),
        Metric("algorithm_bytes_per_s", "algorithm bandwidth", units.BYTES_PER_S, lens, "sustained", "more"),
        Metric("exchanges_per_s", "exchanges/s", units.EXCHANGES_PER_S, lens, "sustained", "more"),
        Metric("peak_exchanges_per_s", "peak exchanges/s", units.EXCHANGES_PER_S, lens, "sustained"),
        Metric("exchange_s_p50", "exchange p50", units.SECONDS, lens, "time", "less"),
        Metric("exchange_s_p90", "exchange p90", units.SECONDS, lens, "time", "less"),
        Metric("exchange_s_p99", "exchange p99", units.SECONDS, lens, "time", "less"),
    ]


def _both() -> list[Metric]:
    return [
        Metric("retention", "retention", units.RATIO, "both", "sustained", "more"),
        Metric("failed_share", "failed", units.RATIO, "both", "share", "less"),
        Metric("weights_bytes", "weights", units.BYTES, "both", "memory", "less"),
        Metric("adapter_bytes", "adapter weights", units.BYTES, "both", "memory", "less"),
        Metric("peak_bytes", "peak memory", units.BYTES, "both", "memory", "less"),
        Metric("mean_power_w", "mean power", units.WATTS, "both", "energy", "less"),
    ]


def _peers() -> list[Metric]:
    """Other tools' names: computed on demand (`peers`), never beside our own in a table."""
    return [Metric(id, label, unit, "inference", "peer") for id, (label, unit) in peer_names().items()]


METRICS: dict[str, Metric] = {
    metric.id: metric
    for metric in _training() + _inference() + _serving() + _server() + _startup() + _collective() + _both() + _peers()
}
HEADLINE = {
    "training": ("training_tokens_per_s", "training_images_per_s", "training_samples_per_s"),
    "inference": (
        "output_tokens_per_s", "inference_images_per_s", "embedded_texts_per_s", "reranked_documents_per_s",
    ),
    "collective": ("bus_bytes_per_s",),
}  # fmt: skip
"""The sustained rate that stands first in each lens; the first one present is it."""

_OF_OTHER_THINGS = ("save_", "restore_", "recovery_", "flop_coverage", "energy_to_", "mean_power_w")


def is_of_pace(id: str, *, rate_is_given: bool) -> bool:
    """Whether a metric becomes another one when each row takes longer: rates, times, shares of a ceiling, energy.

    `rate_is_given`: requests come on a schedule, so that latencies and the speed of each request do, and no rate does.
    """
    metric = METRICS.get(id)
    if metric is None or metric.better == "none" or id.startswith(_OF_OTHER_THINGS):
        return False
    if rate_is_given:
        return metric.group == "time" or id.endswith("_per_request")
    return metric.group in ("sustained", "time", "efficiency", "energy")
