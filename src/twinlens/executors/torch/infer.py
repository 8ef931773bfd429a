"""The embedded server, at engine level: prefill and decode on torch and transformers with a static KV cache, greedy.

No HTTP and no queue: this is what the stack itself can do at one batch size. CPU or CUDA, the same code.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from twinlens.errors import BadInput
from twinlens.executors.in_process.inputs import check_data
from twinlens.executors.in_process.player import LockstepPlayer, first_answers, loaded
from twinlens.executors.in_process.weights import recurrent
from twinlens.executors.protocol import Say, TakesRow
from twinlens.executors.torch.device import fp32_as
from twinlens.executors.torch.entry import TorchOptions
from twinlens.executors.torch.evidence.inference import inference_facts, reference_logits
from twinlens.executors.torch.evidence.memory import device_memory, free_bytes
from twinlens.executors.torch.evidence.work import ceilings_again
from twinlens.executors.torch.model.adapter import as_served, with_random_adapter
from twinlens.executors.torch.model.build import (
    build_model,
    parameter_count,
    synchronize,
    transpose_storage,
)
from twinlens.executors.torch.model.data import PromptTensors, images
from twinlens.executors.torch.model.quantize import apply_precision, left_wide
from twinlens.executors.torch.train import device_of
from twinlens.record.estimate import Estimate
from twinlens.record.executor.facts import Estimates, Facts
from twinlens.record.finding import Finding
from twinlens.record.sections import GreedyAnswer, GreedyAnswers
from twinlens.schedule.request import Schedule, ScheduledRequest
from twinlens.spec.model.any_model import Model, is_text
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import InferenceWorkload
from twinlens.system.page_cache import cached_share
from twinlens.units import RATIO, SECONDS

_ANSWER_TOKENS = 32
_MOST_OF = 0.9  # of the free memory, for weights that are made in fp32 first


class TorchServer:
    """Answers the requests that are due together as one batch."""

    def open(self, spec: RunSpec, say: Say) -> Facts:
        assert isinstance(spec.workload, InferenceWorkload)
        self.options = TorchOptions.of(spec.executor.options)
        self.spec, workload = spec, spec.workload
        self.device, self.threads = device_of(spec, self.options)
        say("building the model")
        cached, begin_s = cached_of(spec.model), time.monotonic()
        ref = spec.model
        check_data(workload.data, ref)
        self.ref, self.is_vision = ref, not is_text(ref)
        self._player = LockstepPlayer(self.answer, is_text=not self.is_vision)
        self.findings: list[Finding] = []
        self.made_in = self._made_in(ref)
        model = build_model(ref, self.options.attention, spec.protocol.seed, self.device, self.made_in).eval()
        if workload.adapter is not None:
            _refuse_unmerged(spec, self.options)
            tuned = with_random_adapter(model, ref, workload.adapter, spec.protocol.seed)
            model = as_served(tuned, merged=False)
        load_s = time.monotonic() - begin_s
        if self.is_vision:
            self.images = images(ref, max(16, spec.point.batch), self.device, spec.seed)
        else:
            longest = workload.input_tokens.max
            self.prompts = PromptTensors(workload.data, ref, spec.seed, longest)
        sample = self._fidelity_sample(workload) if self.made_in == torch.float32 else None
        with fp32_as("fp32"):  # the reference of a tf32 run is fp32 too, or it would be compared with itself
            reference = reference_logits(model, sample) if sample is not None else None
        if workload.adapter is not None and self.options.adapter == "merged":
            model = as_served(tuned, merged=True)
        say(f"making it {spec.point.precision}")
        begin_s = time.monotonic()
        self.model = apply_precision(model, spec.point.precision)
        if left := left_wide(self.model, spec.point.precision):
            self.findings.append(left)
        self.layout = _layout(spec, self.device)
        if self.layout == "column":
            transpose_storage(self.model)
        self.dtype = torch.float32 if spec.point.precision in ("fp32", "tf32", "int8-dynamic") else _half(spec)
        self.generation = None if self.is_vision else Generation(self.model, spec, self.device, self.dtype)
        if ref.shape is None:
            refuse_what_has_no_static_cache(Generation(self.model, spec, self.device, self.dtype), ref.name)
        compiles = self.is_vision and self.options.is_compiled
        self.forward = compiled(self.model, self.device, spec) if compiles else self.model
        synchronize(self.device)
        startup = start_figures(self, load_s + time.monotonic() - begin_s, cached, is_warm=reference is not None)
        return replace(inference_facts(self, sample, reference, say), startup=startup)

    def play(self, schedule: Schedule, rows: TakesRow) -> None:
        self._player.play(schedule, rows)

    def close(self) -> None:
        pass

    def device_memory(self) -> dict[str, int] | None:
        """The allocator's peak over the rows, in bytes; None on a CPU."""
        return device_memory(self.device)

    def greedy(self) -> GreedyAnswers | None:
        """Answers to one batch of fixed prompts, as the numbers of their tokens; None of a classifier."""
        if self.generation is None:
            return None
        workload = self.spec.workload
        assert isinstance(workload, InferenceWorkload)
        length, tokens = min(128, workload.input_tokens.max), min(_ANSWER_TOKENS, workload.output_tokens.max)
        seeds: list[tuple[int, ...]] = [(self.spec.protocol.seed, 11, index) for index in range(self.spec.point.batch)]
        said = self.generation.said(self.prompts.batch(seeds, length).to(self.device), tokens)
        answers = (GreedyAnswer(" ".join(map(str, row)), tokens) for row in said)
        return GreedyAnswers(f"{len(seeds)} of {length} tokens, seed {self.spec.protocol.seed}", tuple(answers))

    def ceilings_again(self) -> Estimates:
        """The matrix rate and the read bandwidth once more."""
        return ceilings_again(self.spec, self.device)

    def no_grad(self) -> Any:
        """The mode in which answers are computed: a compiled graph wants plain tensors, inference mode's are not."""
        return torch.no_grad() if self.options.is_compiled else torch.inference_mode()

    def _made_in(self, ref: Model) -> torch.dtype:
        """fp32 where the precision or its comparison with fp32 needs it, and it fits; else 16 bits from the start."""
        precision = self.spec.point.precision
        if precision in ("fp32", "tf32", "int8-dynamic"):
            return torch.float32
        wants_reference = bool(self.spec.workload.fidelity_prompts)  # type: ignore[union-attr]
        needed = 4 * parameter_count(ref)
        if wants_reference and needed < _MOST_OF * free_bytes(self.device):
            return torch.float32
        if wants_reference:
            numbers = {"needed_bytes": needed, "device": str(self.device)}
            self.findings.append(Finding("fidelity-not-compared", "notes", "", numbers))
        return _half(self.spec)

    def answer(self, upcoming: tuple[ScheduledRequest, ...]) -> tuple[int, list[int]]:
        if self.generation is None:
            return self._classify(upcoming)
        seeds = [scheduled.seed for scheduled in upcoming]
        prompts = self.prompts.batch(seeds, upcoming[0].input_tokens).to(self.device)
        return self.generation.run(prompts, upcoming[0].output_tokens)

    def _classify(self, upcoming: tuple[ScheduledRequest, ...]) -> tuple[int, list[int]]:
        with self.no_grad():
            first = upcoming[0].number % max(1, len(self.images) - len(upcoming) + 1)
            pixels = self.images[first : first + len(upcoming)].to(self.dtype)
            synchronize(self.device)
            sent_ns = time.monotonic_ns()
            self.forward(pixel_values=pixels).logits.argmax(-1)
            synchronize(self.device)
            return sent_ns, [time.monotonic_ns()]

    def _fidelity_sample(self, workload: InferenceWorkload) -> torch.Tensor | None:
        count = workload.fidelity_prompts
        is_merged = workload.adapter is not None and self.options.adapter == "merged"
        if not count or (self.spec.point.precision == "fp32" and not is_merged):
            return None
        if self.is_vision:
            return self.images[:count]
        length = min(128, workload.input_tokens.max)
        return self.prompts.batch([(self.spec.protocol.seed, 9, i) for i in range(count)], length).to(self.device)


