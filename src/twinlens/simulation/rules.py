"""Rules of an engine: which requests a step takes. Each is named after the flag that it stands for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Batching = Literal["continuous", "static", "dynamic"]
Scheduling = Literal["fcfs", "priority"]

READ_FROM = "vLLM 0.32, vllm/v1/core/sched/scheduler.py"


@dataclass(frozen=True, slots=True)
class Rules:
    """Fields are vLLM's flags, and mean what they mean there (`READ_FROM`), but for what batching and waiting need.

    `max_num_batched_tokens`: tokens that one step may take. `max_num_seqs`: requests that may run at once.
    `enable_chunked_prefill`: a prompt may be taken in pieces; without it, one that the budget does not hold waits.
    `long_prefill_token_threshold`: tokens of one prompt that one step may take; 0: no bound of its own.
    `num_gpu_blocks`: blocks of KV cache, each of `block_size` tokens; None: more than are ever asked for.
    `scheduler_reserve_full_isl`: a request starts only where its whole prompt has free blocks.
    `scheduling_policy`: who starts first and who is preempted last: the earliest, or the most urgent (least number).
    `enable_prefix_caching`: full blocks of prompts stay and are found again, until others need them.
    `num_speculative_tokens`: drafts that one step verifies, of which `acceptance_rate` holds for each on its own.
    `sliding_window`: tokens that a token attends to; None: all before it.
    `max_model_len`: prompt and answer that a request may have; a longer one is refused.

    `batching`: continuous, or batches that run to their longest answer: "static" waits for `batch_size` requests,
    "dynamic" until `batch_size` are there or the first of them has waited `batch_wait_s`.
    """

    max_num_batched_tokens: int = 2048
    max_num_seqs: int = 128
    enable_chunked_prefill: bool = True
    long_prefill_token_threshold: int = 0
    num_gpu_blocks: int | None = None
    block_size: int = 16
    scheduler_reserve_full_isl: bool = True
    scheduling_policy: Scheduling = "fcfs"
    enable_prefix_caching: bool = False
    num_speculative_tokens: int = 0
    acceptance_rate: float = 0.0
    sliding_window: int | None = None
    max_model_len: int | None = None
    batching: Batching = "continuous"
    batch_size: int = 1
    batch_wait_s: float = 0.0
