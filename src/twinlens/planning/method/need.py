"""Needs as they were stated: what the model is to know, how fresh, in what form, how often asked, for what money."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, get_args

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
