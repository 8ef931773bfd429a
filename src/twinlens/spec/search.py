"""The search for the highest rate that meets an SLO: where it starts, how narrow it ends, and how much it may cost."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from twinlens.spec.frozen import Spec


class Search(Spec):
    """Look for the highest value of `over` at which the workload meets its SLO; every value tried is a run of its own.

    It has two budgets, for each search of a sweep: `most_points` and `budget_s`. `protocol.repeats` does not apply.
    """

    over: Literal["rate_per_s", "concurrency"] = Field(
        "rate_per_s", description="What is searched: the rate of an open loop, or the concurrency of a closed one."
    )
    start: PositiveFloat = Field(1.0, description="The value to begin with.")
    # Values asked for have three digits, so 1 % is the closest that two of them come.
    width: Annotated[float, Field(ge=0.01)] = Field(
        0.2, description="The search ends when high ≤ low · (1 + width): 0.2 is about ± 10 %."
    )
    most_points: PositiveInt = Field(12, description="The most runs of one search.")
    tries: PositiveInt = Field(
        2, description="How often a value is measured while its runs cannot tell, or have an invalid client."
    )
    budget_s: PositiveFloat | None = Field(
        None,
        description="No run is begun after so many seconds of wall time; without it there is no limit.",
        examples=[1800.0],
    )
    least: PositiveFloat | None = Field(None, description="The lowest value that is tried.", examples=[0.5])
    most: PositiveFloat | None = Field(None, description="The highest value that is tried.", examples=[64.0])

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        least, most = self.bounds()
        if not least <= self._near(self.start) <= most:
            raise ValueError(f"start {self.start:g} is not between least {least:g} and most {most:g}")
        return self

    def bounds(self) -> tuple[float, float]:
        """`least` and `most`, rounded, or what stands for them: one in a quarter of an hour, a million a second."""
        least = 1.0 if self.over == "concurrency" else 1e-3
        return (
            least if self.least is None else self._near(self.least),
            1e6 if self.most is None else self._near(self.most),
        )

    @property
    def unit(self) -> str:
        """The unit of the values, for people."""
        return "requests/s" if self.over == "rate_per_s" else "requests in flight"

    def rounded(self, value: float) -> float:
        """A value fit to be read: three significant digits, or a whole number of requests in flight; within bounds."""
        least, most = self.bounds()
        return min(most, max(least, self._near(value)))

    def _near(self, value: float) -> float:
        return max(1.0, float(round(value))) if self.over == "concurrency" else float(f"{value:.3g}")
