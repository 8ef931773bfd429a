"""Refusals before any work: rules, laws and requests with which no simulation could end or mean something."""

from __future__ import annotations

import math

import numpy as np

from twinlens.errors import BadInput
from twinlens.simulation.law import StepLaw
from twinlens.simulation.rules import Rules
from twinlens.simulation.state.blocks import blocks_of
from twinlens.simulation.work import Ints, Work

_AT_LEAST_ONE = ("max_num_batched_tokens", "max_num_seqs", "block_size", "batch_size")
_OR_NONE = ("num_gpu_blocks", "sliding_window", "max_model_len")
_NEVER_NEGATIVE = ("long_prefill_token_threshold", "num_speculative_tokens", "batch_wait_s")


def checked_rules(rules: Rules) -> Rules:
    """The rules, where an engine can follow them. Raises BadInput."""
    known = {name: getattr(rules, name) for name in (*_AT_LEAST_ONE, *_OR_NONE)}
    for name, value in known.items():
        if value is not None and not value >= 1:
            raise BadInput(f"{name} is {value}; it has to be at least 1")
    for name in _NEVER_NEGATIVE:
        if not getattr(rules, name) >= 0:
            raise BadInput(f"{name} is {getattr(rules, name)}; it cannot be negative")
    if not 0 <= rules.acceptance_rate <= 1:
        raise BadInput(f"acceptance_rate is {rules.acceptance_rate}; it is a share, from 0 to 1")
    return rules


def checked_law(law: StepLaw) -> StepLaw:
    """The law, where it gives every step a time. Raises BadInput."""
    if not law.parts:
        raise BadInput("the step law has no part; give at least its fixed seconds")
    named = [(name, getattr(part, name)) for part in law.parts for name in part.__slots__]
    for name, value in [*named, ("before_s", law.before_s), ("after_s", law.after_s)]:
        if not (value >= 0 and math.isfinite(value)):
            raise BadInput(f"{name} of the step law is {value}; it has to be a number that is not negative")
    if law.seconds(1, 1) <= 0:
        raise BadInput("the step law gives a step no time; set its fixed_s or row_s above 0")
    return law


def refused(rules: Rules, prompt: int, output: int) -> bool:
    """Whether an engine refuses a request for its length, as a server does with an error."""
    return rules.max_model_len is not None and prompt + output > rules.max_model_len


def most_blocks(rules: Rules, prompt: int, output: int) -> int:
    """Blocks that a request needs at its longest, alone in the engine."""
    tokens = prompt + output
    if rules.batching == "continuous":
        tokens += rules.num_speculative_tokens
        if rules.sliding_window is not None:
            piece = min(rules.max_num_batched_tokens, rules.long_prefill_token_threshold or tokens)
            tokens = min(tokens, rules.sliding_window + piece + rules.num_speculative_tokens + rules.block_size)
    return blocks_of(tokens, rules.block_size)


def check_request(rules: Rules, prompt: int, output: int, place: int) -> None:
    """Raises BadInput for a request that would wait for ever, or has no token to compute or to make."""
    which = f"request {place} ({prompt} prompt tokens, {output} answer tokens)"
    if prompt < 1 or output < 1:
        raise BadInput(f"{which} needs at least one token of each")
    if refused(rules, prompt, output):
        return
    if rules.num_gpu_blocks is not None and (need := most_blocks(rules, prompt, output)) > rules.num_gpu_blocks:
        raise BadInput(f"{which} needs {need} blocks, and num_gpu_blocks is {rules.num_gpu_blocks}; it can never run")
    if rules.enable_chunked_prefill or rules.batching != "continuous":
        return
    piece = prompt if rules.num_gpu_blocks is None else prompt + output - 1
    if min(piece, rules.long_prefill_token_threshold or piece) > rules.max_num_batched_tokens:
        raise BadInput(
            f"{which} may have to compute {piece} tokens in one step, and max_num_batched_tokens is "
            f"{rules.max_num_batched_tokens}; raise it or set enable_chunked_prefill"
        )


def check_work(work: Work, rules: Rules) -> None:
    """Raises BadInput for work that is not in order, not finite, or can never be served."""
    columns = (work.prompt_tokens, work.output_tokens, work.priority, work.group, work.shared_tokens)
    if any(column is not None and len(column) != len(work) for column in columns):
        raise BadInput(f"the columns of the work are not all as long as its {len(work)} arrivals")
    if not np.all(np.isfinite(work.arrival_s)):
        raise BadInput(f"the arrival of request {int(np.argmin(np.isfinite(work.arrival_s)))} is not a number")
    if len(work) and work.arrival_s[0] < 0:
        raise BadInput(f"request 0 arrives at {work.arrival_s[0]:g} s; arrivals count from 0")
    falls = np.flatnonzero(np.diff(work.arrival_s) < 0)
    if len(falls):
        raise BadInput(f"request {int(falls[0]) + 1} arrives before the one ahead of it; sort the work by arrival")
    for place in _extremes(work.prompt_tokens, work.output_tokens, rules):
        check_request(rules, int(work.prompt_tokens[place]), int(work.output_tokens[place]), place)


def _extremes(prompt: Ints, output: Ints, rules: Rules) -> list[int]:
    """Places of the requests that are the first to be refused, if any is: the shortest, and the longest not refused."""
    if not len(prompt):
        return []
    total = prompt + output
    kept = total if rules.max_model_len is None else np.where(total <= rules.max_model_len, total, 0)
    alone = np.where(kept > 0, prompt, 0)
    return [int(each) for each in (np.argmin(prompt), np.argmin(output), np.argmax(kept), np.argmax(alone))]
