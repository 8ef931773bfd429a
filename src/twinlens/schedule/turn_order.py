"""The order in which points take turns: each once a round, and each after each other point equally often."""

from __future__ import annotations

import random
from collections.abc import Iterator


def williams(points: int) -> list[tuple[int, ...]]:
    """The orders of a Williams design for points 0 … k-1: k rounds where k is even, 2k where it is odd.

    In each place every point stands equally often, and every point follows every other equally often within rounds
    (Williams 1949, "Experimental designs balanced for the estimation of residual effects of treatments").
    """
    zigzag = [0]
    for step in range(1, points):
        zigzag.append((step + 1) // 2 if step % 2 else points - step // 2)
    orders = [tuple((place + shift) % points for place in zigzag) for shift in range(points)]
    return orders if points % 2 == 0 else [*orders, *(tuple(reversed(order)) for order in orders)]


def rounds(points: int, seed: str) -> Iterator[tuple[int, ...]]:
    """Rounds without end: whole Williams designs, each with its points renamed and its rounds shuffled by `seed`.

    Renaming keeps the balance and leaves the order unforeseeable, so that no rhythm of the machine meets one point.
    """
    drawn = random.Random(seed)
    while True:
        names = drawn.sample(range(points), points)
        design = williams(points)
        drawn.shuffle(design)
        for order in design:
            yield tuple(names[place] for place in order)
