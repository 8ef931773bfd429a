"""Numbers in theory: a Python scalar, or an array of float64 that broadcasts with the others.

Scalars stay Python numbers, so that whole numbers stay exact and one evaluation costs microseconds. Arrays become
float64: counts of FLOP overflow 64-bit integers.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

from twinlens.errors import BadInput

Number: TypeAlias = Any
"""An int, a float, or an array of float64. A function of several gives what numpy's broadcasting of them gives."""


def count(name: str, value: Number) -> Number:
    """`value`, at least 1. Raises BadInput otherwise, and for what is no finite number."""
    return _checked(name, value, 1, "must be at least 1, not {}")


def amount(name: str, value: Number) -> Number:
    """`value`, at least 0. Raises BadInput otherwise, and for what is no finite number."""
    return _checked(name, value, 0, "cannot be negative, as {} is")


def rate(name: str, value: Number) -> Number:
    """`value`, above 0. Raises BadInput otherwise, and for what is no finite number."""
    return _checked(name, value, 5e-324, "must be above 0, not {}")


def share(name: str, value: Number) -> Number:
    """`value`, between 0 and 1. Raises BadInput otherwise."""
    checked = _checked(name, value, 0, "must be between 0 and 1, not {}")
    if is_scalar(checked):
        if checked > 1:
            raise BadInput(f"{name} must be between 0 and 1, not {float(checked)}")
    elif (checked > 1).any():
        raise BadInput(f"{name} must be between 0 and 1, not {_first(checked, checked > 1)}")
    return checked


def smaller(one: Number, other: Number) -> Number:
    """The smaller of two, element by element."""
    if is_scalar(one) and is_scalar(other):
        return min(one, other)
    import numpy as np

    return np.minimum(one, other)


def larger(one: Number, other: Number) -> Number:
    """The larger of two, element by element."""
    if is_scalar(one) and is_scalar(other):
        return max(one, other)
    import numpy as np

    return np.maximum(one, other)


def choose(condition: Any, then: Number, otherwise: Number) -> Number:
    """`then` where the condition holds, element by element."""
    if isinstance(condition, bool):
        return then if condition else otherwise
    import numpy as np

    return np.where(condition, then, otherwise)


def rounded_up(value: Number, block: Number) -> Number:
    """`value` rounded up to whole blocks."""
    return -(-value // block) * block


def is_scalar(value: Any) -> bool:
    return isinstance(value, (int, float))


def _checked(name: str, value: Any, least: float, wrong: str) -> Number:
    if isinstance(value, (int, float)):
        if least <= value < math.inf:
            return value
        raise BadInput(f"{name} {wrong.format(value)}")
    import numpy as np

    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise BadInput(f"{name} must be a number or an array of numbers, not {value!r}") from None
    good = (array >= least) & (array < math.inf)
    if not good.all():
        raise BadInput(f"{name} {wrong.format(_first(array, ~good))}")
    return array


def _first(values: Any, where: Any) -> float:
    return float(values[where].flat[0])
