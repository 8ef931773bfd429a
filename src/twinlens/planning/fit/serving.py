"""Memory of serving on each device, as figures that show their arithmetic."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from twinlens.planning.fit.runtime import VLLM, Measured, Runtime, corrected
from twinlens.planning.subject import Subject
from twinlens.record.finding import Finding
from twinlens.spec.model.shape import DecoderShape
from twinlens.theory.attention import kept_elements, kv_elements, state_bytes
from twinlens.theory.figure import Figure, Input, absent, assumed, product, total
from twinlens.theory.memory import kv_bytes
from twinlens.theory.number import Number, rounded_up
from twinlens.theory.parameter import expert_weights
from twinlens.theory.serving import ServingMemory, expert_share, kv_share, serving_memory, stage_share
from twinlens.theory.serving import most_sequences as sequences_in
from twinlens.theory.weight_format import WEIGHT_FORMATS, routed_bytes


@dataclass(frozen=True, slots=True)
class Serving:
    """What is to be served: a model in its formats, to `users` at once, each with `context` tokens in the cache.

    `sequences`: for which the runtime makes room when it samples; None: its default. `pipeline`: stages of layers.
    """

    subject: Subject
    weight_format: str = "bf16"
    kv_format: str = "fp16"
    kv_element_bytes: float = 2.0
    users: int = 1
    context: int = 8192
    runtime: Runtime = VLLM
    sequences: int | None = None
    pipeline: int = 1
    groups: int = 1
    """Of devices with attention, cache and users of their own, that share the experts."""
    like: tuple[Measured, ...] = ()
    """Parts that a run measured; they go before the arithmetic."""
    beside: tuple[Serving, ...] = ()
    """Other models on the same devices, each with a runtime of its own."""

    @property
    def users_each(self) -> int:
        """Of the fullest group."""
        return -(-self.users // self.groups)

    def __json__(self) -> dict[str, Any]:
        return {
            "lens": "inference",
            "model": self.subject.name,
            "weights": self.weight_format,
            "kv": self.kv_format,
            "users": self.users,
            "context": self.context,
            "runtime": self.runtime.name,
            "pipeline": self.pipeline,
            "groups": self.groups,
            "like": self.like,
            "beside": self.beside,
        }


def held(
    plan: Serving, memory_bytes: float, tensor: Number = 1, pipeline: Number | None = None,
    users: Number | None = None, groups: Number | None = None,
) -> ServingMemory:  # fmt: skip
    """Bytes on the fullest of `tensor` devices of each stage and group; arrays give a grid. `pipeline`, `users` and
    `groups` go before the plan's. Raises ValueError for a bare size, whose layers are not known."""
    shape, whole, options = _asked(plan, memory_bytes, tensor, pipeline, groups)
    return serving_memory(shape, whole, plan.users if users is None else users, plan.context, **options)


def most_sequences(
    plan: Serving, room_bytes: Number, memory_bytes: float, tensor: Number = 1, pipeline: Number | None = None,
    groups: Number | None = None,
) -> Number:  # fmt: skip
    """Users of all groups of which everything fits into `room_bytes` on each device, 0 for none: inverse of `held`."""
    shape, whole, options = _asked(plan, memory_bytes, tensor, pipeline, groups)
    return sequences_in(shape, room_bytes, whole, plan.context, **options)


def _asked(
    plan: Serving, memory_bytes: float, tensor: Number, pipeline: Number | None, groups: Number | None
) -> tuple[DecoderShape, float, dict[str, Any]]:
    """Arguments of `serving_memory`: the layers, bytes of all weights, and what follows from the runtime."""
    shape, runtime = plan.subject.shape, plan.runtime
    stages, apart = plan.pipeline if pipeline is None else pipeline, plan.groups if groups is None else groups
    if shape is None:
        raise ValueError("without layers nothing is known of a cache")
    whole = weights(plan.subject, plan.weight_format, 1, runtime.expert_block).number
    return shape, whole, {
        "kv_bytes_per_element": plan.kv_element_bytes, "block": runtime.block, "chunk_tokens": runtime.chunk_tokens,
        "score_bytes": runtime.score_bytes, "sampled": plan.sequences or runtime.most_sequences(memory_bytes),
        "runtime_bytes": _runtime_bytes(plan, tensor * stages * apart), "tensor_parallel": tensor, "pipeline": stages,
        "groups": apart, "routed_bytes": routed(plan.subject, plan.weight_format, runtime.expert_block),
    }  # fmt: skip


def _runtime_bytes(plan: Serving, devices: Number) -> Number:
    return plan.runtime.own_bytes + plan.runtime.group_bytes * (devices > 1)


