"""Exports to OpenVINO's own format: decoders with a stateful KV cache, classifiers of images, narrower by nncf.

Needs torch, transformers, openvino and nncf; run in a process of its own by `converted` in decoder.py. The graph of a
decoder takes `keep`, the positions whose logits are wanted, so that a prefill computes those of the last one and a
comparison with fp32 those of all.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import openvino
import torch
from torch import nn

from twinlens.executors.in_process.inputs import calibration_images
from twinlens.executors.openvino.decoder import GRAPH, LINEARS, PROMPTS, SERVED_GRAPH

_LEAST = float(torch.finfo(torch.float32).min)
_GROUP = 32
_CALIBRATED: dict[str, dict[str, bool]] = {"int4-weight-gptq": {"gptq": True}, "int4-weight-awq": {"awq": True}}


def main() -> None:
    """`{"weights": folder, "folder": where to, "precision": ours, "of": "text", "served" (for openvino-genai) or
    "images"}` on the input."""
    asked = json.load(sys.stdin)
    weights, folder, precision = Path(asked["weights"]), Path(asked["folder"]), asked["precision"]
    if asked["of"] == "images":
        _write_classifier(weights, folder, precision)
    else:
        _write_decoder(weights, folder, precision, served=asked["of"] == "served")


def _loaded(maker: Any, weights: Path, **more: Any) -> Any:
    return maker.from_pretrained(
        weights, dtype=torch.float32, local_files_only=True, trust_remote_code=False, **more
    ).eval()


def _save(graph: Any, path: Path, model: Any, stored: str) -> None:
    """The graph, and (out, in, stored format) of every linear layer beside it."""
    openvino.save_model(graph, path, compress_to_fp16=False)
    sizes = [(m.out_features, m.in_features, stored) for m in model.modules() if isinstance(m, nn.Linear)]
    path.with_name(LINEARS).write_text(json.dumps(sizes), encoding="utf-8")


def _write_decoder(weights: Path, folder: Path, precision: str, *, served: bool) -> None:
    import transformers

    model = _loaded(transformers.AutoModelForCausalLM, weights, attn_implementation="sdpa")
    config = model.config
    heads = config.num_key_value_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    graph = _stateful(model, 2 * config.num_hidden_layers, heads, width, served=served)
    if precision not in ("fp32", "bf16"):
        prompts = folder / PROMPTS
        graph = _compressed(graph, precision, np.load(prompts) if prompts.exists() else None)
    _save(graph, folder / (SERVED_GRAPH if served else GRAPH), model, precision.split("-")[0])
    if served:
        config.save_pretrained(folder)


class Past:
    """The KV cache as the model sees it while it is traced: tensors that grow, layer by layer."""

    is_compileable = False

    def __init__(self, past: Sequence[torch.Tensor]) -> None:
        self.tensors = list(past)

    def get_seq_length(self, layer: int = 0) -> Any:
        return self.tensors[0].shape[2]

    def update(self, keys: torch.Tensor, values: torch.Tensor, layer: int, *_: Any, **__: Any) -> tuple[Any, Any]:
        for place, new in ((2 * layer, keys), (2 * layer + 1, values)):
            self.tensors[place] = torch.cat([self.tensors[place], new], 2)
        return self.tensors[2 * layer], self.tensors[2 * layer + 1]


class Step(nn.Module):  # type: ignore[misc]  # torch is not followed by the type checker
    """One call of the model. `beam_idx` (batch,) int32 names the sequence that each row goes on from: OpenVINO fuses
    attention with the cache only where the cache is gathered by an index of that very type."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, input_ids: Any, position_ids: Any, keep: Any, beam_idx: Any, *past: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        before, now = past[0].shape[2], input_ids.shape[1]
        hidden, present = _hidden(self.model, input_ids, position_ids, beam_idx, past, _causal(before, now))
        return (self.model.lm_head(hidden.index_select(1, keep)), *present)


