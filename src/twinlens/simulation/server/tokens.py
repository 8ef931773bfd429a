"""Tokens of a simulated server: how many a prompt counts, and the words of an answer."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable
from pathlib import Path

from twinlens.errors import BadInput
from twinlens.schedule.prompt import SyntheticWords

Count = Callable[[str], int]

_TOKEN = re.compile(r"[A-Za-z0-9]{1,12}|[^\sA-Za-z0-9]")
_WORDS = SyntheticWords()
_MOST_WORDS = 4096


def plain_count(text: str) -> int:
    """Tokens of a text: each run of at most 12 ASCII letters or digits, and each other character that is no space."""
    return len(_TOKEN.findall(text))


def count_of(folder: str | None) -> Count:
    """`plain_count`, or that of `tokenizer.json` in a folder. Raises BadInput (TL246) where it cannot be read."""
    if folder is None:
        return plain_count
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise BadInput("a tokenizer needs tokenizers: pip install 'twinlens[torch]'", code="TL246") from None
    path = Path(folder).expanduser() / "tokenizer.json"
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # tokenizers raises Exception itself
        raise BadInput(f"cannot read {str(path)!r}: {error}; name a folder that holds it", code="TL246") from None
    return lambda text: len(tokenizer.encode(text).ids)


def seed_of(prompt: str, seed: int) -> int:
    """One number of a prompt and a request's seed."""
    return int.from_bytes(hashlib.sha256(f"{seed}\n{prompt}".encode("utf-8", "replace")).digest()[:8], "big")


def answer_words(seed: int, tokens: int) -> list[str]:
    """The words of an answer, a token each, with the space before them; a longer one goes on from its beginning."""
    return [f" {word}" for word in _WORDS.cut((seed,), min(tokens, _MOST_WORDS)).split()]


def natural_length(seed: int, mean_tokens: float) -> int:
    """Tokens after which a model would end by itself: geometric with this mean, the same for the same seed."""
    if mean_tokens <= 1:
        return 1
    share = (seed % 2**53 + 0.5) / 2**53
    return 1 + int(math.log(share) / math.log1p(-1 / mean_tokens))
