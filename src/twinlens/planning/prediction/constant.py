"""Fitted constants: a value for each, and factors for the engine, the architecture and the format of a question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]
Values = Any
"""One attribute per constant: numbers, or arrays with an entry per question."""


@dataclass(frozen=True, slots=True)
class Prior:
    """Where a constant is expected before any data, and how far (as a standard deviation of its logarithm)."""

    value: float
    spread: float


@dataclass(frozen=True, slots=True)
class Constants:
    """`base` and the factors of groups ("engine:vllm", "arch:Hopper"), all as natural logarithms."""

    base: Mapping[str, float]
    factors: Mapping[str, Mapping[str, float]]

    def logs(self, groups: Sequence[Sequence[str]], names: Sequence[str]) -> Array:
        """Logarithms, one row per question and one column per name; factors of other names are left out."""
        table = np.array([[self.base[name] for name in names]] * len(groups))
        column = {name: i for i, name in enumerate(names)}
        for row, labels in enumerate(groups):
            for label in labels:
                for name, factor in self.factors.get(label, {}).items():
                    if name in column:
                        table[row, column[name]] += factor
        return table

    def at(self, groups: Sequence[str]) -> Values:
        """The constants for one question."""
        row = self.logs([groups], list(self.base))[0]
        return SimpleNamespace(**{name: float(np.exp(value)) for name, value in zip(self.base, row, strict=True)})


def values(names: Sequence[str], logs: Array) -> Values:
    """Columns of logarithms as attributes."""
    return SimpleNamespace(**{name: np.exp(logs[:, i]) for i, name in enumerate(names)})


# Priors: the value of each constant before any data, and how far groups may move it.

SERVING: dict[str, Prior] = {
    "eta_weights": Prior(0.8, 0.15),  # share of the memory's bandwidth while weights are read
    "eta_experts": Prior(0.65, 0.25),  # while chosen experts are read
    "eta_cache": Prior(0.65, 0.2),  # while keys and values are read
    "eta_decode": Prior(0.5, 0.6),  # share of the matrix rate in decode
    "eta_prefill": Prior(0.7, 0.4),  # in prefill
    "eta_prefill_experts": Prior(0.4, 0.6),
    "eta_attention": Prior(0.4, 0.6),  # of the 16-bit rate, in attention of prefill
    "step_s": Prior(1.5e-3, 1.0),  # per step: scheduler, sampler, synchronisation
    "layer_s": Prior(2e-5, 1.0),  # per layer: launches, norms, small kernels
    "sequence_s": Prior(2e-5, 1.2),  # per sequence and step
    "token_s": Prior(5e-7, 0.7),  # per prompt token
    "hop_s": Prior(8e-6, 1.0),  # latency of a collective, times log2 of the ranks
    "eta_link": Prior(0.5, 0.6),
    "arrive_s": Prior(3e-2, 0.5),  # per request before its prefill: HTTP, tokenising, admission
    "interfere": Prior(1.0, 0.3),  # how much of a prefill the others feel
    "burst": Prior(0.12, 0.5),  # share of the other users who ask at the same moment, in a closed loop
    "mixed": Prior(0.5, 0.4),  # share of a step that decode and prefill have in common
    "saturation": Prior(1.0, 0.3),  # offline throughput over that which latencies under load would give
}
SERVING_SPREAD = {
    "engine": 0.35, "arch": 0.2, "vendor": 0.25, "format": 0.2, "experts": 0.3, "latent": 0.3, "engine+arch": 0.2,
    "recurrent": 0.5, "disaggregated": 0.4, "scenario": 0.5, "release": 0.25, "era": 0.5,
}  # fmt: skip
TRAINING: dict[str, Prior] = {
    "eta_train": Prior(0.75, 0.3),  # share of the matrix rate, for large products
    "eta_train_experts": Prior(0.5, 0.5),
    "eta_train_attention": Prior(0.5, 0.5),
    "half_tokens": Prior(300.0, 1.0),  # tokens of a microbatch at which products reach half of that
    "half_expert_tokens": Prior(500.0, 1.0),  # per expert
    "touches": Prior(12.0, 0.7),  # times that an activation as wide as the model moves per layer and pass
    "exposed_tensor": Prior(0.3, 0.7),  # share of communication that no work hides, over the share of the link used
    "exposed_expert": Prior(0.3, 0.7),
    "exposed_data": Prior(0.3, 0.8),
    "exposed_gather": Prior(0.2, 0.8),
    "launch_s": Prior(1e-4, 1.0),  # per layer and pass
    "train_step_s": Prior(1e-2, 1.0),
}
TRAINING_SPREAD = {
    "engine": 0.3, "arch": 0.25, "format": 0.25, "experts": 0.3, "latent": 0.2, "release": 0.15, "adapters": 0.3,
    "recurrent": 0.3,
}  # fmt: skip
