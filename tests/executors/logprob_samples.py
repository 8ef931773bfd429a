"""A prompt of three tokens with the log probabilities that vLLM gives of it."""

from __future__ import annotations

import math
from typing import Any

HALF, QUARTER = math.log(0.5), math.log(0.25)
IDS = (7, 1, 2)
TABLES: list[Any] = [
    None,
    {"1": {"logprob": HALF, "rank": 1}, "2": {"logprob": QUARTER}},
    {"1": {"logprob": HALF}, "2": {"logprob": QUARTER}},
]


def choice(tables: list[Any] | None = None) -> dict[str, Any]:
    return {"text": "", "prompt_logprobs": TABLES if tables is None else tables, "prompt_token_ids": list(IDS)}
