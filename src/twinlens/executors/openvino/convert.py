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

GRAPH, LINEARS = "model.xml", "linears.json"
_GROUP = 32


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
        cache = Past([each.index_select(0, beam_idx) for each in past])
        before, now = past[0].shape[2], input_ids.shape[1]
        seen, row = torch.arange(before + now), torch.arange(now) + before
        least = float(torch.finfo(torch.float32).min)
        mask = torch.where(seen[None, :] <= row[:, None], 0.0, least)[None, None]
        out = self.model.model(
            input_ids=input_ids,
            position_ids=position_ids,
            attention_mask=mask.expand(input_ids.shape[0], 1, now, before + now),
            past_key_values=cache,
            use_cache=True,
        )
        return (self.model.lm_head(out.last_hidden_state.index_select(1, keep)), *cache.tensors)


def main() -> None:
    """`{"weights": folder, "folder": where to, "precision": ours}` on the input."""
    asked = json.load(sys.stdin)
    _write(Path(asked["weights"]), Path(asked["folder"]), asked["precision"])


def _write(weights: Path, folder: Path, precision: str) -> None:
    import openvino
    import transformers

    model: Any = transformers.AutoModelForCausalLM.from_pretrained(
        weights, dtype=torch.float32, attn_implementation="sdpa", local_files_only=True, trust_remote_code=False
    ).eval()
    config = model.config
    heads = config.num_key_value_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    graph = _stateful(model, 2 * config.num_hidden_layers, heads, width)
    if precision in ("int8-weight", "int4-weight"):
        graph = _compressed(graph, precision)
    openvino.save_model(graph, folder / GRAPH, compress_to_fp16=False)
    stored = {"int8-weight": "int8", "int4-weight": "int4"}.get(precision, precision)
    sizes = [(m.out_features, m.in_features, stored) for m in model.modules() if isinstance(m, nn.Linear)]
    (folder / LINEARS).write_text(json.dumps(sizes), encoding="utf-8")


def _stateful(model: Any, tensors: int, heads: int, width: int) -> Any:
    import openvino
    from openvino._offline_transformations import apply_make_stateful_transformation

    batch, now, before = 2, 3, 4
    ids = torch.zeros(batch, now, dtype=torch.long)
    at = torch.arange(before, before + now)[None].expand(batch, now).contiguous()
    past = [torch.zeros(batch, heads, before, width) for _ in range(tensors)]
    example = (ids, at, torch.tensor([now - 1]), torch.arange(batch, dtype=torch.int32), *past)
    with torch.no_grad():
        graph = openvino.convert_model(Step(model), example_input=example)
    pairs = {f"past.{place}": f"present.{place}" for place in range(tensors)}
    given = ("input_ids", "position_ids", "keep", "beam_idx", *pairs)
    for port, name in zip(graph.inputs, given, strict=True):
        port.get_tensor().set_names({name})
    for port, name in zip(graph.outputs, ("logits", *pairs.values()), strict=True):
        port.get_tensor().set_names({name})
    shapes = {"input_ids": [-1, -1], "position_ids": [-1, -1], "keep": [-1], "beam_idx": [-1]}
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


def _compressed(graph: Any, precision: str) -> Any:
    import nncf

    if precision == "int8-weight":
        return nncf.compress_weights(graph, mode=nncf.CompressWeightsMode.INT8_SYM)
    mode = nncf.CompressWeightsMode.INT4_ASYM
    return nncf.compress_weights(graph, mode=mode, group_size=_GROUP, ratio=1.0, all_layers=True)
