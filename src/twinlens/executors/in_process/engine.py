"""The protocol of an engine in this process that is not torch, and the evidence it gives before the first row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from twinlens.executors.in_process.player import Gained, Running, Stepper
from twinlens.executors.in_process.torch_work import Linear
from twinlens.executors.protocol import TakesRow
from twinlens.record.executor.record import Fact
from twinlens.record.finding import Finding
from twinlens.schedule.request import Schedule, ScheduledRequest
from twinlens.spec.model.reference import ModelRef
from twinlens.spec.study import RunSpec


@dataclass(frozen=True, slots=True)
class Evidence:
    """What ran in one batch of the run's own shape.

    `held`: bytes by tensor class ("weights", "kv") and format. `ran`: by phase, the share of the FLOP of products with
    weights by the format that they were computed in, largest first: a fast product counts no less than a slow one.
    `missing`: why nothing is known of what ran. `facts`: of the engine, by field id. `left`: tensor classes (and
    "compute") whose format the spec leaves to the runtime: what is found there is what it ships, and differs from
    nothing.
    """

    held: Mapping[str, Mapping[str, int]]
    ran: Mapping[str, Mapping[str, float]]
    missing: str
    facts: Mapping[str, Fact]
    memory: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    left: tuple[str, ...] = ()


class Engine(Protocol):
    """A model that is loaded and answers batches."""

    def answer(self, batch: np.ndarray, tokens: int) -> tuple[int, list[int]]:
        """Answer prompts (batch, length) with `tokens` tokens each, or classify pixels (`tokens` is 0): when it began
        and when each token was there, on the monotonic clock, in ns."""
        ...

    def log_probabilities(self, one: np.ndarray) -> np.ndarray:
        """Of one prompt (1, length): (length, vocabulary) fp32; of one image: (1, classes)."""
        ...

    def evidence(self, batch: np.ndarray) -> Evidence:
        """What ran in one batch of this shape; nothing of it is timed."""
        ...

    def close(self) -> None:
        """Release the model."""
        ...


@runtime_checkable
class Batches(Protocol):
    """An engine that takes requests at any time and batches them itself."""

    def stepper(self, prompt: Callable[[ScheduledRequest], np.ndarray]) -> Stepper:
        """A player with a clock of its own; `prompt` gives the token ids of a request, (length,)."""
        ...

    def play(self, schedule: Schedule, rows: TakesRow, prompt: Callable[[ScheduledRequest], np.ndarray]) -> None:
        """As `Server.play`; `prompt` as for `stepper`."""
        ...


class Steps(Protocol):
    """A runtime's own engine, which batches requests itself, step by step."""

    def begin(self, ids: np.ndarray, tokens: int) -> Any:
        """Give it a prompt, (length,), to be answered with so many tokens; its handle."""
        ...

    def step(self, running: list[Running]) -> list[Gained]:
        """One step for all that run."""
        ...

    def evidence(self, found: Evidence, batch: np.ndarray) -> Evidence:
        """What was found of the same export without it, with what is other in it."""
        ...

    def close(self) -> None:
        """Release it."""
        ...


class SteppedEngine:
    """An engine that takes requests at any time, in this thread: what is due is begun, then one step is done for all.

    `beside`: loads the same export without it, for evidence and comparisons, when that is first wanted: it is no part
    of the engine's load, and its copy of the weights is let go of before the first row.
    """

    def __init__(self, steps: Steps, beside: Callable[[], Engine]) -> None:
        self._steps, self._beside = steps, beside
        self._plain: Engine | None = None
        self._player: Stepper | None = None

    def answer(self, batch: np.ndarray, tokens: int) -> tuple[int, list[int]]:
        return self._of_evidence().answer(batch, tokens)

    def log_probabilities(self, one: np.ndarray) -> np.ndarray:
        return self._of_evidence().log_probabilities(one)

    def evidence(self, batch: np.ndarray) -> Evidence:
        return self._steps.evidence(self._of_evidence().evidence(batch), batch)

    def stepper(self, prompt: Callable[[ScheduledRequest], np.ndarray]) -> Stepper:
        return Stepper(lambda one: self._steps.begin(prompt(one), one.output_tokens), self._steps.step)

    def play(self, schedule: Schedule, rows: TakesRow, prompt: Callable[[ScheduledRequest], np.ndarray]) -> None:
        self._plain = None
        if self._player is None:
            self._player = self.stepper(prompt)
        self._player.play(schedule, rows)

    def close(self) -> None:
        self._plain = self._player = None
        self._steps.close()

    def _of_evidence(self) -> Engine:
        if self._plain is None:
            self._plain = self._beside()
        return self._plain


def cache_elements_of_a_token(ref: ModelRef) -> int:
    """Keys and values of all layers of a decoder."""
    config = ref.config
    heads = int(config.get("num_key_value_heads") or config["num_attention_heads"])
    width = int(config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"])
    return 2 * int(config["num_hidden_layers"]) * heads * width


@dataclass(frozen=True, slots=True)
class Runtime:
    """One runtime: how its export is made, and how that is loaded.

    `name`: of the folder of its exports. `made_by`: versions and options that decide the bytes of an export of this
    spec. `make`: writes it into a folder, from a Hugging Face folder of weights. `linears`: (out, in, stored format) of
    every linear layer of an export. `load`: (export, spec, model, threads) to an engine.
    """

    name: str
    made_by: Callable[[RunSpec], str]
    make: Callable[[RunSpec, Path, Path], None]
    linears: Callable[[Path], list[Linear]]
    load: Callable[[Path, RunSpec, ModelRef, int], Engine]
