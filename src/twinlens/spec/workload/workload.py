"""The workloads, with no common parent: training counts optimizer steps, inference requests, a collective exchanges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from twinlens.spec.frozen import Spec
from twinlens.spec.slo import Slo
from twinlens.spec.workload.arrival import Arrival, Lockstep
from twinlens.spec.workload.length import AnswerLength, Fixed, Length
from twinlens.spec.workload.prompt import Generate, Prefix, Prompts, Sessions, Synthetic, Task

# A collective as a workload: ranks that exchange one buffer, again and again.

Exchange = Literal["all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast", "send"]
LARGEST_BYTES = 2**40
BUS_PARTS: dict[str, Callable[[Any], Any]] = {
    "all-reduce": lambda ranks: 2 * (ranks - 1) / ranks,
    "all-gather": lambda ranks: (ranks - 1) / ranks,
    "reduce-scatter": lambda ranks: (ranks - 1) / ranks,
    "all-to-all": lambda ranks: (ranks - 1) / ranks,
}
"""The part of a buffer that passes a link, by exchange and number of ranks (one or an array), as nccl-tests define it
(doc/PERFORMANCE.md); of the others all of it."""


class CollectiveWorkload(Spec):
    """One exchange between ranks at one size. One row is one exchange.

    It trains nothing and answers nothing: its figures stand in a table of their own, beside neither lens of a model.
    """

    kind: Literal["collective"]
    exchange: Exchange = Field(
        description='What the ranks do together; "send": each sends to the next and receives from the one before.',
        examples=["all-reduce"],
    )
    size_bytes: int = Field(
        ge=4,
        le=LARGEST_BYTES,
        description="Bytes of the whole buffer, as nccl-tests count them: of a gather or scatter those of all ranks.",
        examples=[1048576],
    )

    @property
    def model(self) -> str:
        """The exchange, in the place where other workloads name their model: there is none."""
        return self.exchange

    def bus_factor(self, ranks: int) -> float:
        """Bus bandwidth over algorithm bandwidth among so many ranks; 0 for one, which exchanges nothing."""
        if self.exchange in BUS_PARTS:
            return float(BUS_PARTS[self.exchange](ranks))
        return 1.0 if ranks > 1 else 0.0


# Training data that lies in files: read, decoded and put together while training goes on.


class Folder(Spec):
    """Files that a data loader reads: tokens of a text model, or encoded images of a vision model."""

    kind: Literal["folder"]
    path: str | None = Field(
        None,
        description="A folder of token files (*.bin of 16-bit numbers, *.npy), or of images in a folder for each class "
        "(*.jpg, *.png, *.npz); without it one is made once, of the known language or of random images.",
        examples=["shards"],
    )
    workers: NonNegativeInt = Field(
        0, description="Processes that read and decode ahead (torch's DataLoader); 0 reads in the training loop itself."
    )
    pages: Literal["warm", "cold"] = Field(
        "warm",
        description='What the page cache holds of the files when training begins: all of them ("warm"), or none.',
    )
    encoding: Literal["npz", "jpeg"] = Field(
        "npz", description="How images are encoded in a folder that is made; jpeg needs the extra images."
    )
    files: PositiveInt = Field(256, description="How many images a folder that is made holds.")


# Fine-tuning: which parameters are trained, in the words of PEFT and TRL.

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


class Markov(Spec):
    """A synthetic language whose entropy rate is known exactly, so that "converged" can be checked (no download)."""

    kind: Literal["markov"] = "markov"
    symbols: PositiveInt | None = Field(
        None, description="How many tokens of the vocabulary are in use; without it all of them.", examples=[256]
    )
    branches: PositiveInt = Field(8, description="Successors of each state.")
    exponent: NonNegativeFloat = Field(1.0, description="The Zipf exponent of the probabilities of successors.")


class Text(Spec):
    """A local UTF-8 text file, read as bytes (one token per byte: no tokenizer, no download)."""

    kind: Literal["text"]
    path: str = Field(
        description="A local UTF-8 text file, read as bytes: one token per byte.", examples=["corpus.txt"]
    )


class Images(Spec):
    """Random images and labels: speed does not depend on their values."""

    kind: Literal["images"] = "images"


class Own(Spec):
    """Data of a loop that `tl.watch` measures, or of a trainer's log: only how much a step takes is known."""

    kind: Literal["own"] = "own"


Data = Annotated[Markov | Text | Images | Folder | Own, Field(discriminator="kind")]


class LossTarget(Spec):
    """When training may stop: the held-out loss within `gap_nats` of the language's entropy rate, or at `loss_nats`.

    It is looked at every `every_steps` optimizer steps on `batches` fixed held-out batches.
    """

    gap_nats: PositiveFloat | None = Field(
        None,
        description="Training may stop at a held-out loss so near to the entropy rate of the language.",
        examples=[0.1],
    )
    loss_nats: PositiveFloat | None = Field(
        None, description="Training may stop at this held-out loss.", examples=[3.0]
    )
    every_steps: PositiveInt = Field(
        10, description="How many optimizer steps lie between two looks at the held-out loss."
    )
    batches: PositiveInt = Field(4, description="How many held-out batches a look takes.")


