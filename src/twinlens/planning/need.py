"""Rules as data: how far each method meets each part of a need, under which condition, and who found that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, get_args

# Needs as they were stated: what the model is to know, how fresh, in what form, how often asked, for what money.

Changes = Literal["never", "yearly", "monthly", "weekly", "daily"]
PER_MONTH: dict[str, float] = {"never": 0.0, "yearly": 1 / 12, "monthly": 1.0, "weekly": 52 / 12, "daily": 365 / 12}
CHANGES = get_args(Changes)
Part = Literal["knowledge", "fresh", "style", "own-weights"]


@dataclass(frozen=True, slots=True)
class Need:
    """`corpus` tokens of private knowledge, of which `changes` says how often; `examples` that are labelled.

    `prompt` and `answer` tokens of a request, `requests` of them a month; `retrieved` tokens that retrieval puts
    before each; `context` tokens that a request may have. `price` of a device-hour, low and high, in `currency`.
    `deadline_s` of training once; `budget` for all `months`.
    """

    changes: Changes = "never"
    corpus: float = 0.0
    examples: int = 0
    style: bool = False
    own_weights: bool = False
    requests: float = 10_000.0
    prompt: int = 512
    answer: int = 256
    context: int = 8192
    retrieved: int = 2048
    example_tokens: int = 512
    shots: int = 8
    epochs: int = 3
    months: int = 12
    price: tuple[Decimal, Decimal] | None = None
    price_source: str = "asked"
    budget: Decimal | None = None
    deadline_s: float | None = None

    @property
    def parts(self) -> tuple[Part, ...]:
        """Parts of the need, each of which a method meets, in part or not."""
        wanted: tuple[tuple[Part, bool], ...] = (
            ("knowledge", self.corpus > 0),
            ("fresh", self.corpus > 0 and self.changes != "never"),
            ("style", self.style),
            ("own-weights", self.own_weights),
        )
        return tuple(name for name, is_wanted in wanted if is_wanted)

    @property
    def shown(self) -> int:
        """Tokens of examples that a prompt carries, where a form is to be held."""
        return min(self.shots, self.examples) * self.example_tokens if self.style else 0

    @property
    def corpus_in_prompt(self) -> bool:
        """Whether all that is to be known goes into every prompt."""
        return 0 < self.corpus <= self.context - self.prompt - self.answer - self.shown


Level = Literal["yes", "partly", "no"]
Step = Literal["prompt", "retrieval", "lora", "qlora", "full", "scratch"]
SHORTFALL: dict[Level, int] = {"yes": 0, "partly": 1, "no": 2}
FEW_EXAMPLES, MANY_EXAMPLES = 50, 100_000
LARGE_CORPUS = 1e9
CHINCHILLA = 20
"""Tokens per parameter that a model is trained on from scratch (Hoffmann et al., arXiv 2203.15556)."""
_RAG = "Ovadia et al. 2023, arXiv 2312.05934: retrieval beats further training at recalling facts"
_LESS = "Biderman et al. 2024, arXiv 2405.09673: LoRA learns less than full tuning from 100,000 examples"
_SHOTS = "Brown et al. 2020, arXiv 2005.14165: examples in the prompt show a form (recalled)"
_LIMA = "Zhou et al. 2023, arXiv 2305.11206: 1,000 good examples teach a form; OpenAI's guide: 50 to 100 are a start"


"""Abstracts were read on 2026-11-22, but of those marked as recalled."""


@dataclass(frozen=True, slots=True)
class MethodRule:
    """Of one step and part, the first rule whose condition holds decides. `when` "": always."""

    step: Step
    part: Part
    level: Level
    when: str = ""
    source: str = ""


CONDITIONS: dict[str, Callable[[Need, float], bool]] = {
    "": lambda need, params: True,
    "corpus-in-prompt": lambda need, params: need.corpus_in_prompt,
    "few-examples": lambda need, params: need.examples < FEW_EXAMPLES,
    "many-examples": lambda need, params: need.examples >= MANY_EXAMPLES,
    "large-corpus": lambda need, params: need.corpus >= LARGE_CORPUS,
    "corpus-for-scratch": lambda need, params: need.corpus >= CHINCHILLA * params,
    "some-examples": lambda need, params: need.examples > 0,
}
"""What a rule may ask of a need and of the parameters of the model."""

METHOD_RULES: tuple[MethodRule, ...] = (
    MethodRule("prompt", "knowledge", "yes", "corpus-in-prompt"),
    MethodRule("prompt", "knowledge", "no"),
    MethodRule("prompt", "fresh", "yes", "corpus-in-prompt"),
    MethodRule("prompt", "fresh", "no"),
    MethodRule("prompt", "style", "partly", source=_SHOTS),
    MethodRule("retrieval", "knowledge", "yes", source=_RAG),
    MethodRule("retrieval", "fresh", "yes"),
    MethodRule("retrieval", "style", "partly", source=_SHOTS),
    MethodRule("lora", "knowledge", "partly", source=_RAG),
    MethodRule("lora", "fresh", "partly"),
    MethodRule("lora", "style", "partly", "few-examples", _LIMA),
    MethodRule("lora", "style", "partly", "many-examples", _LESS),
    MethodRule("lora", "style", "yes", source=_LIMA),
    MethodRule("qlora", "knowledge", "partly", source=_RAG),
    MethodRule("qlora", "fresh", "partly"),
    MethodRule("qlora", "style", "partly", "few-examples", _LIMA),
    MethodRule("qlora", "style", "partly", "many-examples", _LESS),
    MethodRule(
        "qlora",
        "style",
        "yes",
        source="Dettmers et al. 2023, arXiv 2305.14314: as good as tuning in 16 bits (recalled)",
    ),
    MethodRule("full", "knowledge", "yes", "large-corpus", _LESS),
    MethodRule("full", "knowledge", "partly", source=_RAG),
    MethodRule("full", "fresh", "partly"),
    MethodRule("full", "style", "partly", "few-examples", _LIMA),
    MethodRule("full", "style", "yes", source=_LIMA),
    MethodRule(
        "scratch", "knowledge", "yes", "corpus-for-scratch", "Hoffmann et al. 2022, arXiv 2203.15556 (recalled)"
    ),
    MethodRule("scratch", "knowledge", "no"),
    MethodRule("scratch", "fresh", "partly"),
    MethodRule("scratch", "style", "partly", "few-examples", _LIMA),
    MethodRule("scratch", "style", "yes", source=_LIMA),
    MethodRule("scratch", "own-weights", "yes"),
    *(MethodRule(step, "own-weights", "no") for step in ("prompt", "retrieval", "lora", "qlora", "full")),
)


def ruling(step: Step, part: Part, need: Need, params: float) -> MethodRule:
    """The rule that decides."""
    return next(
        rule for rule in METHOD_RULES
        if (rule.step, rule.part) == (step, part) and CONDITIONS[rule.when](need, params)
    )  # fmt: skip
