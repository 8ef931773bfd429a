"""Drawing a length from what a spec says about it."""

from __future__ import annotations

import math

import numpy as np

from twinlens.spec.length import Fixed, Length, Uniform


def sample_length(length: Length, rng: np.random.Generator) -> int:
    """One length in tokens, between 1 and the length's maximum."""
    if isinstance(length, Fixed):
        return length.value
    if isinstance(length, Uniform):
        return int(rng.integers(length.min, length.max, endpoint=True))
    sigma_squared = math.log1p(length.cv**2)  # so that the untruncated mean and cv are those asked for
    drawn = rng.lognormal(math.log(length.mean) - sigma_squared / 2, math.sqrt(sigma_squared))
    return min(length.max, max(1, round(drawn)))
