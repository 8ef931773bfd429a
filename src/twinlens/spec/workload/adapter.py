"""Fine-tuning: which parameters are trained, in the words of PEFT and TRL."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PositiveFloat, PositiveInt

from twinlens.spec.frozen import Spec

Method = Literal["full", "lora", "dora", "qlora"]


class Adapter(Spec):
    """A low-rank adapter beside linear layers: W·x + (lora_alpha / r)·B·A·x, of which only A and B are trained."""

    r: PositiveInt = Field(8, description="The rank of an adapter: r × (inputs + outputs) parameters a layer.")
    lora_alpha: PositiveFloat = Field(16.0, description="What an adapter adds is scaled by lora_alpha / r.")
    lora_dropout: Annotated[float, Field(ge=0, lt=1)] = Field(
        0.0, description="The share of an adapter's inputs that is set to 0 at random while it is trained."
    )
    target_modules: Literal["all-linear"] | Annotated[tuple[str, ...], Field(min_length=1)] = Field(
        "all-linear",
        description='The linear layers that get an adapter: "all-linear" (all but the output head), or their names.',
        examples=[["q_proj", "v_proj"]],
    )
