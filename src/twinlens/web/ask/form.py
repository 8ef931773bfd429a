"""A question as a form: what matters open, the rest folded under the heads of the help, with sliders and names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from twinlens.api.question import Question, Verb, option_of, said
from twinlens.pages.verbs import Row
from twinlens.web.ask.words import RUN, Words, names_file, options_of

MATTER = frozenset({
    "model", "models", "device", "devices", "precision", "train", "training", "users", "context", "rate", "prompt",
    "answer", "ttft", "tpot", "throughput", "input_tokens", "output_tokens", "busy", "rent", "buy", "energy", "mtbf",
    "save", "restart", "corpus", "examples", "requests", "most_devices", "speed", "tokens", "within", "batch",
    "deadline", "hours",
})  # fmt: skip
"""Fields that are open in a form; the others are folded until one is said."""
_UNITS = {"COUNT": "count", "TOKENS": "tokens", "TIME": "time", "PER_S": "per s", "SHARE": "share", "WATTS": "power",
          "HOURS": "hours", "PERCENT": "%", "RATE": "rate", "MONEY": "money", "DOLLARS": "USD", "TIMES": "times",
          "FACTOR": "times", "SPAN": "share", "MS": "ms", "VOLTS": "V", "KELVIN": "K", "COPIES": "copies"}  # fmt: skip
_STOPS = {
    "COUNT": "1 2 3 4 6 8 12 16 24 32 48 64 96 128 192 256 512 1024 4096",
    "TOKENS": "128 256 512 1K 2K 4K 8K 16K 32K 64K 128K",
    "PER_S": "0.25 0.5 1 2 3 4 6 8 12 16 24 32 64",
    "SHARE": "5% 10% 20% 30% 40% 50% 60% 70% 80% 90% 100%",
    "PERCENT": "0 10 20 30 40 50 60 70 80 90 100",
    "HOURS": "1 2 4 8 12 16 20 24",
}
"""Where a slider stops, by the unit of its option; a time or money moves by factors of what was said."""
_SHORT = frozenset(
    ["ttft", "tpot", "slo", "kv", "mtbf", "pue", "roi", "api", "moe", "tp", "pp", "dp", "ep", "gpu", "cpu"]
)
"""Words of options that are letters, and stand as such."""
_SCALED = ("TIME", "MONEY", "RATE", "DOLLARS", "WATTS")
_NAMES = {"model": "models", "models": "models", "training_model": "models", "device": "devices",
          "among_devices": "devices", "precision": "precisions", "training_precision": "precisions", "kv": "caches",
          "engine": "engines"}  # fmt: skip
"""Fields whose known names a form offers, and the list that holds them."""


@dataclass(frozen=True, slots=True)
class Field:
    """One input. `kind`: flag, choice, run or text; `names`: the list of known names; `stops`: of its slider, "" for
    none, "scaled" for factors of its value; `lenses`: places of the questions that have it, of those of the verb."""

    name: str
    label: str
    help: str
    unit: str
    kind: str
    value: str
    choices: tuple[str, ...]
    names: str
    stops: str
    is_needed: bool
    is_lens: bool
    lenses: str


@dataclass(frozen=True, slots=True)
class Group:
    """Inputs under a head of the help; the first, without a head, is open."""

    head: str
    fields: tuple[Field, ...]
    is_open: bool


def form_of(row: Row, verb: Verb, words: Words) -> tuple[Group, ...]:
    """The inputs of a verb with what was said: of the lens that was asked, the inputs of the other left out."""
    own = question_of(verb, words)
    shown = [each for each in options_of(row) if not names_file(each) and each["field"] in verb.fields()]
    shown = [each for each in shown if each["field"] in own.model_fields or _is_lens(verb, each["field"])]
    shown.sort(key=lambda each: not each.get("argument"))
    first = [each for each in shown if each["field"] in MATTER or each.get("argument")]
    groups: dict[str, list[Row]] = {}
    for each in shown:
        if each not in first:
            groups.setdefault(each.get("head") or "More", []).append(each)
    made = [Group("", tuple(_field(each, verb, words) for each in first), True)]
    made += [Group(head, tuple(_field(each, verb, words) for each in members),
                   any(each["field"] in words for each in members))
             for head, members in groups.items()]  # fmt: skip
    return tuple(each for each in made if each.fields)


def question_of(verb: Verb, words: Words) -> type[Question]:
    """The lens that the words ask: the first whose own needed field was said, else the first."""
    asked = (each for each in verb.questions if any(name in words for name in _only(verb, each)))
    return next(asked, verb.questions[0])


def _only(verb: Verb, question: type[Question]) -> list[str]:
    """Needed fields of a question that its siblings lack."""
    others = [each for each in verb.questions if each is not question]
    return [name for name, field in question.model_fields.items()
            if field.is_required() and others and all(name not in each.model_fields for each in others)]  # fmt: skip


def _is_lens(verb: Verb, name: str) -> bool:
    return any(name in _only(verb, each) for each in verb.questions)


def _field(row: Row, verb: Verb, words: Words) -> Field:
    name = row["field"]
    question, option = verb.fields()[name]
    known = option_of(question, name).kind.known
    metavar = str(row.get("metavar", ""))
    kind = "flag" if row.get("flag") else "run" if metavar == RUN else "choice" if known else "text"
    is_slid = name in MATTER and kind == "text"
    stops = _STOPS.get(metavar, "scaled" if metavar in _SCALED else "") if is_slid else ""
    lenses = [str(place) for place, each in enumerate(verb.questions) if name in each.model_fields]
    is_needed = all(name in each.model_fields and each.model_fields[name].is_required() for each in verb.questions)
    word = words.get(name, "")
    value = " ".join(word) if isinstance(word, tuple) else str(word)
    return Field(said(name), _label(name), option.words, _UNITS.get(metavar, ""), kind, value, known,
                 _NAMES.get(name, ""), stops, is_needed, _is_lens(verb, name), " ".join(lenses))  # fmt: skip


def _label(name: str) -> str:
    return " ".join(each.upper() if each in _SHORT else each for each in said(name).split("-"))


def lists_of(groups: Sequence[Group], known: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """The lists of known names that the inputs of a form use."""
    used = {each.names for group in groups for each in group.fields if each.names}
    return {name: tuple(known[name]) for name in sorted(used) if known.get(name)}
