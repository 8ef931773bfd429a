"""Prompts: the source of their words, the prefix they share, and the turns of a session."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from twinlens.spec.frozen import Spec
from twinlens.spec.workload.length import Length


class Synthetic(Spec):
    """Common English words drawn from a seed. `tokens_per_word`: of the server's tokenizer, with its leading space."""

    kind: Literal["synthetic"] = "synthetic"
    tokens_per_word: PositiveFloat = 1.0


class PromptFile(Spec):
    """Passages of a local UTF-8 text file, each from a place drawn from a seed."""

    kind: Literal["file"] = "file"
    path: str
    tokens_per_word: PositiveFloat = 1.3


Prompts = Annotated[Synthetic | PromptFile, Field(discriminator="kind")]


class Prefix(Spec):
    """A beginning that requests share: `share` of them (or of the sessions) open with one of `count` prefixes.

    Its `tokens` come before those of `input_tokens`. `choice`: which one, "uniform" or "zipf" (p_k ∝ k^-exponent).
    """

    tokens: PositiveInt
    count: PositiveInt = 1
    choice: Literal["uniform", "zipf"] = "uniform"
    exponent: PositiveFloat = 1.0
    share: Annotated[float, Field(ge=0, le=1)] = 1.0


class Sessions(Spec):
    """Conversations: every arrival starts one, and each turn's prompt holds all that was said before.

    `turns`: how many requests a session has. `input_tokens` of the workload are those a turn adds, `output_tokens` its
    answer. A turn is due `think_s` (mean) after the end of the one before, gamma with `think_cv` (1: exponential, 0:
    always the same). A session ends early where the next turn and its answer would exceed `max_context_tokens`.
    """

    turns: Length
    think_s: NonNegativeFloat = 0.0
    think_cv: NonNegativeFloat = 1.0
    max_context_tokens: PositiveInt | None = None
