"""LoRA (arXiv 2106.09685) and QLoRA (2305.14314): adapters of low rank beside weights that stay as they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from twinlens.errors import BadInput, nearest
from twinlens.spec.model.shape import DecoderShape, ModelShape
from twinlens.spec.precision import BITS, Precision
from twinlens.theory.activation import Attention, Checkpointing, activation_bytes, logits_bytes
from twinlens.theory.attention import recurrent_flop_per_token, seen_flop
from twinlens.theory.memory import LAYOUTS, Layout
from twinlens.theory.number import Number, amount, count
from twinlens.theory.parameter import cross_attention_weights, parameters
from twinlens.theory.sharding import ShardedMemory
from twinlens.theory.weight_format import stored_bytes, weight_format

if TYPE_CHECKING:
    from twinlens.spec.workload.workload import Adapter

ATTENTION = ("q", "k", "v", "o")
MLP = ("gate", "up", "down")
ALL_LINEAR = (*ATTENTION, *MLP)


def adapter_parameters(
    shape: DecoderShape, rank: Number, targets: Sequence[str] | None = None, *, active: bool = False
) -> Number:
    """Parameters of adapters of `rank` on these projections of every layer, None: on all of them; r·(in + out) each.

    Every routed expert has its own; `active` counts only those of the experts that a token passes. Recurrent layers
    have none. Raises BadInput for an unknown projection.
    """
    widths = _widths(shape)
    targets = tuple(widths) if targets is None else targets
    for name in targets:
        if name not in widths:
            raise BadInput(f"no projection {name!r} for an adapter; {nearest(name, widths)}")
    return count("rank", rank) * sum(widths[name][1 if active else 0] for name in targets)


def magnitude_parameters(shape: DecoderShape, targets: Sequence[str] = ALL_LINEAR) -> int:
    """What DoRA (arXiv 2402.09353) trains beside the same adapters: one magnitude for each output of each projection.

    For dense layers, whose projections are no experts.
    """
    outputs = _first_outputs(shape) | {
        "o": shape.hidden,
        "gate": shape.intermediate,
        "up": shape.intermediate,
        "down": shape.hidden,
    }
    every = shape.attention_layers * sum(outputs[name] for name in targets if name in ATTENTION)
    return every + shape.layers * sum(outputs[name] for name in targets if name in MLP)


def spared_flop_per_token(shape: DecoderShape, rank: Number, targets: Sequence[str] = ALL_LINEAR) -> Number:
    """FLOP of `adapter_flop_per_token` that a step need not do: nothing before the first layer takes a gradient.

    So its queries, keys and values, and their adapters' inner halves, are not multiplied back to their input.
    """
    outputs = _first_outputs(shape)
    inner = count("rank", rank) * sum(name in targets for name in outputs)
    return 2.0 * shape.hidden * (sum(outputs.values()) + inner)


def _first_outputs(shape: DecoderShape) -> dict[str, int]:
    """Outputs of the projections that read a layer's input."""
    queries = shape.heads * shape.head_dim * (2 if shape.output_gate else 1)
    return {"q": queries, "k": shape.kv_heads * shape.head_dim, "v": shape.kv_heads * shape.value_head_dim}


