"""Two quotes at the same work: money per million output tokens of each, and the axes that are not equivalent."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from twinlens.record.finding import Finding
from twinlens.spec.money import Quote
from twinlens.theory.figure import Figure, Input, absent, assumed

_PLACES = Decimal("0.0001")
"""Hundredths of a cent: to these costs are rounded."""
AXES = ("model", "precision", "context", "slo", "commitment_months", "currency", "counts", "utilisation", "date")


@dataclass(frozen=True, slots=True)
class Quotes:
    """`costs` per million output tokens in their own currencies; `unlike`: axes that differ, or that one leaves out."""

    quotes: tuple[Quote, Quote]
    input_tokens: int
    output_tokens: int
    costs: tuple[Figure, Figure]
    ratio: Figure
    unlike: tuple[Finding, ...]

    def __json__(self) -> dict[str, Any]:
        """The arithmetic, as plain data."""
        return {
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "quotes": [{"name": quote.name, "cost": cost} for quote, cost in zip(self.quotes, self.costs, strict=True)],
            "ratio": self.ratio,
            "unlike": self.unlike,
        }


def quotes_answer(one: Quote, other: Quote, input_tokens: int, output_tokens: int) -> Quotes:
    """Both brought to requests of so many tokens."""
    costs = (cost_of(one, input_tokens, output_tokens), cost_of(other, input_tokens, output_tokens))
    unlike = [found for axis in AXES if (found := _unlike(axis, one, other)) is not None]
    for quote in (one, other):
        said = (quote.input_tokens, quote.output_tokens)
        if quote.per_device_hour is not None and said != (input_tokens, output_tokens):
            unlike.append(_axis("work", name=quote.name, quoted=list(said), asked=[input_tokens, output_tokens]))
    unlike += [_axis("kind", one=one.name, other=other.name)] if _hourly(one) != _hourly(other) else []
    return Quotes((one, other), input_tokens, output_tokens, costs, _ratio(one, other, costs), tuple(unlike))


def cost_of(quote: Quote, input_tokens: int, output_tokens: int) -> Figure:
    """Money per million output tokens; absent where the quote leaves out what it takes."""
    if quote.per_million_output is not None:
        if quote.per_million_input is None:
            return _absent(quote, "per_million_input")
        each = Decimal(input_tokens) / Decimal(output_tokens)
        value = quote.per_million_output + quote.per_million_input * each
        return Figure("cost", value.quantize(_PLACES), "$", "{0} + {1} × {2} / {3}", (
            Input("output", quote.per_million_output, "$", quote.name), Input("input", quote.per_million_input, "$"),
            Input("input-tokens", input_tokens, "tokens"), Input("output-tokens", output_tokens, "tokens"),
        ))  # fmt: skip
    lacks = next((name for name in ("tokens_per_s", "counts") if getattr(quote, name) is None), None)
    if lacks or quote.tokens_per_s is None or quote.per_device_hour is None:
        return _absent(quote, lacks or "tokens_per_s")
    share = 1.0
    if quote.counts == "total":
        if quote.input_tokens is None or quote.output_tokens is None:
            return _absent(quote, "input_tokens")
        share = quote.output_tokens / (quote.input_tokens + quote.output_tokens)
    busy = 1.0 if quote.utilisation is None else quote.utilisation
    value = quote.devices * quote.per_device_hour * 10**6 / (3600 * Decimal(str(quote.tokens_per_s * share * busy)))
    notes = () if quote.utilisation is not None else (assumed("quote-busy", quote.name),)
    return Figure("cost", value.quantize(_PLACES), "$", "{0} × {1} × 10⁶ / (3600 s × {2} × {3} × {4})", (
        Input("devices", quote.devices, "devices"), Input("price", quote.per_device_hour, "$/h", quote.name),
        Input("tokens-per-s", quote.tokens_per_s, "tokens/s"), Input("output-share", share, "1", quote.counts or ""),
        Input("utilisation", busy, "1"),
    ), assumptions=notes, law="price-per-token")  # fmt: skip


def _ratio(one: Quote, other: Quote, costs: tuple[Figure, Figure]) -> Figure:
    first, second = (each.value for each in costs)
    if first is None or second is None:
        unknown = next(each.reason for each in costs if each.reason is not None)
        return absent("ratio", "1", unknown)
    if one.currency != other.currency or not first:
        return absent("ratio", "1", _axis("currency", one=one.currency, other=other.currency))
    return Figure("ratio", float(second) / float(first), "1", "{1} / {0}", costs)


def _unlike(axis: str, one: Quote, other: Quote) -> Finding | None:
    first, second = getattr(one, axis), getattr(other, axis)
    if axis in ("counts", "utilisation") and not (_hourly(one) and _hourly(other)):
        return None
    if first == second and first is not None:
        return None
    return _axis(axis, one=first, other=second)


def _hourly(quote: Quote) -> bool:
    return quote.per_device_hour is not None


def _axis(axis: str, **numbers: Any) -> Finding:
    return Finding("quotes-differ", "warns", axis, numbers)


def _absent(quote: Quote, lacks: str) -> Figure:
    return absent("cost", "$", Finding("quote-lacks", "warns", lacks, {"name": quote.name}))
