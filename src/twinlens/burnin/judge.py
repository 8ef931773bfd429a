"""The judgement of a burn-in: windows and criteria become rulings, and rulings the verdict."""

from __future__ import annotations

from collections.abc import Sequence

from twinlens.burnin.criteria import Criterion
from twinlens.burnin.judgement import Judgement
from twinlens.burnin.window import Asked, Window


def judged(
    windows: Sequence[Window], criteria: Sequence[Criterion], asked: Asked, before: Sequence[Window] | None = None
) -> Judgement:
    """Every criterion judged over all windows so far. `before`: the windows of the last acceptance."""
    return Judgement("insufficient", ())
