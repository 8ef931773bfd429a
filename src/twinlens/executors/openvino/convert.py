"""A decoder as OpenVINO's own format with a stateful KV cache. Needs torch, transformers, openvino and nncf.

Run in a process of its own by decoder.py. The graph takes `keep`, the positions whose logits are wanted, so that a
prefill computes those of the last one and a comparison with fp32 those of all.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from twinlens.executors.openvino.compress import PROMPTS, compressed

GRAPH, LINEARS = "model.xml", "linears.json"
SERVED_GRAPH = "openvino_model.xml"
_LEAST = float(torch.finfo(torch.float32).min)


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


def main() -> None:
    """`{"weights": folder, "folder": where to, "precision": ours, "served": for openvino-genai}` on the input."""
    asked = json.load(sys.stdin)
    _write(Path(asked["weights"]), Path(asked["folder"]), asked["precision"], served=asked.get("served", False))


def _write(weights: Path, folder: Path, precision: str, *, served: bool) -> None:
    import openvino
    import transformers

    model: Any = transformers.AutoModelForCausalLM.from_pretrained(
        weights, dtype=torch.float32, attn_implementation="sdpa", local_files_only=True, trust_remote_code=False
    ).eval()
    config = model.config
    heads = config.num_key_value_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    graph = _stateful(model, 2 * config.num_hidden_layers, heads, width, served=served)
    if precision not in ("fp32", "bf16"):
        prompts = folder / PROMPTS
        graph = compressed(graph, precision, np.load(prompts) if prompts.exists() else None)
    openvino.save_model(graph, folder / (SERVED_GRAPH if served else GRAPH), compress_to_fp16=False)
    if served:
        config.save_pretrained(folder)
    stored = precision.split("-")[0]
    sizes = [(m.out_features, m.in_features, stored) for m in model.modules() if isinstance(m, nn.Linear)]
    (folder / LINEARS).write_text(json.dumps(sizes), encoding="utf-8")


def _stateful(model: Any, tensors: int, heads: int, width: int, *, served: bool) -> Any:
    import openvino
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
