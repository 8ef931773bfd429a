"""The verb that chooses the intervention: from words to a need, and from a need to an answer with its arithmetic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from twinlens.api.plan.amount import dollars_of, seconds_of, tokens_of, trained_tokens_of
from twinlens.api.plan.as_json import as_json
from twinlens.api.plan.asked import asked_device, mfu_of, subject_of
from twinlens.api.plan.number import above_zero, count_of, given_of, one_of
from twinlens.api.plan.prices import quoted
from twinlens.errors import BadInput
from twinlens.planning.figure import assumed
from twinlens.planning.method.answer import Method, method_answer
from twinlens.planning.method.need import CHANGES, Need
from twinlens.planning.method.way import Asked
from twinlens.record.finding import Finding
from twinlens.spec.catalogue import Catalogue, catalogue_of
from twinlens.system.catalogue_folder import catalogue_folder

COUNTS = ("prompt", "answer", "context", "retrieved", "example_tokens", "shots", "epochs", "months")
_SOURCES = 36


@dataclass(frozen=True, slots=True)
class MethodResult:
    """The chosen method and all others. `notes`: how words were read."""

    answer: Method
    notes: tuple[Finding, ...] = ()

    @property
    def chosen(self) -> str | None:
        return self.answer.chosen.name if self.answer.chosen else None

    def why(self) -> dict[str, Any]:
        return self.answer.why()

    def to_json(self) -> dict[str, Any]:
        return as_json(self.why(), self.notes)


def method(
    model: str,
    *,
    device: str,
    devices: object = None,
    corpus: object = None,
    changes: object = None,
    examples: object = None,
    style: bool = False,
    own_weights: bool = False,
    requests: object = None,
    price: object = None,
    budget: object = None,
    deadline: object = None,
    mfu: object = None,
    catalogue: str | Path | None = None,
    **options: object,
) -> MethodResult:
    """Prompt, retrieval, fine-tuning or training: `method("8B", device="H100", corpus="20M", changes="daily")`.

    Other options are counts: prompt, answer, context, retrieved, example_tokens, shots, epochs, months.
    Raises BadInput for unknown names (TL201, TL204) and for values that cannot be (TL231).
    """
    whole = catalogue_of(catalogue_folder(catalogue))
    subject = subject_of(model, whole)
    on, notes = asked_device(device, None, whole)
    if on is None:
        raise BadInput("hours are of a device; add --device H100", code="TL231")
    cost, source = _price(price, on.name, whole)
    if budget is not None and cost is None:
        raise BadInput("a budget needs the price of a device-hour; add --price 2.50", code="TL231")
    need = replace(
        _work(corpus, changes, examples, requests, _counts(options)), style=style, own_weights=own_weights,
        price=cost, price_source=source, budget=None if budget is None else dollars_of("budget", budget),
        deadline_s=None if deadline is None else seconds_of("deadline", deadline),
    )  # fmt: skip
    asked = Asked(need, subject, on, count_of("devices", 1 if devices is None else devices), mfu_of(mfu))
    priced = () if price is not None or cost is None else (_quoted(cost, source),)
    return MethodResult(method_answer(asked), (*notes, *_taken(requests, options, need), *priced))


def _work(corpus: object, changes: object, examples: object, requests: object, counts: Mapping[str, Any]) -> Need:
    """What is to be known and answered. Raises BadInput (TL231) for what contradicts itself."""
    if changes is not None and corpus is None:
        raise BadInput("--changes is of a private corpus; add --corpus 20M, in tokens", code="TL231")
    need = Need(
        changes=one_of("changes", changes or "never", CHANGES),  # type: ignore[arg-type]
        corpus=0.0 if corpus is None else trained_tokens_of("corpus", corpus),
        examples=0 if examples in (None, 0, "0") else count_of("examples", examples),
        requests=Need().requests if requests is None else above_zero("requests", requests, 1e15), **counts,
    )  # fmt: skip
    if need.prompt + need.answer >= need.context:
        raise BadInput(
            f"a prompt of {need.prompt} and an answer of {need.answer} tokens do not go into --context {need.context}",
            code="TL231",
        )
    return need


def _quoted(cost: tuple[Decimal, Decimal], source: str) -> Finding:
    return assumed("method-price", source, low=float(cost[0]), high=float(cost[1]))


def _taken(requests: object, options: Mapping[str, object], need: Need) -> tuple[Finding, ...]:
    """What was not said and decides."""
    usual = Need()
    names = [("requests", requests)] + ([("retrieved", options.get("retrieved"))] if need.corpus else [])
    return tuple(assumed(f"method-{name}", getattr(usual, name)) for name, value in names if value is None)


def _counts(options: Mapping[str, object]) -> dict[str, Any]:
    return {
        name: (tokens_of if name == "context" else count_of)(name.replace("_", "-"), value)
        for name, value in given_of("method", options, COUNTS).items()
    }


def _price(word: object, device: str, catalogue: Catalogue) -> tuple[tuple[Decimal, Decimal] | None, str]:
    """What was said ("2.50", "2..4"), else what clouds were quoted at for an hour, in dollars, with the source."""
    if word is not None:
        low, dots, high = str(word).partition("..")
        ends = dollars_of("price", low), dollars_of("price", high if dots else low)
        if ends[0] > ends[1]:
            raise BadInput(f"--price {str(word)[:40]!r} ends below its start; write --price 2..4", code="TL231")
        return ends, "asked"
    try:
        known = quoted("rent", device, catalogue)
    except BadInput:  # no price, or none with a date
        return None, ""
    if known.currency != "USD":
        return None, ""
    return (known.money.low, known.money.high), known.source[:_SOURCES]
