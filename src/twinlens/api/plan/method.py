"""The verb that chooses the intervention: from words to a need, and from a need to an answer with its arithmetic."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Unpack, cast

from twinlens.api.documented import Answered
from twinlens.api.plan.reading.amount import above_zero, count_of, dollars_of, trained_tokens_of
from twinlens.api.plan.reading.options import COUNT, FLAG, NAME, TIME, Context, Devices, Model, one
from twinlens.api.plan.reading.options import Catalogue as Folder
from twinlens.api.plan.reading.prices import quoted
from twinlens.api.plan.reading.subject import asked_device, subject_of
from twinlens.api.plan.steps import MFU
from twinlens.api.question import Kind, Question, Verb, asks, option
from twinlens.errors import BadInput
from twinlens.planning.check.deadline import Mfu
from twinlens.planning.method import Asked, Method, method_answer
from twinlens.planning.need import CHANGES, Need
from twinlens.record.finding import Finding
from twinlens.spec.catalogue import Catalogue, catalogue_of
from twinlens.system.home_folder import catalogue_folder
from twinlens.theory.figure import assumed

if TYPE_CHECKING:
    from twinlens.api.words import PlanMethodWords
    from twinlens.reporting.document.block import Document

_SOURCES = 36


@dataclass(frozen=True, slots=True, repr=False)
class MethodResult(Answered):
    """The chosen method and all others. `notes`: how words were read."""

    answer: Method
    notes: tuple[Finding, ...] = ()

    def document(self) -> Document:
        from twinlens.reporting.plan.method import method_document

        return method_document(self.answer, self.notes)

    @property
    def chosen(self) -> str | None:
        return self.answer.chosen.name if self.answer.chosen else None


def _count_or_none(name: str, word: object) -> int:
    return 0 if word in (0, "0") else count_of(name, word)


class MethodAsked(Question):
    """What is to be known and answered, and what may be spent on it."""

    model: Model
    device: Annotated[str, option("H100, a name that list devices shows.", NAME)]
    devices: Devices = 1
    corpus: Annotated[float, option("Private knowledge: 20M.", Kind("TOKENS", trained_tokens_of))] | None = None
    changes: Annotated[str, option("never, yearly, monthly, weekly or daily.", one("HOW", CHANGES))] | None = None
    examples: Annotated[int, option("Labelled examples.", Kind("COUNT", _count_or_none))] = 0
    style: Annotated[bool, option("A form, a tone or a format is to be held.", FLAG)] = False
    own_weights: Annotated[bool, option("No public weights may be used.", FLAG)] = False
    requests: Annotated[float, option("A month: 10000.", Kind("COUNT", above_zero))] | None = None
    price: Annotated[str, option("Of a device-hour: 2.50, or 2..4.", Kind("DOLLARS"))] | None = None
    budget: Annotated[Decimal, option("For all months.", Kind("DOLLARS", dollars_of))] | None = None
    months: Annotated[int, option("12.", COUNT)] | None = None
    deadline: Annotated[float, option("Of training: '12 h'.", TIME)] | None = None
    mfu: Annotated[Mfu, option("Taken of all work: 0.3..0.5.", MFU)] | None = None
    prompt: Annotated[int, option("Of a request: 512.", Kind("TOKENS", count_of))] | None = None
    answer: Annotated[int, option("Of a request: 256.", Kind("TOKENS", count_of))] | None = None
    context: Context | None = None
    retrieved: Annotated[int, option("Put before each: 2048.", Kind("TOKENS", count_of))] | None = None
    example_tokens: Annotated[int, option("Of one example: 512.", Kind("TOKENS", count_of))] | None = None
    shots: Annotated[int, option("Examples in a prompt: 8.", COUNT)] | None = None
    epochs: Annotated[int, option("Of training: 3.", COUNT)] | None = None
    catalogue: Folder | None = None


VERB = Verb("plan method", (MethodAsked,), "--model 8B --device H100 --corpus 20M",
            "Reasons of every way, every figure's formula.")  # fmt: skip
_COUNTS = {"prompt", "answer", "context", "retrieved", "example_tokens", "shots", "epochs", "months"}


@asks(VERB)
def method(model: str | None = None, **words: Unpack[PlanMethodWords]) -> MethodResult:
    """Prompt, retrieval, fine-tuning or from scratch: what each meets, takes and costs, and what flips the choice.

    `method("8B", device="H100", corpus="20M", changes="daily")`. Raises BadInput for unknown names (TL201, TL204) and
    for values that cannot be (TL231).
    """
    asked = MethodAsked.read(VERB.name, {"model": model, **words})
    whole = catalogue_of(catalogue_folder(asked.catalogue))
    subject = subject_of(asked.model, whole)
    on, notes = asked_device(asked.device, None, whole)
    if on is None:
        raise BadInput("hours are of a device; add --device H100", code="TL231")
    cost, source = _price(asked.price, on.name, whole)
    if asked.budget is not None and cost is None:
        raise BadInput("a budget needs the price of a device-hour; add --price 2.50", code="TL231")
    need = replace(_work(asked), style=asked.style, own_weights=asked.own_weights, price=cost, price_source=source,
                   budget=asked.budget, deadline_s=asked.deadline)  # fmt: skip
    answer = method_answer(Asked(need, subject, on, asked.devices, asked.mfu or Mfu()))
    priced = () if asked.price is not None or cost is None else (_quoted(cost, source),)
    return MethodResult(answer, (*notes, *_taken(asked, need), *priced))


def _work(asked: MethodAsked) -> Need:
    """What is to be known and answered. Raises BadInput (TL231) for what contradicts itself."""
    if asked.changes is not None and asked.corpus is None:
        raise BadInput("--changes is of a private corpus; add --corpus 20M, in tokens", code="TL231")
    need = Need(
        changes=cast(Any, asked.changes or "never"), corpus=asked.corpus or 0.0, examples=asked.examples,
        requests=Need().requests if asked.requests is None else asked.requests,
        **asked.model_dump(include=_COUNTS, exclude_none=True),
    )  # fmt: skip
    if need.prompt + need.answer >= need.context:
        raise BadInput(
            f"a prompt of {need.prompt} and an answer of {need.answer} tokens do not go into --context {need.context}",
            code="TL231",
        )
    return need


def _quoted(cost: tuple[Decimal, Decimal], source: str) -> Finding:
    return assumed("method-price", source, low=float(cost[0]), high=float(cost[1]))


def _taken(asked: MethodAsked, need: Need) -> tuple[Finding, ...]:
    """What was not said and decides."""
    names = ["requests"] + (["retrieved"] if need.corpus else [])
    usual = Need()
    return tuple(assumed(f"method-{name}", getattr(usual, name)) for name in names if getattr(asked, name) is None)


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
