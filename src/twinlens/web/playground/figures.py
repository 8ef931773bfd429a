"""Figures of one request, or the spread of several at once; and text of a model as text alone."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from twinlens.units import show
from twinlens.web.playground.upstream import Exchange

_LEAST_SPREAD = 3


def figures(exchanges: Sequence[Exchange]) -> list[dict[str, Any]]:
    """Each figure by name: its value in words, n, and why there is none. Of several at once the median, the smallest
    and the largest of those that came whole."""
    came = [each for each in exchanges if each.chunk_ns and each.error in (None, "stopped")]
    lost = len(exchanges) - len(came)
    why = "" if came else next((each.error or "nothing came" for each in exchanges), "nothing was asked")
    rows = [
        _row("ttft", "TTFT", "s", [(each.chunk_ns[0] - each.sent_ns) / 1e9 for each in came], why),
        _row("tpot", "TPOT", "s", [tpot for each in came if (tpot := tpot_s(each)) is not None],
             why or "an answer of one token, or one that came in one piece, has no time between tokens"),
        _row("rate", "output tokens/s", "tokens/s", [rate for each in came if (rate := _rate(each)) is not None], why),
        _row("tokens", "output tokens", "", [float(each.tokens) for each in came], why),
    ]  # fmt: skip
    if len(exchanges) > 1 and came:
        begin, end = min(each.sent_ns for each in came), max(each.end_ns for each in came)
        total = sum(each.tokens for each in came) / max(1e-9, (end - begin) / 1e9)
        rows.append({"id": "all", "name": f"all {len(came)} together", "value": show(total, "tokens/s"), "n": 1,
                     "why": ""})  # fmt: skip
    if lost and came:
        rows.append({"id": "lost", "name": "without an answer", "value": f"{lost} of {len(exchanges)}", "n": lost,
                     "why": next(each.error or "" for each in exchanges if each not in came)})  # fmt: skip
    return rows


def tpot_s(exchange: Exchange) -> float | None:
    """The time per output token after the first; None of an answer that has no second time."""
    span_s = (exchange.chunk_ns[-1] - exchange.chunk_ns[0]) / 1e9 if exchange.chunk_ns else 0.0
    return span_s / (exchange.tokens - 1) if exchange.tokens > 1 and span_s > 0 else None


def cost(exchange: Exchange) -> dict[str, Any]:
    """What the answer costs by the prices that were typed, per million tokens; and why not."""
    wanted = exchange.wanted
    row = {"id": "cost", "name": "cost of this answer, in the currency of the price", "value": "", "n": 0, "why": ""}
    if wanted.price_out is None:
        return row | {"why": "no price per million output tokens was given"}
    if wanted.price_in and exchange.prompt_tokens is None:
        return row | {"why": "the server does not say how many tokens the prompt had"}
    alone = "" if wanted.price_in is not None else "its output tokens alone: no price of input tokens was given"
    amount = (exchange.tokens * wanted.price_out + (exchange.prompt_tokens or 0) * (wanted.price_in or 0.0)) / 1e6
    return row | {"value": f"{amount:.6f}".rstrip("0").rstrip(".") or "0", "n": 1, "why": alone}


def _rate(exchange: Exchange) -> float | None:
    took_s = (exchange.end_ns - exchange.sent_ns) / 1e9
    return exchange.tokens / took_s if took_s > 0 else None


def _row(name: str, label: str, unit: str, values: Sequence[float], why: str) -> dict[str, Any]:
    if not values:
        return {"id": name, "name": label, "value": "", "n": 0, "why": why}
    said = _said(statistics.median(values), unit)
    if len(values) > 1:
        span = f"{_said(min(values), unit)} to {_said(max(values), unit)}"
        said = f"median {said} ({span})" if len(values) >= _LEAST_SPREAD else f"{span}"
    return {"id": name, "name": label, "value": said, "n": len(values), "why": "", "plain": statistics.median(values)}


def _said(value: float, unit: str) -> str:
    return show(value, unit) if unit else f"{value:g}"


_SHOWN = {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\n\t"} | {0x7F: "\u2421"}
_SHOWN |= {code: f"⟨U+{code:04X}⟩" for code in (*range(0x80, 0xA0), 0x61C, 0x200E, 0x200F, 0x2028, 0x2029,
                                                *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0xFEFF)}  # fmt: skip


def shown(text: str) -> str:
    """A model's text with its control characters as signs: none moves a cursor, and none turns the line around."""
    return text.translate(_SHOWN)
