"""A service-level objective: limits on one request, and the limits that MLPerf publishes, by name."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from twinlens.errors import nearest
from twinlens.spec.frozen import Spec

Standing = Literal["pass", "fail", "inconclusive"]
"""How a run stands to an SLO, by the interval of its attainment."""

# MLPerf Inference rules, server and interactive scenarios: p99 TTFT and p99 TPOT in milliseconds.
_MLPERF_MS = {
    "mlperf-llama2-70b": (2000, 200),
    "mlperf-llama2-70b-interactive": (450, 40),
    "mlperf-llama3.1-405b": (6000, 175),
    "mlperf-llama3.1-405b-interactive": (4500, 80),
    "mlperf-llama3.1-8b": (2000, 100),
    "mlperf-llama3.1-8b-interactive": (500, 30),
    "mlperf-deepseek-r1": (2000, 80),
    "mlperf-deepseek-r1-interactive": (1500, 15),
    "mlperf-gpt-oss-120b": (3000, 80),
    "mlperf-gpt-oss-120b-interactive": (2000, 20),
}


class Slo(Spec):
    """Limits on one request, in seconds from when it was intended; at least one is set.

    A run meets the SLO when `quantile` of its requests are within each limit; goodput counts the requests that are
    within all of them. `itl_s` limits the longest gap of a request. In a spec file a name stands for MLPerf's limits:
    `slo = "mlperf-llama3.1-8b"`.
    """

    name: str | None = Field(
        None, examples=["interactive"], description="The name of published limits that these are, such as MLPerf's."
    )
    ttft_s: PositiveFloat | None = Field(
        None, description="The most time to the first token, from when the request was due.", examples=[2.0]
    )
    tpot_s: PositiveFloat | None = Field(
        None, description="The most mean time per token after the first.", examples=[0.1]
    )
    itl_s: PositiveFloat | None = Field(
        None, description="The most time between any two tokens of a request.", examples=[0.2]
    )
    e2e_latency_s: PositiveFloat | None = Field(
        None, description="The most time to the end of the answer, from when the request was due.", examples=[10.0]
    )
    quantile: Annotated[float, Field(gt=0, lt=1)] = Field(
        0.99, description="The share of requests that has to be within each limit."
    )

    @model_validator(mode="before")
    @classmethod
    def _named(cls, data: Any) -> Any:
        if not isinstance(data, str):
            return data
        if data not in _MLPERF_MS:
            raise ValueError(f"no SLO {data!r}; {nearest(data, _MLPERF_MS)}")
        ttft_ms, tpot_ms = _MLPERF_MS[data]
        return {"name": data, "ttft_s": ttft_ms / 1000, "tpot_s": tpot_ms / 1000, "quantile": 0.99}

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if not self.limits():
            raise ValueError("an SLO needs at least one limit: ttft_s, tpot_s, itl_s or e2e_latency_s")
        return self

    def limits(self) -> dict[str, float]:
        """The limits that are set, in seconds, under the ids of the metrics they bound."""
        fields = ("ttft_s", "tpot_s", "itl_s", "e2e_latency_s")
        return {field: value for field in fields if (value := getattr(self, field)) is not None}


def list_slos() -> tuple[str, ...]:
    """Names a spec file may use in place of limits."""
    return tuple(_MLPERF_MS)


# The search for the highest rate that meets an SLO: where it starts, how narrow it ends, and how much it may cost.


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
