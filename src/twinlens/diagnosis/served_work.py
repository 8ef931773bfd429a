"""Work of a server's steps: batches from the requests that overlapped, lengths from the rows, bytes and FLOP by theory.

A batching server makes one token for each request that decodes in a step, so the gap between two tokens of a request is
one step, and the requests that decode at that moment are its batch. Prompts that are computed in the same step are not
counted as its work: shares of ceilings are lower bounds.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from twinlens.diagnosis.phase import Phase, known
from twinlens.record.estimate import Estimate
from twinlens.record.executor.facts import Facts
from twinlens.record.request import UNCOUNTED, Requests
from twinlens.spec.model.shape import DecoderShape
from twinlens.spec.precision import AS_SERVED, Precision
from twinlens.theory.flop import decode_flop, prefill_flop
from twinlens.theory.traffic import activation_elements_moved, decode_step_bytes, prefill_bytes
from twinlens.theory.weight_format import Widths, widths

_NO_MODEL = "the model behind the server is not known here, so neither is the work of one of its steps"
_NO_FORMAT = "the server does not say its formats, so the bytes of one of its steps are not known"
_SPECULATES = "a server that speculates makes several tokens in a step, so gaps between tokens are not steps"
_SEVERAL = "how the server splits the model over its {} devices is not known"
_REPLICAS = "requests do not say which of {} replicas had them, so the batch of a step of one is not known"
_NO_STEP = "no answer has a second token"
_NO_PREFILL = "the server does not say how long prefill takes"
_HITS_UNKNOWN = "the server does not say how much of each prompt its prefix cache held"
_WIDEST = 4.0  # bytes of an activation: an upper bound of traffic takes the widest format


def served_phases(
    requests: Requests,
    rows: np.ndarray,
    metrics: Mapping[str, Estimate],
    shape: DecoderShape | None,
    regime: Precision,
    facts: Facts | None,
) -> tuple[tuple[Phase, Phase], float | None]:
    """Prefill of one request and one decode step, and how many requests decode together; a phase whose work or time is
    not known has the reason. `rows`: indexes of the window."""
    good = rows[requests.ok[rows] & (np.diff(requests.offsets)[rows] > 1)]
    together = decoding_together(requests, good) if good.size else None
    uncounted = UNCOUNTED if np.isnan(requests.input_tokens[rows]).any() else None
    reason = _why_not(metrics, shape, regime, facts) or uncounted
    if reason is not None or shape is None:
        phases = tuple(
            Phase(name, name, None, None, None, reason=reason or _NO_MODEL) for name in ("prefill", "decode")
        )
        return (phases[0], phases[1]), together
    prompt = float(requests.input_tokens[rows].mean()) if rows.size else 0.0
    hits = _hit_ratio(metrics, facts)
    kept = widths(shape, regime, facts.executor.value("precision.head") if facts else None)
    return (_prefill(prompt, hits, metrics, shape, kept), _decode(requests, good, together, shape, kept)), together


def decoding_together(requests: Requests, rows: np.ndarray) -> float:
    """How many of `rows` decode at once, as a decoding request sees it: Σ n² dt / Σ n dt, so at least 1."""
    begin_ns, end_ns = requests.first_chunk_ns()[rows], requests.last_chunk_ns()[rows]
    times = np.concatenate([begin_ns, end_ns])
    order = np.argsort(times, kind="stable")
    number = np.cumsum(np.repeat([1.0, -1.0], rows.size)[order])[:-1]
    spans = np.diff(times[order])
    seen = float((number * spans).sum())
    return float((number * number * spans).sum()) / seen if seen > 0 else 1.0


def _why_not(
    metrics: Mapping[str, Estimate], shape: DecoderShape | None, regime: Precision, facts: Facts | None
) -> str | None:
    if shape is None:
        return _NO_MODEL
    if regime == AS_SERVED or (facts and any(check.verdict == "differs" for check in facts.precision)):
        return _NO_FORMAT
    if known(metrics, "draft_acceptance") is not None:
        return _SPECULATES
    replicas = facts.executor.value("serving.replicas") if facts else None
    if isinstance(replicas, int) and replicas > 1:
        return _REPLICAS.format(replicas)
    boards = facts.executor.value("accelerator.uuid") if facts else None
    return _SEVERAL.format(len(boards)) if isinstance(boards, list | tuple) and len(boards) > 1 else None


def _decode(requests: Requests, good: np.ndarray, together: float | None, shape: DecoderShape, kept: Widths) -> Phase:
    steps = float((requests.output_tokens[good] - 1).sum())
    spent_s = float((requests.last_chunk_ns()[good] - requests.first_chunk_ns()[good]).sum()) / 1e9
    if together is None or steps <= 0 or spent_s <= 0:
        return Phase("decode", "decode", None, None, None, reason=_NO_STEP)
    # The context that a step sees, each request counted with its tokens.
    answer = requests.output_tokens[good]
    context = float(((requests.input_tokens[good] + answer / 2) * answer).sum() / answer.sum())
    least = float(decode_step_bytes(shape, context, together, kept.weight_bits, kept.kv_bytes, kept.head_bits))
    most = least + together * activation_elements_moved(shape) * _WIDEST
    flop = float(decode_flop(shape, context)) * together
    return Phase("decode", "decode", spent_s / steps, flop, least, most)


def _hit_ratio(metrics: Mapping[str, Estimate], facts: Facts | None) -> float | None:
    """The share of prompt tokens that the server found in its prefix cache: of the window, else of the whole run. None
    where it does not say; 0 where it says that its cache is off."""
    told = metrics.get("prefix_hit_ratio")
    if told is not None and told.value is not None:
        return told.value
    of_run = facts.executor.value("decoding.cache_hit_ratio") if facts else None
    if isinstance(of_run, int | float):
        return float(of_run)
    return 0.0 if facts and facts.executor.value("serving.prefix_cache") is False else None


def _prefill(
    prompt: float, hits: float | None, metrics: Mapping[str, Estimate], shape: DecoderShape, kept: Widths
) -> Phase:
    """Of one prompt alone, without what the server found in its prefix cache. Where `hits` is not known, FLOP are at
    most those of the whole prompt, and bytes at least those of its last token, which is always computed."""
    seconds = known(metrics, "server_prefill_s_mean")
    if seconds is None or prompt < 1:
        return Phase("prefill", "prefill", None, None, None, reason=_NO_PREFILL)
    tokens = max(1.0, prompt * (1 - (hits or 0.0)))
    whole, least = (
        float(prefill_bytes(shape, many, 1, kept.weight_bits, kept.kv_bytes, kept.head_bits))
        for many in (tokens, tokens if hits is not None else 1.0)
    )
    most = whole + tokens * activation_elements_moved(shape) * _WIDEST
    flop = float(prefill_flop(shape, tokens))
    return Phase(
        "prefill", "prefill", seconds, flop, least, most, at_most_because=_HITS_UNKNOWN if hits is None else ""
    )