def serving_parts(plan: Serving, memory_bytes: float, tensor: int = 1) -> tuple[Figure, ...]:
    """Bytes on the fullest of `tensor` devices a stage and group: weights, cache, activations, runtime."""
    many = tensor * plan.pipeline * plan.groups
    found = held(plan, memory_bytes, tensor) if plan.subject.shape else None
    whole = weights(plan.subject, plan.weight_format, many // plan.groups, plan.runtime.expert_block)
    parts = (
        whole if plan.groups == 1 else _shared(plan, whole, found, tensor),
        cache(plan, found, tensor),
        _work(plan, found, memory_bytes),
        Figure("runtime", _runtime_bytes(plan, many), "bytes", origin="quoted", source=plan.runtime.source),
    )
    others = (total(each.subject.name, "bytes", serving_parts(each, memory_bytes, tensor)) for each in plan.beside)
    return (*corrected(parts, plan.like), *others)


def _shared(plan: Serving, whole: Figure, found: ServingMemory | None, tensor: int) -> Figure:
    """Weights of one group with all experts, less the experts that are on devices of the others."""
    shape = plan.subject.shape
    if shape is None or found is None:
        raise ValueError("without layers nothing is known of experts")
    stages, part = plan.pipeline, expert_share(shape, tensor, plan.groups)
    everything = routed(plan.subject, plan.weight_format, plan.runtime.expert_block)
    experts = Input("experts", everything / stages, "bytes", f"all {shape.experts.count if shape.experts else 0}")
    share = Input("expert-share", 1 / tensor - part, "1", f"on devices of the other {plan.groups - 1} groups")
    one = replace(whole, name="weights-of-group")
    return Figure("weights", found.weights_bytes, "bytes", "{0} − {1} × {2}", (one, experts, share))


def cache(plan: Serving, found: ServingMemory | None, tensor: int = 1) -> Figure:
    """Bytes of keys and values, and of recurrent states, of all users on each device."""
    shape = plan.subject.shape
    if shape is None or found is None:
        unknown = Finding("plan-unknown", "warns", "kv", {"model": plan.subject.name, "needs": "layers"})
        return absent("kv", "bytes", unknown)
    source = f"of {plan.users}, on each of {plan.groups} groups" if plan.groups > 1 else None
    users = Input("users", plan.users_each, "users", *([source] if source else []))
    inputs: list[Input | Figure] = [users, one_user(plan, shape)]
    if (share := kv_share(shape, tensor)) != 1.0:
        inputs.append(Input("kv-share", share, "1", f"{shape.fewest_kv_heads} KV heads on {tensor} devices"))
    if plan.pipeline > 1:
        layers = round(stage_share(shape, plan.pipeline) * shape.layers)  # of the fullest stage
        inputs.append(Input("stage-share", layers / shape.layers, "1", f"{layers} of {shape.layers} layers"))
    return replace(product("kv", "bytes", inputs, law="kv"), value=found.kv_bytes)


def one_user(plan: Serving, shape: DecoderShape) -> Figure:
    """Bytes that the tokens of one user keep, whole pages of them."""
    value = kv_bytes(shape, plan.context, plan.kv_element_bytes, block=plan.runtime.block)
    size = Input("kv-element", plan.kv_element_bytes, "bytes", plan.kv_format)
    tokens = Input("context", plan.context, "tokens")
    plain = shape.mla is None and not shape.windowed_layers and not state_bytes(shape)
    plain = plain and kept_elements(shape)[0] == shape.layers * kv_elements(shape)
    if plain and plan.context % plan.runtime.block == 0:
        of_model = "the model's config"
        sizes = (Input("keys-and-values", 2, "1", "keys and values"), Input("layers", shape.layers, "layers", of_model),
                 Input("kv-heads", shape.kv_heads, "KV heads", of_model),
                 Input("head-dim", shape.head_dim, "wide", of_model))  # fmt: skip
        return product("kv-of-one", "bytes", (*sizes, size, tokens), law="kv-per-token")
    if shape.mla and not state_bytes(shape) and plan.context % plan.runtime.block == 0:
        rows = (Input("layers", shape.layers, "layers", "the model's config"),
                Input("latent", kv_elements(shape), "wide", "latent and rope"))  # fmt: skip
        return product("kv-of-one", "bytes", (*rows, size, tokens))
    return Figure("kv-of-one", value, "bytes", "", (tokens, size, *layer_kinds(shape)), source="theory/attention.py")


def layer_kinds(shape: DecoderShape) -> tuple[Input, ...]:
    """How many layers keep what: all tokens, a window of them, a latent, a state."""
    kinds = {
        "full-layers": shape.full_layers,
        "windowed-layers": shape.windowed_layers,
        "recurrent-layers": shape.recurrent.layers if shape.recurrent else 0,
    }
    found = [Input(name, many, "layers", "the model's config") for name, many in kinds.items() if many]
    if shape.windowed_layers:
        found.append(Input("window", shape.sliding_window or 0, "tokens", "the model's config"))
    if shape.mla:
        found.append(Input("latent", shape.mla.kv_lora_rank + shape.mla.qk_rope_head_dim, "wide", "the model's config"))
    return tuple(found)


def _work(plan: Serving, found: ServingMemory | None, memory_bytes: float) -> Figure:
    """The larger of one full pass of prefill and of one sampling of tokens; they are not alive together."""
    shape = plan.subject.shape
    if shape is None or found is None:
        unknown = Finding("plan-unknown", "warns", "activations", {"model": plan.subject.name, "needs": "layers"})
        return absent("activations", "bytes", unknown)
    chunk = Input("chunk", max(plan.runtime.chunk_tokens, plan.users_each), "tokens", plan.runtime.name)
    widest = Figure("prefill-pass", found.activations_bytes, "bytes", "", (chunk,))
    many = max(plan.users_each, plan.sequences or plan.runtime.most_sequences(memory_bytes))
    scores = product(
        "sampling", "bytes",
        (Input("sequences", many, "sequences", "asked" if plan.sequences else plan.runtime.name),
         Input("vocab", shape.vocab, "entries", "the model's config"),
         Input("score-bytes", plan.runtime.score_bytes, "bytes", plan.runtime.source)),
    )  # fmt: skip
    notes = (
        () if plan.sequences or many == plan.users_each else (assumed("sequences", many, runtime=plan.runtime.name),)
    )
    return Figure("activations", found.working_bytes, "bytes", "max({0}, {1})", (widest, scores), assumptions=notes)


# Memory of weights on each device: as a file stores them, else parameters times the bits of a format.


def weights(subject: Subject, name: str, devices: int = 1, expert_block: int = 1) -> Figure:
    """Bytes on each of `devices`. Experts in MXFP4 are padded to whole blocks of `expert_block`."""
    padding = _padding(subject, name, expert_block)
    more = [Input("padding", padding, "1", f"experts in blocks of {expert_block}")] if padding != 1.0 else []
    over = [Input("devices", devices, "devices")] if devices > 1 else []
    if subject.stored_bytes is not None and name == subject.stored_format:
        first, formula = [Input("stored", subject.stored_bytes, "bytes", subject.source)], "{0}"
        value, law = float(subject.stored_bytes), None
    else:
        bits = subject.weight_bits(name)
        first, formula = [subject.params_input(), Input("bits", bits, "bits", name)], "{0} × {1} / 8"
        value, law = subject.params * bits / 8, "weights"
    tower = 2 * subject.tower
    seen = [Input("tower", tower, "bytes", "the image tower, in 16 bits")] if tower else []
    inputs = (*first, *more, *seen, *over)
    formula += f" × {{{len(first)}}}" if more else ""
    formula += f" + {{{len(first) + len(more)}}}" if seen else ""
    formula = f"({formula}) / {{{len(inputs) - 1}}}" if over and seen else formula
    formula += f" / {{{len(inputs) - 1}}}" if over and not seen else ""
    notes = () if subject.shape or subject.stored_bytes else (assumed("weights-without-layers", name),)
    return Figure(
        "weights", (value * padding + tower) / devices, "bytes", formula, inputs, law=law,
        assumptions=(*subject.assumed, *notes),
    )  # fmt: skip


def routed(subject: Subject, name: str, expert_block: int = 1) -> float:
    """Bytes of all routed experts with their padding, which groups of attention share."""
    kept = WEIGHT_FORMATS.get(name)
    if subject.shape is None or kept is None:
        return 0.0
    return routed_bytes(subject.shape, kept) * _longer(subject, name, expert_block)


def _padding(subject: Subject, name: str, block: int) -> float:
    """Bytes with padding over bytes without."""
    shape, kept = subject.shape, WEIGHT_FORMATS.get(name)
    experts, longer = kept.experts if kept else None, _longer(subject, name, block)
    if shape is None or shape.experts is None or experts is None or longer == 1.0:
        return 1.0
    held = shape.expert_layers * shape.experts.count * expert_weights(shape) * experts
    return 1.0 + (longer - 1) * held / (subject.params * subject.weight_bits(name))


def _longer(subject: Subject, name: str, block: int) -> float:
    """Width of an expert in whole blocks over its width; 1 for experts that are in no format of their own."""
    shape, kept = subject.shape, WEIGHT_FORMATS.get(name)
    if shape is None or shape.experts is None or kept is None or kept.experts is None:
        return 1.0
    return float(rounded_up(shape.experts.intermediate, block) / shape.experts.intermediate)
