"""Step law: the seconds of one engine step, by what the step computes and reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Origin = Literal["modelled", "fitted", "quoted"]


@dataclass(frozen=True, slots=True)
class Affine:
    """Seconds of a step, affine in its work: of compute, of bandwidth, or of both.

    `fixed_s`: of every step. `row_s`: per request that gets a token or a piece of its prompt. `context_s`: per token of
    KV cache that decoding requests read. `token_s`: per token computed beyond one a request: pieces of prompts, drafts.
    `pair_s`: per pair of a prompt's token and a token that it attends to.
    """

    fixed_s: float
    row_s: float = 0.0
    context_s: float = 0.0
    token_s: float = 0.0
    pair_s: float = 0.0

    def at(self, rows: float, context: float, tokens: float = 0.0, pairs: float = 0.0) -> float:
        """Seconds of a step with so much work."""
        decoding = self.fixed_s + self.row_s * rows + self.context_s * context
        return decoding + self.token_s * tokens + self.pair_s * pairs


@dataclass(frozen=True, slots=True)
class StepLaw:
    """The slowest of `parts` decides how long a step takes: a device that computes while it reads has two.

    `before_s`, `after_s`: per request, outside the steps: from its sending until the engine may start it, and from the
    step that made a token until the client has it. `origin` and `source` say where the numbers come from.
    """

    parts: tuple[Affine, ...]
    before_s: float = 0.0
    after_s: float = 0.0
    origin: Origin = "quoted"
    source: str = ""

    def seconds(self, rows: float, context: float, tokens: float = 0.0, pairs: float = 0.0) -> float:
        """Seconds of one step, without noise."""
        return max(part.at(rows, context, tokens, pairs) for part in self.parts)


def one(
    fixed_s: float, row_s: float = 0.0, context_s: float = 0.0, token_s: float = 0.0, pair_s: float = 0.0
) -> StepLaw:
    """A law with one part, from a table of the user's."""
    return StepLaw((Affine(fixed_s, row_s, context_s, token_s, pair_s),))
