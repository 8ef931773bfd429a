"""The operating point: rate, batch, precision and settings, the only part of a spec that a sweep varies freely."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, PositiveFloat, PositiveInt

from twinlens.spec.frozen import Spec

POLICY_FIELDS = {"static": ("batch",), "dynamic": ("batch", "timeout_s"), "continuous": ("in_flight",)}
"""The fields that each admission policy reads; the others mean nothing to it."""


class Point(Spec):
    """An operating point.

    `admission`: "static" waits for `batch` requests, then for all their answers; "dynamic" does the same, but waits at
    most `timeout_s` for a batch to fill; "continuous" sends at once, at most `in_flight` at a time. Where `admission`
    is swept, each policy gets its own of these fields and the others are left out of its points.
    """

    precision: str = Field(
        "fp32",
        description="The number formats of weights, activations and the rest, by one name: `twinlens list precisions`.",
    )
    batch: PositiveInt = Field(
        1,
        description="Requests run together in lockstep, or held for each other by a static or dynamic admission.",
    )
    microbatch: PositiveInt | None = Field(
        None,
        description="Sequences or images per forward pass of training; fewer than the global batch means accumulation.",
        examples=[2],
    )
    rate_per_s: PositiveFloat | None = Field(
        None,
        description="Arrivals (of sessions, if any) per second, where they are constant, poisson or gamma.",
        examples=[4.0],
    )
    concurrency: PositiveInt | None = Field(
        None, description="Requests in flight of a closed loop (closed arrivals).", examples=[16]
    )
    admission: Literal["static", "dynamic", "continuous"] | None = Field(
        None,
        description="How requests are held back in front of the server, to compare ways of batching.",
        examples=["continuous"],
    )
    timeout_s: PositiveFloat | None = Field(
        None, description="How long the dynamic admission policy waits at most for a batch to fill.", examples=[0.05]
    )
    in_flight: PositiveInt | None = Field(
        None, description="How many requests the continuous admission policy lets out at a time.", examples=[8]
    )

    @property
    def label(self) -> str:
        """Its precision and how hard, in a few words: "bf16 at 4/s"."""
        hard = [f"at {self.rate_per_s:g}/s"] if self.rate_per_s is not None else []
        hard += [f"{self.concurrency} in flight"] if self.concurrency is not None else []
        return " ".join([self.precision, *hard])


# Fields of a spec that have a default and that nobody said: of programs that Twinlens watches or reads.

WATCHED, FROM_LOG = "own-loop", "trainer-log"
UNSAID = {"workload": ("learning_rate",), "protocol": ("seed", "duration_s")}
UNSAID_PATHS = tuple(f"{table}.{name}" for table, names in UNSAID.items() for name in names)


def without_unsaid(data: dict[str, Any], kind: str, **parts: Spec) -> dict[str, Any]:
    """`data` of a spec without the fields that belong to the program and that nobody said.

    `kind`: of the executor. `parts`: the tables as values, which know what was said. No spec file describes a watched
    loop, so nobody can have said them there.
    """
    if kind not in (WATCHED, FROM_LOG):
        return data
    for table, names in UNSAID.items():
        said = frozenset() if kind == WATCHED else parts[table].model_fields_set
        data[table] = {name: value for name, value in data[table].items() if name not in names or name in said}
    return data