def _widths(shape: DecoderShape) -> dict[str, tuple[int, int]]:
    """In + out of each projection, summed over layers: of all weights, and of those that one token passes."""
    hidden, layers = shape.hidden, shape.attention_layers + shape.cross_attention_layers
    out = shape.heads * shape.value_head_dim
    queries = shape.heads * shape.head_dim * (2 if shape.output_gate else 1)
    sizes = {"o": layers * (hidden + out)}
    if shape.mla is None:
        sizes = _grouped_widths(shape)
    else:
        mla, up = shape.mla, shape.heads * (shape.mla.qk_nope_head_dim + shape.mla.v_head_dim)
        sizes |= {"kv_a": layers * (hidden + mla.kv_lora_rank + mla.qk_rope_head_dim),
                  "kv_b": layers * (mla.kv_lora_rank + up)}  # fmt: skip
        sizes |= {"q": layers * (hidden + queries)} if not mla.q_lora_rank else {
            "q_a": layers * (hidden + mla.q_lora_rank), "q_b": layers * (mla.q_lora_rank + queries),
        }  # fmt: skip
    dense = shape.dense_layers * (hidden + shape.intermediate) + shape.double_mlp_layers * shape.intermediate
    every = working = dense
    if shape.experts:
        shared = (hidden + shape.experts.shared_width) if shape.experts.shared_width else 0
        one = (shape.experts.latent or hidden) + shape.experts.intermediate
        every += shape.expert_layers * (shape.experts.count * one + shared)
        working += shape.expert_layers * (shape.experts.per_token * one + shared)
    names = MLP if shape.gated_mlp else ("up", "down")
    return {name: (size, size) for name, size in sizes.items()} | dict.fromkeys(names, (every, working))


def _grouped_widths(shape: DecoderShape) -> dict[str, int]:
    """In + out of the projections of attention, over layers with and without a window; shared keys have none."""
    hidden, sizes = shape.hidden, dict.fromkeys(ATTENTION, 0)
    windowed = shape.windowed_layers + shape.cross_attention_layers
    for view, layers, shared in ((shape.full_view, shape.full_layers, shape.shared_kv_full),
                                 (shape, windowed, shape.shared_kv_windowed)):  # fmt: skip
        outputs = _first_outputs(view)
        sizes["q"] += layers * (hidden + outputs["q"])
        sizes["k"] += (layers - shared) * (hidden + outputs["k"])
        sizes["v"] += 0 if view.keys_are_values else (layers - shared) * (hidden + outputs["v"])
        sizes["o"] += layers * (hidden + view.heads * view.value_head_dim)
    return sizes


def adapter_flop_per_token(
    shape: DecoderShape, seq_len: Number, rank: Number, targets: Sequence[str] | None = None
) -> Number:
    """FLOP to train adapters on one token, attention causal: 4·N (forward, gradients of inputs) + 6·adapters.

    Gradients of the frozen weights are not computed; attention has no weights, and costs three times its forward pass.
    """
    frozen = 2.0 * (parameters(shape).matmul - cross_attention_weights(shape))
    inside = seen_flop(shape, seq_len, causal=True) + recurrent_flop_per_token(shape)
    return 2 * frozen + 3 * inside + 6.0 * adapter_parameters(shape, rank, targets, active=True)


def adapter_memory(
    shape: DecoderShape,
    frozen_bytes: Number,
    layout: Layout,
    rank: Number,
    targets: Sequence[str],
    microbatch: Number,
    seq_len: Number,
    checkpointing: Checkpointing = "none",
    attention: Attention = "fused",
) -> ShardedMemory:
    """Bytes on one device to train adapters beside `frozen_bytes` of weights (QLoRA: `stored_bytes` in "nf4-double").

    `layout` is that of the adapters. Activations are those of full training: an upper bound, as the input of a frozen
    product without an adapter need not be kept.
    """
    trained = adapter_parameters(shape, rank, targets)
    return ShardedMemory(
        weights_bytes=amount("frozen_bytes", frozen_bytes) + trained * (layout.weights + layout.cast),
        gradients_bytes=trained * layout.gradients,
        master_bytes=trained * layout.master,
        optimizer_bytes=trained * layout.optimizer,
        gathered_bytes=0.0,
        activations_bytes=activation_bytes(shape, microbatch, seq_len, checkpointing, attention, layout.activations),
        logits_bytes=logits_bytes(shape, microbatch, seq_len, layout.activations),
    )


# Fine-tuning of a spec as theory sees it: how many parameters are trained, beside how many bytes that stay.


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
    from twinlens.spec.workload.workload import TrainingWorkload  # a plan has none

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
