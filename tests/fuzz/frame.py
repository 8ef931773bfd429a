"""The frame of every fuzzer here: one seeded check after another, until the time is up or one fails.

By hand, for as long as one likes: `python tests/fuzz http --seconds 600 [--seed 1]`; a failure names its seed, and
`--seed THAT --count 1` repeats it. In `make test`: test_fuzz.py, a few seconds each.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from itertools import pairwise

Check = Callable[[random.Random], None]
"""Makes something out of the random numbers, and raises where it is treated wrongly."""


class Failed(AssertionError):
    """Says with which seed."""


def fuzz(check: Check, *, seconds: float = 1e9, count: int = 10**12, seed: int = 1) -> int:
    """Run `check` with the seeds from `seed` on, at most `count` times and so many seconds; how often it ran."""
    until = time.monotonic() + seconds
    done = 0
    while done < count and time.monotonic() < until:
        try:
            check(random.Random(seed + done))
        except BaseException as error:
            raise Failed(f"seed {seed + done}: {type(error).__name__}: {error}") from error
        done += 1
    return done


def one_sentence(refused: Exception) -> None:
    """Raises where what people are told is not one line of a length to be read."""
    text = str(refused)
    assert "\n" not in text, text
    assert len(text) < 2500, text


def cut(source: random.Random, data: bytes) -> list[bytes]:
    """The bytes in pieces: whole, in a few, in many, or byte by byte."""
    count = source.choice([0, 1, 1, 3, 3, 10, 30, 30, len(data) if len(data) < 3000 else 100])
    if count == len(data):
        return [data[i : i + 1] for i in range(len(data))]
    edges = sorted({0, len(data), *(source.randrange(len(data) + 1) for _ in range(count))})
    return [data[a:b] for a, b in pairwise(edges)]


def mutated(source: random.Random, data: bytes, words: list[bytes]) -> bytes:
    """The bytes with a few of them changed, left out, doubled, or replaced by one of the `words`."""
    for _ in range(source.choice([0, 1, 1, 2, 3, 8])):
        at, size = source.randrange(len(data) + 1), source.choice([0, 1, 1, 2, 5, 40])
        new = source.choice([b"", data[at : at + size] * 2, source.randbytes(1), source.choice(words)])
        data = data[:at] + new + data[at + size :]
    return data
