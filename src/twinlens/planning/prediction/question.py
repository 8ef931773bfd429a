"""Questions to the model, in the words of a plan: one device type, one layout, one load, or one training step."""

from __future__ import annotations

from dataclasses import dataclass

from twinlens.errors import BadInput
from twinlens.planning.prediction.work import Stored, kept_cache, stored
from twinlens.planning.subject import Subject
from twinlens.spec.device import Device
from twinlens.spec.model.shape import DecoderShape

_ENGINES = {"tensorrt-llm": "trtllm", "llama-cpp": "llama.cpp"}


def engine_of(kind: str) -> str:
    """The engine of public measurements that a kind of executor is; its own name where they have that."""
    return _ENGINES.get(kind, kind)


@dataclass(frozen=True, slots=True)
class ServingQuestion:
    """One copy of a model under load. Either `users` in a closed loop or `requests_per_s` at random, not both.

    `devices` = tensor · data · pipeline. `engine` and `release` choose fitted factors; one that is not known gets none.
    Raises BadInput for a load that is none, for lengths below 1, and (TL231) for a degree that the heads forbid.
    """

    model: str
    shape: DecoderShape
    device: Device
    precision: str
    prompt: float
    answer: float
    users: float | None = None
    requests_per_s: float | None = None
    tensor: int = 1
    data: int = 1
    pipeline: int = 1
    engine: str = "unknown"
    release: str = ""
    subject: Subject | None = None
    """The model with its weights as a file or its maker stores them; None: as `precision` alone says."""
    kv_bytes: float | None = None
    """Bytes of a cached element; None: as the engine keeps it beside such weights."""

    def __post_init__(self) -> None:
        if (self.users is None) == (self.requests_per_s is None):
            raise BadInput("a load is a number of users or a rate of requests; give one of the two")
        load = self.users if self.users is not None else self.requests_per_s
        if load is None or not 0 < load < 1e12:
            raise BadInput(f"a load must be above 0, not {load}")
        if not (self.prompt >= 1 and self.answer >= 1):
            raise BadInput(f"a prompt and an answer have at least 1 token, not {self.prompt:g} and {self.answer:g}")
        if self.tensor < 1 or self.shape.heads % self.tensor:
            legal = ", ".join(str(each) for each in range(1, self.shape.heads + 1) if self.shape.heads % each == 0)
            what = f"{self.shape.heads} heads do not divide by a tensor degree of {self.tensor}"
            raise BadInput(f"{what}; take one of {legal}", code="TL231")
        if self.data < 1 or not 1 <= self.pipeline <= self.shape.layers:
            raise BadInput(f"a pipeline has 1 to {self.shape.layers} stages and groups are at least 1")

    @property
    def kept(self) -> Stored:
        """How weights and cache are stored, and the format of products."""
        cache = kept_cache(self.precision, self.engine)[1] if self.kv_bytes is None else self.kv_bytes
        return stored(self.precision, self.shape, cache)

    @property
    def devices(self) -> int:
        return self.tensor * self.data * self.pipeline


@dataclass(frozen=True, slots=True)
class TrainingQuestion:
    """One optimizer step of `sequences` of `length` tokens. Raises BadInput for a layout that does not divide."""

    model: str
    shape: DecoderShape
    device: Device
    precision: str
    devices: int
    sequences: float
    length: float
    microbatch: float = 1.0
    tensor: int = 1
    pipeline: int = 1
    virtual: int = 1
    context: int = 1
    expert: int = 1
    gathered: bool = False
    recompute: bool = False
    adapters: bool = False
    engine: str = "unknown"
    release: str = ""
    subject: Subject | None = None
    """The model as it was named; None: the layers alone."""

    @property
    def metric(self) -> str:
        """What its bands are kept by."""
        return "training step of experts" if self.shape.experts else "training step"

    def __post_init__(self) -> None:
        share = self.tensor * self.pipeline * self.context
        if share < 1 or self.devices < 1 or self.devices % share:
            raise BadInput(f"{self.devices} devices do not divide into groups of {share}")
        if not (self.sequences >= 1 and self.length >= 1 and self.microbatch > 0):
            raise BadInput("a step has at least one sequence of one token, and a microbatch above 0")
        if self.sequences < self.devices // share:
            copies = self.devices // share
            raise BadInput(f"a batch of {self.sequences:g} sequences leaves some of {copies} copies without work")
