"""The two workloads, with no common parent: training counts optimizer steps, inference counts requests."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from twinlens.spec.frozen import Spec
from twinlens.spec.slo import Slo
from twinlens.spec.workload.arrival import Arrival, Lockstep
from twinlens.spec.workload.length import AnswerLength, Fixed, Length
from twinlens.spec.workload.prompt import Prefix, Prompts, Sessions, Synthetic


class Markov(Spec):
    """A synthetic language whose entropy rate is known exactly, so that "converged" can be checked (no download).

    `symbols`: vocabulary in use (None: the whole model vocabulary). `branches`: successors of each state.
    `exponent`: Zipf exponent of successor probabilities.
    """

    kind: Literal["markov"] = "markov"
    symbols: PositiveInt | None = None
    branches: PositiveInt = 8
    exponent: NonNegativeFloat = 1.0


class Text(Spec):
    """A local UTF-8 text file, read as bytes (one token per byte: no tokenizer, no download)."""

    kind: Literal["text"]
    path: str


class Images(Spec):
    """Random images and labels: speed does not depend on their values."""

    kind: Literal["images"] = "images"


Data = Annotated[Markov | Text | Images, Field(discriminator="kind")]


class LossTarget(Spec):
    """When training may stop: the held-out loss within `gap_nats` of the language's entropy rate, or at `loss_nats`.

    It is looked at every `every_steps` optimizer steps on `batches` fixed held-out batches.
    """

    gap_nats: PositiveFloat | None = None
    loss_nats: PositiveFloat | None = None
    every_steps: PositiveInt = 10
    batches: PositiveInt = 4


class TrainingWorkload(Spec):
    """Fixed batches in a loop. One row is one optimizer step.

    `global_batch` is sequences (or images) per optimizer step; `seq_len` is tokens per sequence (not for images);
    `save`: keep the final weights in the run folder as a Hugging Face folder (config.json and safetensors).
    """

    kind: Literal["training"]
    model: str
    global_batch: PositiveInt
    seq_len: PositiveInt = 256
    optimizer: Literal["adamw"] = "adamw"
    learning_rate: PositiveFloat = 1e-3
    checkpointing: bool = False
    data: Data = Markov()
    until: LossTarget | None = None
    save: bool = False


class InferenceWorkload(Spec):
    """Requests. One row is one request: a prompt and its answer, or one image.

    Lengths are drawn from `input_tokens` and `output_tokens` (not for images); decoding is greedy and the answer's
    length is forced, so that every executor does the same work; `output_tokens = "free"` leaves it to the model behind
    a server over HTTP. `fidelity_prompts`: prompts used to compare a lower
    precision with fp32 (0: not compared).

    `arrival`: when requests are due; the default is the engine-level lockstep. `slo`: what a good answer meets.
    `sessions`, `prefix`, `prompts`: turns, shared beginnings and words of what is sent to a server over HTTP.
    """

    kind: Literal["inference"]
    model: str
    input_tokens: Length = Fixed(value=256)
    output_tokens: AnswerLength = Fixed(value=32)
    data: Data = Markov()
    fidelity_prompts: Annotated[int, Field(ge=0)] = 8
    arrival: Arrival = Lockstep()
    slo: Slo | None = None
    sessions: Sessions | None = None
    prefix: Prefix | None = None
    prompts: Prompts = Synthetic()


Workload = Annotated[TrainingWorkload | InferenceWorkload, Field(discriminator="kind")]