class Checkpoint(Spec):
    """Saving weights, optimizer state and progress while training goes on; `checkpointing` is of activations.

    A save blocks the step after which it comes. "sync" blocks until all of it is on storage; "async" until it is copied
    aside, and writes while the next steps go on.
    """

    every_steps: PositiveInt = Field(description="How many optimizer steps lie between two saves.", examples=[20])
    mode: Literal["sync", "async"] = Field(
        "sync", description='Whether a step waits until its save is on storage; "async" writes beside later steps.'
    )
    folder: str | None = Field(
        None,
        description="A folder on the storage to be measured; without it that of temporary files. The last two saves "
        "are kept there while the run lasts, and removed with it.",
        examples=["/mnt/nvme"],
    )


class TrainingWorkload(Spec):
    """Fixed batches in a loop. One row is one optimizer step."""

    kind: Literal["training"]
    model: str = Field(
        description="The model: a catalogue name (`twinlens list models`), a Hugging Face folder, or a config.json.",
        examples=["demo-34m"],
    )
    global_batch: PositiveInt = Field(description="Sequences (or images) per optimizer step.", examples=[8])
    seq_len: PositiveInt = Field(256, description="Tokens per sequence; images have none.")
    optimizer: Literal["adamw", "own"] = Field(
        "adamw", description='The optimizer; "own" is that of a loop that `tl.watch` measured or of a trainer\'s log.'
    )
    learning_rate: PositiveFloat = Field(1e-3, description="The learning rate, constant.")
    method: Method = Field(
        "full",
        description="What is trained: all weights (full), or an adapter beside weights that stay (lora, dora; qlora "
        "holds those in 4 bits).",
    )
    adapter: Adapter | None = Field(
        None,
        examples=[{"r": 16, "target_modules": ["q_proj", "v_proj"]}],
        description="The adapter that lora, dora and qlora train; without it r is 8 on all linear layers.",
    )
    checkpointing: bool = Field(
        False, description="Compute activations again in the backward pass instead of keeping them."
    )
    data: Data = Field(Markov(), description="What the model learns from.")
    until: LossTarget | None = Field(
        None,
        examples=[{"gap_nats": 0.1}],
        description="Train until a target loss is reached; the time to it is measured.",
    )
    checkpoint: Checkpoint | None = Field(
        None,
        examples=[{"every_steps": 20}],
        description="Save weights, optimizer state and progress while training goes on, and measure what that costs.",
    )
    save: bool = Field(
        False,
        description="Keep what was trained in the run folder: the weights as a Hugging Face folder (config.json and "
        "safetensors), an adapter as PEFT's.",
    )

    @property
    def trained_adapter(self) -> Adapter | None:
        """The adapter that is trained; None where all weights are."""
        return None if self.method == "full" else self.adapter or Adapter()


class InferenceWorkload(Spec):
    """Requests. One row is one request: a prompt and its answer, or one image.

    Lengths are drawn from `input_tokens` and `output_tokens` (not for images); decoding is greedy and the answer's
    length is forced, so that every executor does the same work, unless it is free. Answers of other tasks than
    "generate" come in one piece and have no output tokens.
    """

    kind: Literal["inference"]
    model: str = Field(
        description="The model: a catalogue name (`twinlens list models`), a Hugging Face folder, or a config.json.",
        examples=["demo-34m"],
    )
    task: Task = Field(
        Generate(), description="What a request asks for; other tasks than generating are served over HTTP."
    )
    input_tokens: Length = Field(
        Fixed(value=256), description="Tokens of a prompt, or of each text or document; images have none."
    )
    output_tokens: AnswerLength = Field(
        Fixed(value=32),
        description='Tokens of an answer, which are forced; "free" leaves its length to the model (over HTTP).',
    )
    data: Data = Field(Markov(), description="What prompts are drawn from where tokens, not text, are sent.")
    adapter: Adapter | None = Field(
        None,
        examples=[{"r": 16}],
        description="A LoRA adapter with random values on the model that is served; the option `adapter` says how.",
    )
    fidelity_prompts: Annotated[int, Field(ge=0)] = Field(
        8, description="Prompts on which a lower precision is compared with fp32; 0 compares nothing."
    )
    arrival: Arrival = Field(
        Lockstep(), description="When requests are due; without it batches start together, one after another."
    )
    slo: Slo | None = Field(
        None,
        examples=["mlperf-llama3.1-8b"],
        description="What a good answer meets: limits, or the name of published ones.",
    )
    sessions: Sessions | None = Field(
        None,
        examples=[{"turns": {"kind": "fixed", "value": 4}}],
        description="Conversations instead of single requests, for a server over HTTP.",
    )
    prefix: Prefix | None = Field(
        None, examples=[{"tokens": 1024}], description="Beginnings that requests share, for a server over HTTP."
    )
    prompts: Prompts = Field(Synthetic(), description="The words of what is sent to a server over HTTP.")


ModelWorkload = TrainingWorkload | InferenceWorkload
"""A workload that runs a model."""
Workload = Annotated[TrainingWorkload | InferenceWorkload | CollectiveWorkload, Field(discriminator="kind")]
