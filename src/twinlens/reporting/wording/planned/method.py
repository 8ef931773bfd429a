"""Sentences on the choice of a method: what each meets, why one is out of the question, and what would change it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinlens.reporting.display import clean
from twinlens.reporting.wording.number import number

if TYPE_CHECKING:
    from twinlens.planning.method import Method, Way
    from twinlens.planning.need import MethodRule
    from twinlens.record.finding import Finding

WAYS = {
    "prompt": "prompt", "retrieval": "retrieval", "lora": "LoRA", "qlora": "QLoRA", "full": "full tuning",
    "retrieval+lora": "retrieval+LoRA", "retrieval+qlora": "retrieval+QLoRA", "scratch": "from scratch",
}  # fmt: skip
PARTS = {"knowledge": "knows", "fresh": "fresh", "style": "form", "own-weights": "own"}
_NEEDS = {
    "knowledge": "private knowledge", "fresh": "facts that change", "style": "a form to hold",
    "own-weights": "weights of one's own",
}  # fmt: skip


def head_words(answer: Method) -> str:
    """The answer in one sentence."""
    model, chosen = clean(answer.asked.subject.name, 60), answer.chosen
    what = _listed([_NEEDS[part] for part in answer.asked.need.parts]) or "nothing but the model itself"
    if chosen is None:
        return f"None of these is possible for {model}: needed is {what}."
    name = WAYS[chosen.name]
    name = name[:1].upper() + name[1:]
    if not chosen.shortfall:
        return f"{name} for {model}: it meets all that is needed ({what}), for the fewest device-hours."
    lacks = _listed([_NEEDS[part] for part, rule in chosen.meets if rule.level != "yes"])
    return f"{name} for {model}: it lacks least of what is needed ({what}); {lacks} only in part or not at all."


def mark_words(way: Way, answer: Method) -> str:
    """→ the one that is chosen, ✗ what is out of the question."""
    if answer.chosen is not None and way.name == answer.chosen.name:
        return "→"
    return "✗" if way.against else ""


def because_words(way: Way) -> list[str]:
    """Of each part of the need how far it is met, and who found that."""
    return [f"{_NEEDS[part]}: {rule.level}{_reason(way, rule)}" for part, rule in way.meets]


def _reason(way: Way, rule: MethodRule) -> str:
    when = {
        "corpus-in-prompt": "all of it goes into each prompt", "few-examples": "fewer than 50 examples",
        "many-examples": "100,000 examples or more", "large-corpus": "a thousand million tokens or more",
        "corpus-for-scratch": "20 tokens a parameter or more",
    }.get(rule.when, "")  # fmt: skip
    said = [each for each in (when, rule.source) if each]
    return f" ({'; '.join(said)})" if said else ""


def _listed(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)


def flip(finding: Finding) -> str:
    value, way = number(finding, "value"), WAYS[str(number(finding, "way"))]
    if finding.subject == "devices":
        what = f"{value} × {clean(str(number(finding, 'device')), 60)}"
    else:
        what = {
            "no-corpus": "no private knowledge", "corpus": "private knowledge of 10 M tokens",
            "no-style": "no form to hold", "style": "a form to hold", "no-budget": "no budget",
            "no-deadline": "no deadline", "own-weights": "weights of one's own",
            "changes": f"facts that change {value}", "examples": f"{value:,} examples" if finding.subject == "examples"
            else "", "requests": f"{value:,.0f} requests a month" if finding.subject == "requests" else "",
        }[finding.subject]  # fmt: skip
    return f"{what}: {way}"
