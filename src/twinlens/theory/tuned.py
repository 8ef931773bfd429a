"""Fine-tuning of a spec as theory sees it: how many parameters are trained, beside how many bytes that stay."""

from __future__ import annotations

from dataclasses import dataclass, replace

from twinlens.spec.model.shape import DecoderShape, ModelShape
from twinlens.spec.precision import BITS, Precision
from twinlens.spec.workload.adapter import Adapter
from twinlens.spec.workload.workload import TrainingWorkload
from twinlens.theory.activation import activation_bytes, logits_bytes
from twinlens.theory.adapter import (
    ALL_LINEAR,
    ATTENTION,
    adapter_flop_per_token,
    adapter_memory,
    adapter_parameters,
    magnitude_parameters,
    spared_flop_per_token,
)
from twinlens.theory.layout import LAYOUTS, Layout
from twinlens.theory.memory import Checkpointing
from twinlens.theory.parameter import parameters
from twinlens.theory.sharding import ShardedMemory
from twinlens.theory.weight_format import stored_bytes, weight_format


@dataclass(frozen=True, slots=True)
class Tuned:
    """Adapters of `rank` on the projections `targets` of every layer of a dense decoder, AdamW in fp32 on them.

    `magnitudes`: DoRA's are trained too. `frozen_bytes`: of the weights below. `activation_width`: bytes an element.
    """

    shape: DecoderShape
    rank: int
    targets: tuple[str, ...]
    magnitudes: bool
    frozen_bytes: float
    activation_width: float

    @property
    def parameters(self) -> int:
        """How many are trained: r·(in + out) for each projection, and DoRA's magnitudes."""
        more = magnitude_parameters(self.shape, self.targets) if self.magnitudes else 0
        return int(adapter_parameters(self.shape, self.rank, self.targets)) + more

    @property
    def layout(self) -> Layout:
        """Bytes for each trained parameter."""
        return replace(LAYOUTS["fp32"], activations=self.activation_width)

    def flop_per_token(self, seq_len: int) -> float:
        """FLOP that a step needs; not those of DoRA's norms of whole columns, which it computes besides."""
        whole = adapter_flop_per_token(self.shape, seq_len, self.rank, self.targets)
        return float(whole - spared_flop_per_token(self.shape, self.rank, self.targets))

    def step_bytes(self, microbatch: int, seq_len: int, accumulation: int) -> float:
        """Compulsory bytes of a step: weights and adapter read forward and backward, activations written and read."""
        layout, trained = self.layout, self.parameters
        kept = activation_bytes(self.shape, microbatch, seq_len, bytes_per_element=layout.activations)
        kept = kept + logits_bytes(self.shape, microbatch, seq_len, layout.activations)
        each = float(accumulation * (self.frozen_bytes + trained * layout.weights + kept))
        gradients = trained * layout.gradients * (2 * accumulation - 1)
        updated = trained * (layout.gradients + 2 * layout.weights + 2 * layout.optimizer)
        return 2 * each + gradients + updated

    def memory(self, microbatch: int, seq_len: int, checkpointing: Checkpointing = "none") -> ShardedMemory:
        """Bytes at the peak of a step; activations are those of full training, an upper bound."""
        found = adapter_memory(
            self.shape, self.frozen_bytes, self.layout, self.rank, self.targets, microbatch, seq_len, checkpointing
        )
        more = self.parameters - int(adapter_parameters(self.shape, self.rank, self.targets))
        return replace(
            found,
            weights_bytes=found.weights_bytes + 4.0 * more,
            gradients_bytes=found.gradients_bytes + 4.0 * more,
            optimizer_bytes=found.optimizer_bytes + 8.0 * more,
        )


def tuned(workload: object, shape: ModelShape | None, regime: Precision) -> Tuned | None:
    """None where all weights are trained, and for a model or layers that theory has no formula for."""
    if not isinstance(workload, TrainingWorkload) or not isinstance(shape, DecoderShape):
        return None
    adapter = workload.trained_adapter
    targets = None if adapter is None else _targets(adapter, shape)
    if adapter is None or targets is None:
        return None
    classes = regime.classes("training")
    width = BITS[classes["activations"]]
    return Tuned(
        shape, adapter.r, targets, workload.method == "dora", _frozen_bytes(shape, classes["weights"], width), width / 8
    )


def _targets(adapter: Adapter, shape: ModelShape | None) -> tuple[str, ...] | None:
    """The projections that theory knows by the names of modules; None where one is none of them."""
    if not isinstance(shape, DecoderShape):
        return None
    if shape.experts or shape.mla or shape.recurrent or shape.cross_attention_layers:
        return None
    known = ALL_LINEAR if shape.gated_mlp else (*ATTENTION, "up", "down")
    names = adapter.target_modules
    targets = known if names == "all-linear" else tuple(name.removesuffix("_proj") for name in names)
    return targets if set(targets) <= set(known) else None


def _frozen_bytes(shape: DecoderShape, held: str, width: int) -> float:
    """Bytes of weights that stay: all in one format, or the layers' matrices in NF4 and the rest `width` bits wide."""
    if held != "nf4":
        return parameters(shape).total * BITS[held] / 8
    kept = weight_format("nf4-double")
    return stored_bytes(shape, replace(kept, table=width, head=width, other=width))