class Served(nn.Module):  # type: ignore[misc]
    """The call as openvino-genai expects it: a mask of the tokens in place of `keep`, and logits of all positions; its
    pipeline puts a paged cache in place of this one and gathers the positions it wants."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, input_ids: Any, attention_mask: Any, position_ids: Any, beam_idx: Any, *past: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        unseen = (1.0 - attention_mask.to(torch.float32))[:, None, None, :] * _LEAST
        mask = _causal(past[0].shape[2], input_ids.shape[1]) + unseen
        hidden, present = _hidden(self.model, input_ids, position_ids, beam_idx, past, mask)
        return (self.model.lm_head(hidden), *present)


def _hidden(model: Any, ids: Any, at: Any, beam_idx: Any, past: Sequence[torch.Tensor], mask: Any) -> tuple[Any, Any]:
    cache = Past([each.index_select(0, beam_idx) for each in past])
    rows = mask.expand(ids.shape[0], 1, ids.shape[1], past[0].shape[2] + ids.shape[1])
    out = model.model(input_ids=ids, position_ids=at, attention_mask=rows, past_key_values=cache, use_cache=True)
    return out.last_hidden_state, cache.tensors


def _causal(before: Any, now: Any) -> torch.Tensor:
    """(1, 1, now, before + now): 0 where a position sees another, the least number where it does not."""
    seen, row = torch.arange(before + now), torch.arange(now) + before
    return torch.where(seen[None, :] <= row[:, None], 0.0, _LEAST)[None, None]


def _stateful(model: Any, tensors: int, heads: int, width: int, *, served: bool) -> Any:
    from openvino._offline_transformations import apply_make_stateful_transformation

    batch, now, before = 2, 3, 4
    ids = torch.zeros(batch, now, dtype=torch.long)
    at = torch.arange(before, before + now)[None].expand(batch, now).contiguous()
    past = [torch.zeros(batch, heads, before, width) for _ in range(tensors)]
    beams = torch.arange(batch, dtype=torch.int32)
    given: dict[str, Any]
    if served:
        seen = torch.ones(batch, before + now, dtype=torch.long)
        given = {"input_ids": ids, "attention_mask": seen, "position_ids": at, "beam_idx": beams}
    else:
        given = {"input_ids": ids, "position_ids": at, "keep": torch.tensor([now - 1]), "beam_idx": beams}
    with torch.no_grad():
        graph = openvino.convert_model((Served if served else Step)(model), example_input=(*given.values(), *past))
    pairs = {f"past.{place}": f"present.{place}" for place in range(tensors)}
    for port, name in zip(graph.inputs, (*given, *pairs), strict=True):
        port.get_tensor().set_names({name})
    for port, name in zip(graph.outputs, ("logits", *pairs.values()), strict=True):
        port.get_tensor().set_names({name})
    shapes = {name: [-1] * each.dim() for name, each in given.items()}
    graph.reshape(shapes | {name: [-1, heads, -1, width] for name in pairs})
    apply_make_stateful_transformation(graph, pairs)
    _begin_empty(graph, heads, width)
    return graph


def _begin_empty(graph: Any, heads: int, width: int) -> None:
    """Let a reset cache have the batch of the input and no position; else it would have no batch either."""
    from openvino import opset13 as ops

    shape = ops.shape_of(graph.input("input_ids"), output_type="i64")
    batch = ops.gather(shape, ops.constant([0]), ops.constant(0))
    for node in graph.get_ops():
        if node.get_type_name() == "ReadValue":
            sides = [ops.constant(np.array([side])) for side in (heads, 0, width)]
            empty = ops.broadcast(ops.constant(0.0, dtype=np.float32), ops.concat([batch, *sides], 0))
            node.set_arguments([empty])
    graph.validate_nodes_and_infer_types()


def _compressed(graph: Any, precision: str, prompts: np.ndarray | None) -> Any:
    """The graph at this precision; `prompts` (count, length) token ids where it is calibrated."""
    import nncf

    if precision == "int8-weight":
        return nncf.compress_weights(graph, mode=nncf.CompressWeightsMode.INT8_SYM)
    if precision == "int8-smoothquant":
        return _smooth(graph, prompts)
    how: dict[str, Any] = dict(_CALIBRATED.get(precision, {}))
    if how and prompts is not None:
        how |= {"dataset": _dataset(prompts), "subset_size": len(prompts)}
    mode = nncf.CompressWeightsMode.INT4_ASYM
    return nncf.compress_weights(graph, mode=mode, group_size=_GROUP, ratio=1.0, all_layers=True, **how)


def _smooth(graph: Any, prompts: np.ndarray | None) -> Any:
    """Weights and activations in 8 bits; outliers of activations are moved into the weights first."""
    import nncf

    assert prompts is not None
    return nncf.quantize(
        graph, _dataset(prompts), subset_size=len(prompts), model_type=nncf.ModelType.TRANSFORMER
    )  # for transformers it smooths by default


def _dataset(prompts: np.ndarray) -> Any:
    """Each prompt whole, as a prefill that keeps the last position's logits."""
    import nncf

    length = prompts.shape[1]
    fixed = {
        "position_ids": np.arange(length)[None],
        "keep": np.array([length - 1]),
        "beam_idx": np.zeros(1, np.int32),
    }
    return nncf.Dataset([{"input_ids": prompt[None], **fixed} for prompt in prompts])


class Logits(nn.Module):  # type: ignore[misc]
    """Pixels (batch, channels, size, size) to logits (batch, classes)."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixel_values: Any) -> Any:
        return self.model(pixel_values=pixel_values).logits


def _write_classifier(weights: Path, folder: Path, precision: str) -> None:
    import transformers

    model = _loaded(transformers.AutoModelForImageClassification, weights)
    size = int(getattr(model.config, "image_size", 224))
    sides = (int(model.config.num_channels), size, size)
    with torch.no_grad():
        graph = openvino.convert_model(Logits(model), example_input=torch.zeros(2, *sides))
    graph.inputs[0].get_tensor().set_names({"pixel_values"})
    graph.reshape({"pixel_values": [-1, *sides]})
    if precision == "int8-static":
        graph = _quantised(graph, sides, is_transformer=model.config.model_type == "vit")
    _save(graph, folder / GRAPH, model, "int8" if precision == "int8-static" else precision)


def _quantised(graph: Any, sides: tuple[int, int, int], *, is_transformer: bool) -> Any:
    import nncf

    images = list(calibration_images(sides))
    kind = nncf.ModelType.TRANSFORMER if is_transformer else None
    return nncf.quantize(graph, nncf.Dataset(images), subset_size=len(images), model_type=kind)
