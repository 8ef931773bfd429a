"""The verb that holds two quotes against each other at the same work."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twinlens.api.plan.as_json import as_json
from twinlens.api.plan.number import count_of
from twinlens.planning.quotes.answer import Quotes, quotes_answer
from twinlens.spec.quote import read_quote


@dataclass(frozen=True, slots=True)
class QuotesResult:
    """Two quotes per million output tokens, and what is not comparable."""

    answer: Quotes

    def why(self) -> dict[str, Any]:
        return self.answer.why()

    def to_json(self) -> dict[str, Any]:
        return as_json(self.why())


def quotes(one: str | Path, other: str | Path, *, input: object = 1024, output: object = 256) -> QuotesResult:
    """Two TOML files at requests of `input` and `output` tokens. Raises BadInput (TL231)."""
    first, second = (read_quote(Path(each).expanduser()) for each in (one, other))
    return QuotesResult(quotes_answer(first, second, count_of("input", input), count_of("output", output)))
