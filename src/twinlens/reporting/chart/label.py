"""Labels of points that do not cover one another: each takes the first free place around its point."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

HEIGHT = 15.0  # of a line of 12 px
_PER_LETTER = 6.6  # of a sans serif at 12 px: wide on purpose, as renderers differ
_POINT = 7.0  # half the width that a point takes
_RINGS = (11.0, 24.0, 40.0, 60.0, 84.0)
_TURNS = ((1, 0), (-1, 0), (0, -1), (0, 1), (1, -1), (-1, -1), (1, 1), (-1, 1))


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle in pixels; y grows downwards."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Box) -> bool:
        """Whether the two share any area."""
        across = self.left < other.right and other.left < self.right
        return across and self.top < other.bottom and other.top < self.bottom

    def is_within(self, width: float, height: float) -> bool:
        """Whether it lies inside a plot of this size."""
        return self.left >= 0 and self.top >= 0 and self.right <= width and self.bottom <= height


def label_boxes(
    points: Sequence[tuple[float, float]], texts: Sequence[str], width: float, height: float
) -> list[Box | None]:
    """A box for the text of each point, in pixels, clear of all points and of the boxes before it.

    None where no place is free: no label is better than two that cannot be read.
    """
    taken = [Box(x - _POINT, y - _POINT, x + _POINT, y + _POINT) for x, y in points]
    boxes: list[Box | None] = []
    for (x, y), text in zip(points, texts, strict=True):
        free = (
            box
            for box in _places(x, y, _PER_LETTER * len(text))
            if box.is_within(width, height) and not any(box.meets(other) for other in taken)
        )
        box = next(free, None)
        boxes.append(box)
        taken += [box] if box else []
    return boxes


def _places(x: float, y: float, wide: float) -> Iterator[Box]:
    """Around the point, the nearest first: right, left, above, below, then the corners."""
    for ring in _RINGS:
        for across, down in _TURNS:
            left = x + across * ring - (wide if across < 0 else wide / 2 if across == 0 else 0)
            middle = y + down * ring
            yield Box(left, middle - HEIGHT / 2, left + wide, middle + HEIGHT / 2)
