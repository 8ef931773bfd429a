"""The bound of a tuning: what may be varied, by how much effort, for which objective, and how the winner is proved."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from twinlens.errors import BadInput
from twinlens.spec.frozen import Spec

Tier = Literal["as-shipped", "settings", "precision", "open"]
"""What a tuning may change: nothing; documented settings; precisions behind the fidelity gate; anything, described."""
Sampler = Literal["tpe", "random", "grid"]
FEWEST_REPEATS = 5


class Budget(Spec):
    """What a search may cost. Failed starts, refusals and time-outs cost as well; the proof stands outside of it."""

    trials: PositiveInt = Field(examples=[12], description="The most candidates, the default and failed ones included.")
    wall_h: PositiveFloat = Field(examples=[0.5], description="The most hours of wall time at work.")
    device_h: PositiveFloat = Field(
        examples=[0.5], description="The most hours of wall time at work, times the devices used."
    )


class Constraint(Spec):
    """A limit that a candidate must keep: `metric` at most or at least so much, in the metric's own unit."""

    metric: str = Field(description="The id of a metric: `twinlens list metrics`.", examples=["ttft_s_p90"])
    at_most: float | None = Field(None, description="The most that it may be.", examples=[0.5])
    at_least: float | None = Field(None, description="The least that it may be.", examples=[10.0])

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.at_most is None) == (self.at_least is None):
            raise ValueError("a constraint has one limit: at_most or at_least")
        return self

    @property
    def limit(self) -> float:
        """The limit that is set."""
        limit = self.at_most if self.at_most is not None else self.at_least
        assert limit is not None
        return limit

    def keeps(self, value: float) -> bool:
        """Whether a value keeps the limit."""
        return value <= self.limit if self.at_most is not None else value >= self.limit


class Proof(Spec):
    """How the winner is measured again beside the default: fresh processes, a new seed, in turns."""

    repeats: Annotated[int, Field(ge=FEWEST_REPEATS)] = Field(
        FEWEST_REPEATS, description="Repeats of the default and of the winner, in fresh processes."
    )
    elsewhere: bool = Field(
        True, description="Also at half and twice the load and at other lengths, with three repeats each."
    )
    guards: bool = Field(
        True,
        description="Also, by a run of its own, whether the winner's server caches, miscounts or changes answers.",
    )


class Tune(Spec):
    """A tuning within a declared bound: `twinlens tune SPEC`. All candidate executors of a comparison get the same."""

    tier: Tier = Field("settings", description="What may be changed; each tier includes those before it.")
    objective: str | None = Field(
        None,
        examples=["output_tokens_per_s"],
        description="The id of the metric to improve; without it the sustained rate, and of a spec with a search the "
        "highest rate within its SLO.",
    )
    space: dict[str, Any] = Field(
        default_factory=dict,
        examples=[{"max_sequences": [2, 4, 8], "chunked_prefill": "all"}],
        description='Settings and their values, "all" for those that `twinlens list settings` shows, or '
        "{ from, to, step } or { from, to, factor }.",
    )
    constraints: tuple[Constraint, ...] = Field(
        (), examples=[[{"metric": "ttft_s_p90", "at_most": 0.5}]], description="Limits that a winner must keep."
    )
    loss_within: PositiveFloat = Field(
        0.02, description="Of training: the most relative difference of the loss from the default's at equal steps."
    )
    budget: Budget = Field(
        examples=[{"trials": 12, "wall_h": 0.5, "device_h": 0.5}], description="The most that the search may cost."
    )
    sampler: Sampler = Field("tpe", description="What proposes candidates: Optuna's TPE, chance, or a whole grid.")
    slots: Annotated[int, Field(ge=2, le=16)] = Field(
        4, description="Candidates that race together, the default and the leader among them."
    )
    most_rounds: Annotated[int, Field(ge=3)] = Field(
        12, description="Rounds after which a candidate that cannot be told from the leader leaves."
    )
    least_gain: Annotated[float, Field(gt=0, lt=1)] = Field(
        0.03, description="The relative gain worth having: smaller ones are not looked for."
    )
    in_turns: bool | None = Field(
        None,
        examples=[False],
        description="Whether candidates are up together and take turns, or each round of each is a run of its own; "
        "unsaid, turns where workload and objective allow it.",
    )
    proof: Proof = Field(Proof(), description="How the winner is proved.")
    seed: NonNegativeInt = Field(0, description="The seed of proposals; traffic and data have protocol.seed.")
    engineer_hours: PositiveFloat | None = Field(
        None, examples=[4.0], description="Hours that people spent on this tuning, which nobody can measure."
    )


def refuse_tuning(name: str, tune: Tune | None) -> None:
    """Raises BadInput (TL262) where a spec that declares a tuning would be measured as if it did not."""
    if tune is not None:
        raise BadInput(
            f"the spec {name!r} declares a tuning, which `twinlens tune` runs; to measure its default alone, leave "
            "[tune] out",
            code="TL262",
        )
