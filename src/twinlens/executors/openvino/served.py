"""openvino-genai's continuous batching as a server in this process: requests join and leave between its steps.

Its pipeline needs no tokenizer, puts a paged cache in place of the graph's own, and takes token ids. It shows neither
its compiled model nor a profile: what the products computed in is seen in the same graph with the same settings, run
without the pipeline; the format of its cache follows from the bytes that its metrics give.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import openvino
import openvino_genai as genai

from twinlens.errors import ExecutorFailed
from twinlens.executors.capabilities import is_as_shipped
from twinlens.executors.in_process.engine import Evidence, Runtime, SteppedEngine, cache_elements_of_a_token
from twinlens.executors.in_process.player import Gained, Running
from twinlens.executors.openvino.decoder import (
    SERVED_GRAPH,
    InPlace,
    OpenVinoDecoder,
    computes_in_bf16,
    linears,
    make,
    order,
    positions,
    properties,
    versions,
)
from twinlens.executors.openvino.trace import paged_format
from twinlens.record.executor.record import observed, unknown
from twinlens.spec.model.reference import ModelRef
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import InferenceWorkload

MOST_TOGETHER = 16
_BLOCK_TOKENS = 32  # of paged attention on a processor
_RUNNING = genai.GenerationStatus.RUNNING
_METRICS = "PipelineMetrics of openvino-genai"


class OpenVinoSteps:
    """One pipeline."""

    def __init__(self, folder: Path, spec: RunSpec, ref: ModelRef, threads: int) -> None:
        """Raises ExecutorFailed (TL302) where the cache asked for needs a processor with products in bf16."""
        assert isinstance(spec.workload, InferenceWorkload)
        _refuse_a_cache_of_another_machine(spec)
        self._ref, self._numbered = ref, 0
        most = int(spec.executor.options.get("most_together", MOST_TOGETHER))
        longest = spec.workload.input_tokens.max + spec.workload.output_tokens.max
        self._settings = genai.SchedulerConfig()
        self._settings.max_num_seqs = most
        self._settings.num_kv_blocks = most * (math.ceil(longest / _BLOCK_TOKENS) + 1)
        asked = properties(spec, threads)
        self._pipeline: Any = genai.ContinuousBatchingPipeline(str(folder), self._settings, "CPU", asked)

    def evidence(self, found: Evidence, batch: np.ndarray) -> Evidence:
        """Of the same graph without the pipeline, but for the cache and the batching, which a trial of two shows."""
        together = self._joined(batch[0])
        size = int(self._pipeline.get_metrics().kv_cache_size_in_bytes)
        elements = self._settings.num_kv_blocks * _BLOCK_TOKENS * cache_elements_of_a_token(self._ref)
        kind = paged_format(size, elements)
        batching = "continuous: a request joins while others run" if together == 2 else "one request at a time"
        facts = {
            "software.runtime.name": observed("openvino-genai, continuous batching in this process", "the package"),
            "software.runtime.version": observed(version("openvino-genai"), "its package"),
            "serving.batching": observed(batching, f"{_METRICS}, a second request sent after the first one's step"),
            "point.batch_achieved": unknown("it changes from step to step, and is not kept"),
            "serving.max_sequences": observed(int(self._settings.max_num_seqs), "SchedulerConfig"),
            "serving.max_batched_tokens": observed(int(self._settings.max_num_batched_tokens), "SchedulerConfig"),
            "serving.chunked_prefill": observed(
                "yes" if self._settings.dynamic_split_fuse else "no", "SchedulerConfig: dynamic_split_fuse"
            ),
            "serving.prefix_cache": observed(
                "on" if self._settings.enable_prefix_caching else "off", "SchedulerConfig"
            ),
            "serving.kv_block_tokens": observed(_BLOCK_TOKENS, f"{_METRICS}: bytes of a block"),
            "serving.attention": observed("paged attention", "openvino-genai's pipeline"),
            "precision.kv": observed(kind, f"{_METRICS}: bytes of the cache over its elements"),
        }
        held = dict(found.held) | {"kv": {kind: size}}
        memory = dict(found.memory) | {"kv_bytes": (size, f"{_METRICS}: all blocks, allocated when it starts")}
        return replace(found, held=held, facts=dict(found.facts) | facts, memory=memory)

    def close(self) -> None:
        self._pipeline = None

    def _joined(self, ids: np.ndarray) -> int:
        """Requests of one step, when a second was sent after the step of a first."""
        handles = [self.begin(ids, 4)]
        self._pipeline.step()
        handles.append(self.begin(ids, 4))
        self._pipeline.step()
        together = int(self._pipeline.get_metrics().scheduled_requests)
        while self._pipeline.has_non_finished_requests():
            self._pipeline.step()
        return together

    def begin(self, ids: np.ndarray, tokens: int) -> Any:
        wanted = genai.GenerationConfig()
        wanted.max_new_tokens = wanted.min_new_tokens = tokens
        wanted.ignore_eos, wanted.do_sample = True, False
        self._numbered += 1
        return self._pipeline.add_request(self._numbered, openvino.Tensor(ids[None].astype(np.int64)), wanted)

    def step(self, running: list[Running]) -> list[Gained]:
        self._pipeline.step()
        gained: list[Gained] = []
        for one in running:
            tokens = 0
            if one.handle.can_read():  # one output a step
                for output in one.handle.read().values():
                    tokens += len(output.generated_ids)
            is_ended = (not tokens or tokens >= one.left) and one.handle.get_status() != _RUNNING
            if tokens or is_ended:
                gained.append((one, tokens, is_ended))
        return gained


def _refuse_a_cache_of_another_machine(spec: RunSpec) -> None:
    """Without products in bf16 paged attention takes a cache in fp32 alone, and says so in words of its source code."""
    if not is_as_shipped(spec) and spec.precision.classes("inference")["kv"] == "bf16" and not computes_in_bf16():
        raise ExecutorFailed(
            f"openvino-genai keeps the KV cache of {spec.point.precision} in bf16, and this processor has no products "
            "in bf16 (by OpenVINO's OPTIMIZATION_CAPABILITIES); take precision fp32, or executor openvino, which then "
            "computes in fp32 and says so",
            code="TL302",
        )


def _step(request: InPlace, ids: np.ndarray, at: int, keep: np.ndarray) -> np.ndarray:
    """As the decoder's, of the graph that gives the logits of all positions."""
    rows, length = ids.shape
    seen = np.ones((rows, at + length), np.int64)
    given = {"attention_mask": seen, "position_ids": positions(rows, length, at), "beam_idx": order(rows)}
    return request.logits({"input_ids": ids} | given)[:, keep]


def _served(folder: Path, spec: RunSpec, ref: ModelRef, threads: int) -> SteppedEngine:
    beside = partial(OpenVinoDecoder, folder, spec, ref, threads, SERVED_GRAPH, _step)
    return SteppedEngine(OpenVinoSteps(folder, spec, ref, threads), beside)


SERVED = Runtime(
    "openvino-served", lambda spec: f"served {versions(spec)}", partial(make, of="served"), linears, _served
)