def _refuse_unmerged(spec: RunSpec, options: TorchOptions) -> None:
    if options.adapter == "unmerged" and spec.precision.quantised:
        raise BadInput(
            f"an adapter beside weights in {spec.point.precision} is not built: set executor.options.adapter = "
            '"merged", or take bf16',
            code="TL203",
        )


def _layout(spec: RunSpec, device: torch.device) -> str:
    if (asked := TorchOptions.of(spec.executor.options).layout) != "auto":
        return asked
    # Only fp32 on a CPU gains; bf16 products there are slower on transposed weights (measured in benchmarks/decode).
    return "column" if device.type == "cpu" and spec.point.precision == "fp32" else "row"


def _half(spec: RunSpec) -> torch.dtype:
    return torch.float16 if spec.point.precision == "fp16" else torch.bfloat16


_LOADED = "from reading the folder's weights to a model at its precision with its cache, its libraries imported already"
_DRAWN = "its random weights were drawn, not read"
_COMPILES = "the first call compiles the graph: a note of the run says how long that took"
_REFERENCE = "; the fp32 reference had run in this process"


def cached_of(ref: Model) -> float | None:
    """The share of the model's folder in the page cache; None where there is no folder, or it is not to be had."""
    return cached_share(Path(ref.folder)) if ref.folder else None


def start_figures(server: TorchServer, load_s: float, cached: float | None, *, is_warm: bool) -> Estimates:
    """`cached`: of its folder before the load. `is_warm`: the fp32 reference has run in this process, on the model as
    it was before."""
    figures = loaded(load_s, _LOADED, cached) if server.ref.folder else _drawn()
    if server.is_vision and server.options.is_compiled:
        names = ("start_first_answer_s", "start_second_answer_s")
        return figures | dict.fromkeys(names, Estimate.absent(SECONDS, _COMPILES))
    is_text, batch = not server.is_vision, server.spec.point.batch
    player, before = LockstepPlayer(server.answer, is_text=is_text), _REFERENCE if is_warm else ""
    return figures | first_answers(player.play, server.spec, together=batch, is_text=is_text, before=before)


def _drawn() -> Estimates:
    units = {"start_load_s": SECONDS, "start_cached_share": RATIO}
    return {name: Estimate.absent(unit, _DRAWN) for name, unit in units.items()}


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

    def said(self, prompts: torch.Tensor, tokens: int) -> list[list[int]]:
        """The tokens of the answers themselves, by prompt."""
        with self.no_grad():
            self.cache.reset()
            answers = [self.prefill(prompts)]
            position = torch.full_like(answers[0], prompts.shape[1])
            for _ in range(tokens - 1):
                answers.append(self.decode(answers[-1], position).clone())  # a captured graph writes over its answer
                position += 1
        return torch.cat(answers, 1).tolist()  # type: ignore[no-any-return]

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
