"""Figures that other tools give of the same rows, one row each: tool, its own name, what of, and by which rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from twinlens.units import REQUESTS_PER_S, SECONDS, TOKENS_PER_S

MILLISECONDS = "ms"  # the others' unit, in their names only: ours are seconds
TOOLS = {
    "vllm": "vLLM", "guidellm": "GuideLLM", "aiperf": "AIPerf", "mlperf": "MLPerf", "genai_bench": "genai-bench",
    "inference_perf": "inference-perf",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class PeerRow:
    """`name`: the tool's, "{}" in the place of a statistic. `of`: values by their key in `variants`; `described`: the
    same in its letters. `rules`: the tool's word for a statistic, and how `variants` makes it. `weights`: values, too.
    """

    tool: str
    name: str
    of: str
    described: str
    rules: Mapping[str, str]
    unit: str = MILLISECONDS
    weights: str = ""


_WALL = "wall from the start to the last end, ramp and drain included"
_SENT = "wall from the first sent to the last end"
_GAPS = "gaps between chunks, pooled"
_TPOT, _CLOSED_TPOT = "(l - f) / (n - 1)", "(e - f) / (n - 1)"
_rate = partial(PeerRow, rules={"": "over wall"}, unit=TOKENS_PER_S)
_sent_rate = partial(PeerRow, described=_SENT, rules={"": "over sent"})
_mean = partial(PeerRow, rules={"": "mean"})
_vllm = partial(PeerRow, "vllm", rules={"mean": "mean", "median": "p50", "p99": "p99"})
_guidellm = partial(PeerRow, "guidellm", rules={"mean": "weighted mean", "p50": "cdf 0.5", "p99": "cdf 0.99"})
_aiperf = partial(PeerRow, "aiperf", rules={"avg": "mean", "p99": "p99"})
_adjusted = partial(PeerRow, "aiperf", rules={"p50": "adjusted 50", "p99": "adjusted 99"})
_mlperf = partial(PeerRow, "mlperf", rules={"": "rank 0.99"})
_seconds = partial(PeerRow, rules={"mean": "mean", "p99": "p99"}, unit=SECONDS)

PEER_ROWS = (
    _vllm("{}_ttft_ms", "f-a", "f - a"),
    _vllm("{}_tpot_ms", "tpot", "(l - f) / (n - 1), n > 1"),
    _vllm("{}_itl_ms", "gaps", _GAPS),
    _vllm("{}_e2el_ms", "l-a", "l - a"),
    _rate("vllm", "request_throughput", "requests", _WALL, unit=REQUESTS_PER_S),
    _rate("vllm", "output_throughput", "output", _WALL),
    _rate("vllm", "total_token_throughput", "tokens", _WALL),
    PeerRow("vllm", "request_goodput", "", _WALL, {"": "goodput"}, REQUESTS_PER_S),
    # Its time per output token includes the first; both it and its ITL are weighted by tokens.
    _guidellm("time_to_first_token_ms_{}", "f-a", "f - a", weights="ones"),
    _guidellm("time_per_output_token_ms_{}", "(l-a)/n", "(l - a) / n, weighted by n", weights="n"),
    _guidellm("inter_token_latency_ms_{}", "tpot", f"{_TPOT} per request, weighted by n - 1", weights="n-1"),
    _mean("guidellm", "request_latency_mean", "e-a", "e - a", unit=SECONDS),
    _sent_rate("guidellm", "requests_per_second", "requests", unit=REQUESTS_PER_S),
    # Its ITL is what vLLM calls TPOT; gaps between chunks are its ICL. `adj_*` counts failures as endless.
    _aiperf("time_to_first_token_{}", "f-a", "f - a"),
    _aiperf("inter_token_latency_{}", "tpot", "(latency - TTFT) / (n - 1)"),
    _aiperf("inter_chunk_latency_{}", "gaps", _GAPS),
    _aiperf("request_latency_{}", "l-a", "l - a"),
    _adjusted("adj_time_to_first_token_{}", "f-a", "f - a"),
    _adjusted("adj_request_latency_{}", "l-a", "l - a"),
    _mean("aiperf", "output_token_throughput_per_user_avg", "1/tpot", "1 / ITL, mean over requests", unit=TOKENS_PER_S),
    _sent_rate("aiperf", "output_token_throughput", "output", unit=TOKENS_PER_S),
    _sent_rate("aiperf", "request_throughput", "requests", unit=REQUESTS_PER_S),
    # From the scheduled time, as we do; percentiles are single order statistics.
    _mlperf("ttft_p99_ms", "f-s", "f - s"),
    _mlperf("tpot_p99_ms", "closed tpot", _CLOSED_TPOT),
    _mlperf("latency_p99_ms", "e-s", "e - s"),
    _mlperf("early_stopping_latency_p99_ms", "e-s", "e - s", rules={"": "early 0.99"}),
    # An answer ends where its loop does: at the last event, of usage or the end, and not with the last token.
    _seconds("genai_bench", "ttft_{}", "f-a", "f - a"),
    _seconds("genai_bench", "tpot_{}", "closed tpot", _CLOSED_TPOT),
    _seconds("genai_bench", "e2e_latency_{}", "e-a", "e - a"),
    _mean("genai_bench", "output_inference_speed_mean", "1/closed tpot", "1 / TPOT, mean over requests",
          unit=TOKENS_PER_S),
    # Tokens that share a chunk have gaps of 0 between them.
    _seconds("inference_perf", "time_to_first_token_{}", "f-a", "f - a"),
    _seconds("inference_perf", "time_per_output_token_{}", "tpot", _TPOT),
    _seconds("inference_perf", "normalized_time_per_output_token_{}", "(e-a)/n", "(e - a) / n"),
    _seconds("inference_perf", "inter_token_latency_{}", "token gaps", "gaps between tokens, 0 within a chunk, pooled"),
    _seconds("inference_perf", "request_latency_{}", "e-a", "e - a"),
)  # fmt: skip


def peer_names() -> dict[str, tuple[str, str]]:
    """Every id, `tool.its_name`, with a label and a unit."""
    named = ((row, row.name.format(word)) for row in PEER_ROWS for word in row.rules)
    return {f"{row.tool}.{name}": (f"{TOOLS[row.tool]} {name}", row.unit) for row, name in named}
