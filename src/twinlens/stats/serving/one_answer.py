"""Metrics of answers in one piece: the rates of what they hold, and the latencies of tokens that they do not have."""

from __future__ import annotations

import numpy as np

from twinlens.record.estimate import Estimate
from twinlens.record.request import Requests
from twinlens.spec.workload.task import Classify, Task, items_per_request
from twinlens.stats.serving.flow import amount_in, edges_of, flow
from twinlens.stats.serving.window import Window
from twinlens.units import DOCUMENTS_PER_S, IMAGES_PER_S, SECONDS, TEXTS_PER_S, TOKENS_PER_S

_ITEMS = {
    "embed": ("embedded_texts_per_s", TEXTS_PER_S),
    "rerank": ("reranked_documents_per_s", DOCUMENTS_PER_S),
    "classify": ("inference_images_per_s", IMAGES_PER_S),
}
_ONE_PIECE = "an answer in one piece has no tokens to time"


def item_rates(requests: Requests, window: Window, task: Task) -> dict[str, Estimate]:
    """Texts, documents or images of the answers that ended in the window, and tokens of the texts in them."""
    name, unit = _ITEMS[task.kind]
    names = (name,) if isinstance(task, Classify) else (name, "input_tokens_per_s")
    if window.end_ns <= window.begin_ns:
        return {each: Estimate.absent(unit, "the window has no length") for each in names}
    edges = edges_of(window)
    ended_ns = requests.end_ns[requests.ok]
    answers = amount_in(ended_ns, np.ones(ended_ns.size), edges)
    seen, each = int(answers.sum()), items_per_request(task)
    rates = {name: flow(answers * each, edges, unit, f"{each} in each answer that ended in the window", seen)}
    if not isinstance(task, Classify):
        tokens = amount_in(ended_ns, requests.input_tokens[requests.ok], edges)
        what = "input tokens of answers that ended in the window, by the server's usage, or as asked where it says none"
        rates["input_tokens_per_s"] = flow(tokens, edges, TOKENS_PER_S, what, seen)
    return rates


def no_tokens() -> dict[str, Estimate]:
    """Latencies of tokens, absent with the reason."""
    names = [f"{kind}_{q}" for kind in ("ttft_s", "tpot_s", "itl_s") for q in ("p50", "p90", "p99")]
    return {name: Estimate.absent(SECONDS, _ONE_PIECE) for name in names}
