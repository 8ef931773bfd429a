"""Bytes that training keeps per parameter: weights, gradients, master copy and optimizer state."""

from __future__ import annotations

from dataclasses import dataclass, replace

from twinlens.errors import BadInput, nearest
from twinlens.spec.precision import BITS, Precision


@dataclass(frozen=True, slots=True)
class Layout:
    """Bytes per parameter in training with Adam-like state, and per activation element.

    `cast` is the low-precision copy of fp32 weights that autocast keeps until backward has used it.
    """

    weights: float
    gradients: float
    master: float
    optimizer: float
    activations: float = 2.0
    cast: float = 0.0

    @property
    def total(self) -> float:
        """Bytes per parameter, activations aside."""
        return self.weights + self.cast + self.gradients + self.master + self.optimizer


OPTIMIZERS: dict[str, float] = {
    "adamw": 8.0,
    "adamw-bf16": 4.0,
    "adamw-8bit": 2 * (1 + 4 / 256),
    "lion": 4.0,
    "momentum": 4.0,
    "muon": 4.0,
    "sgd": 0.0,
}
"""Bytes of optimizer state per parameter, by name. Two moments, in fp32, bf16, or 8 bits with a scale per 256 (arXiv
2110.02861); one moment for Lion, momentum and Muon."""
LAYOUTS: dict[str, Layout] = {
    "fp32": Layout(4, 4, 0, 8, activations=4),
    "16-bit-autocast": Layout(4, 4, 0, 8, cast=2),
    "16-bit-no-master": Layout(2, 2, 0, 8),
    "16-bit-fp32-master": Layout(2, 2, 4, 8),
    "16-bit-fp32-master-and-gradients": Layout(2, 4, 4, 8),
    "16-bit-pure": Layout(2, 2, 0, 4),
    "16-bit-8-bit-optimizer": Layout(2, 2, 0, OPTIMIZERS["adamw-8bit"]),
}
"""Usual layouts with AdamW, by name: 16, 18, 12, 16, 18, 8 and 6.03 bytes per parameter."""


def layout_of(precision: Precision, optimizer_states: int = 2) -> Layout:
    """The layout of a training precision. `optimizer_states` is 2 for Adam, 1 for momentum, 0 for plain SGD.

    Where master and weights share a format they are one copy; narrower activations then mean a cast copy.
    """
    classes = precision.classes("training")
    size = {name: BITS[form] / 8 for name, form in classes.items()}
    shared = classes["master"] == classes["weights"]
    narrower = size["activations"] < size["weights"]
    # fp8 products keep their inputs for backward as autocast made them, in bf16, and quantise them again.
    kept = max(size["activations"], 2.0)
    return Layout(
        weights=size["weights"],
        gradients=size["gradients"],
        master=0.0 if shared else size["master"],
        optimizer=optimizer_states * size["optimizer"],
        activations=kept,
        cast=size["activations"] if narrower else 0.0,
    )


def with_optimizer(layout: Layout, optimizer: str) -> Layout:
    """The same layout with another optimizer's state. Raises BadInput for one that is not known."""
    if optimizer not in OPTIMIZERS:
        raise BadInput(f"unknown optimizer {optimizer!r}; {nearest(optimizer, OPTIMIZERS)}")
    return replace(layout, optimizer=OPTIMIZERS[optimizer])
