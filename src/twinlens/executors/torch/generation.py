"""Greedy generation with a static KV cache, and the compiled graph it decodes with."""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import nn

from twinlens.errors import BadInput
from twinlens.executors.in_process.weights import recurrent
from twinlens.executors.torch.model.build import synchronize
from twinlens.executors.torch.options import TorchOptions
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import InferenceWorkload


class Generation:
    """Greedy generation with one static cache, allocated once; prefill eager, decode eager or compiled."""

    def __init__(self, model: nn.Module, spec: RunSpec, device: torch.device, dtype: torch.dtype) -> None:
        from transformers import StaticCache

        assert isinstance(spec.workload, InferenceWorkload)
        self._model, self.device = model, device
        self._context = spec.workload.input_tokens.max + spec.workload.output_tokens.max
        config: Any = model.config
        limit = getattr(config, "max_position_embeddings", None)
        if limit and self._context > limit:
            raise BadInput(
                f"input_tokens and output_tokens come to {self._context}, the model's context ends at {limit}",
                code="TL202",
            )
        self.cache: Any = StaticCache(config=config, max_cache_len=self._context)
        if any(not hasattr(layer, "keys") or hasattr(layer, "recurrent_states") for layer in self.cache.layers):
            raise recurrent(spec.workload.model)
        is_compiled = TorchOptions.of(spec.executor.options).is_compiled
        self._decode = compiled(model, device, spec) if is_compiled else model
        # Freezing for the compiled graph wants plain tensors; inference mode's are not.
        self.no_grad = torch.no_grad if is_compiled else torch.inference_mode

    def run(self, prompts: torch.Tensor, tokens: int) -> tuple[int, list[int]]:
        """Answer (batch, length) prompts with `tokens` tokens each. Returns its begin and each token's time, in ns."""
        now, stamps = time.monotonic_ns, []
        with self.no_grad():
            self.cache.reset()
            synchronize(self.device)
            begin_ns = now()
            newest = self.prefill(prompts)
            synchronize(self.device)
            stamps.append(now())
            position = torch.full_like(newest, prompts.shape[1])
            for _ in range(tokens - 1):
                newest = self.decode(newest, position)
                position += 1  # in place: making a tensor for each token costs ten times as much
                synchronize(self.device)
                stamps.append(now())
        return begin_ns, stamps

    def prefill(self, prompts: torch.Tensor) -> torch.Tensor:
        """Fill the cache and give the first token, (batch, 1)."""
        out = self._model(input_ids=prompts, past_key_values=self.cache, use_cache=True, logits_to_keep=1)
        return out.logits[:, -1:].argmax(-1)

    def decode(self, newest: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        """One more token for each sequence, (batch, 1); `position` (batch, 1) is that of `newest`."""
        return self._one_more(self._decode, newest, position)

    def decode_eager(self, newest: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        """The same without the compiled graph, whose operators the counters cannot see."""
        return self._one_more(self._model, newest, position)

    def _one_more(self, model: Any, newest: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        out = model(input_ids=newest, position_ids=position, past_key_values=self.cache, use_cache=True)
        return out.logits[:, -1:].argmax(-1)

    def rewind(self, tokens: int) -> None:
        """Forget what the cache holds beyond `tokens`, so that a decode step can be done again and again."""
        for layer in self.cache.layers:
            if isinstance(getattr(layer, "cumulative_length", None), torch.Tensor):
                layer.cumulative_length.fill_(tokens)  # in place: a captured graph reads this address
            if isinstance(getattr(layer, "cumulative_length_int", None), int):
                layer.cumulative_length_int = tokens

    def cache_tensors(self) -> list[torch.Tensor]:
        """The keys and values as they are resident (after the first prefill)."""
        return [t for layer in self.cache.layers for t in (layer.keys, layer.values) if t is not None]


def refuse_what_has_no_static_cache(generation: Generation, name: str) -> None:
    """Two steps of a model that theory does not know. Raises BadInput (TL202) where its class cannot take them."""
    ids = torch.zeros(1, 2, dtype=torch.long, device=generation.device)
    try:
        with generation.no_grad():
            newest = generation.prefill(ids)
            generation.decode_eager(newest, torch.full_like(newest, 2))
        if (held := int(generation.cache.get_seq_length())) != 3:  # a class may take a cache and never use it
            raise ValueError(f"it holds {held} of 3 tokens")
    except (RuntimeError, TypeError, ValueError, AttributeError, IndexError, NotImplementedError) as wrong:
        line = (str(wrong).splitlines() or [type(wrong).__name__])[0][:120]
        raise BadInput(
            f"transformers cannot decode {name} with a static KV cache ({line}); serve it instead "
            '(executor.kind = "vllm")',
            code="TL202",
        ) from None


def compiled(model: nn.Module, device: torch.device, spec: RunSpec) -> Any:
    """The model as torch's compiled graph, made when it is first called; with CUDA graphs on a GPU."""
    if device.type == "cuda":
        return torch.compile(model, dynamic=False, mode="reduce-overhead")
    # Freezing packs the weights for oneDNN. It has to be set for the process: given as an option of one compilation,
    # Dynamo still passes the weights in as arguments and nothing is packed (torch 2.13, seen in benchmarks/decode).
    # Quantised layers come packed already; frozen, int8-dynamic's graph breaks would compile every layer again.
    torch._inductor.config.freezing = spec.point.precision in ("fp32", "bf16", "fp16")
    return torch.compile(model, dynamic=False)
