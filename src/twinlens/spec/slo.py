"""A service-level objective: limits on one request, and the limits that MLPerf publishes, by name."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, PositiveFloat, model_validator

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
