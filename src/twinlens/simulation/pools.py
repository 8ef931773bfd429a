"""Prefill and decode apart: one pool computes prompts, a link carries their KV cache, others make the answers."""

from __future__ import annotations

import heapq
from collections.abc import Sequence as Several
from dataclasses import dataclass, replace

import numpy as np

from twinlens.errors import BadInput
from twinlens.simulation.fleet import Replica, serve_fleet
from twinlens.simulation.routing import Routing
from twinlens.simulation.work import DONE, Floats, Ints, Served, Tokens, Work


@dataclass(frozen=True, slots=True)
class Link:
    """What carries KV cache from any prefill engine to any decode engine.

    `bytes_per_token`: of KV cache. `shared`: transfers under way share the bandwidth evenly; else one at a time, in the
    order in which the prompts are ready. `latency_s`: of each transfer, not shared.
    """

    bytes_per_token: float
    bytes_per_s: float
    shared: bool = False
    latency_s: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Pooled:
    """What became of work in two pools. `whole`: of each request, as a client sees it; its `engine` counts prefill
    engines, then decode engines, and says the last that had the request; its `start_s` is that of the prompt.

    `prefill`: the same of prompts alone. `decode`: of the requests `going` that went on, in the order in which their KV
    cache arrived; it was `ready_s` in the prefill engine and `there_s` behind the link, which without others on it
    takes `alone_s`. Shapes: (requests,), (going,).
    """

    whole: Served
    prefill: Served
    decode: Served
    going: Ints
    ready_s: Floats
    there_s: Floats
    alone_s: Floats


def serve_pools(
    work: Work,
    prefill: Several[Replica],
    decode: Several[Replica],
    link: Link,
    routing: Routing,
    *,
    horizon_s: float | None = None,
) -> Pooled:
    """All of the work through two pools. The first token comes from the prefill pool, the others from the decode pool.

    Nothing holds prefill back while decode engines are full: prompts that are ready wait for them with their KV cache
    elsewhere. Raises BadInput where a pool is missing.
    """
    if not prefill or not decode:
        missing, there = ("prefill", "decode") if not prefill else ("decode", "prefill")
        raise BadInput(f"a {there} pool without a {missing} pool answers nobody; give both")
    if not (link.bytes_per_s > 0 and link.bytes_per_token >= 0 and link.latency_s >= 0):
        raise BadInput("the link needs bytes_per_s above 0, and bytes_per_token and latency_s that are not negative")
    prompts = replace(work, output_tokens=np.ones(len(work), dtype=np.int64))
    first = serve_fleet(prompts, prefill, routing, horizon_s=horizon_s)
    going = np.flatnonzero((first.outcome == DONE) & (work.output_tokens > 1))
    ready_s = first.first_token_s[going]
    size_bytes: Floats = work.prompt_tokens[going].astype(np.float64) * link.bytes_per_token
    there_s = carried(ready_s, size_bytes, link)
    order = np.argsort(there_s, kind="stable")
    going, there_s, ready_s = going[order], there_s[order], ready_s[order]
    second = serve_fleet(_rest(work, going, there_s), decode, routing, given=True, horizon_s=horizon_s)
    alone_s = size_bytes[order] / link.bytes_per_s + link.latency_s
    return Pooled(_joined(first, second, going), first, second, going, ready_s, there_s, alone_s)


def carried(ready_s: Floats, size_bytes: Floats, link: Link) -> Floats:
    """When each transfer is through. Shapes: (transfers,)."""
    seconds = size_bytes / link.bytes_per_s
    order = np.argsort(ready_s, kind="stable")
    through = np.empty(len(ready_s))
    if link.shared:
        through[order] = _evenly(ready_s[order].tolist(), seconds[order].tolist())
    else:
        free_s = 0.0
        for each in order.tolist():
            free_s = max(free_s, ready_s[each]) + seconds[each]
            through[each] = free_s
    return through + link.latency_s


def _evenly(ready_s: list[float], seconds: list[float]) -> list[float]:
    """Ends of transfers that share a link evenly: each has had `share` seconds of it alone since it began."""
    through, under_way = [0.0] * len(ready_s), list[tuple[float, int]]()
    now_s = share_s = 0.0
    for place in range(len(ready_s) + 1):
        until_s = ready_s[place] if place < len(ready_s) else float("inf")
        while under_way and now_s + (under_way[0][0] - share_s) * len(under_way) <= until_s:
            end_share_s, each = under_way[0]
            now_s += (end_share_s - share_s) * len(under_way)
            share_s = end_share_s
            heapq.heappop(under_way)
            through[each] = now_s
        if place < len(ready_s):
            share_s += (until_s - now_s) / len(under_way) if under_way else 0.0
            now_s = until_s
            heapq.heappush(under_way, (share_s + seconds[place], place))
    return through


def _rest(work: Work, going: Ints, there_s: Floats) -> Work:
    """What decode engines get: requests in the order in which their KV cache arrives."""
    columns = {name: getattr(work, name) for name in ("priority", "group", "shared_tokens")}
    return Work(
        there_s,
        work.prompt_tokens[going],
        work.output_tokens[going],
        **{name: None if column is None else column[going] for name, column in columns.items()},
    )


def _joined(first: Served, second: Served, going: Ints) -> Served:
    """Columns of both pools as one: what the decode pool had follows what the prefill pool had."""
    assert first.tokens is not None
    assert second.tokens is not None
    engine, outcome, preemptions = first.engine.copy(), first.outcome.copy(), first.preemptions.copy()
    end_s = first.end_s.copy()
    before = len(first.tokens.step_end_s)
    engine[going] = second.engine + before
    outcome[going], end_s[going] = second.outcome, second.end_s
    preemptions[going] += second.preemptions
    logs = (*first.tokens.step_end_s, *second.tokens.step_end_s)
    offsets = np.concatenate([[0], np.cumsum([len(log) for log in logs])[:-1]]).astype(np.int64)
    first_step = first.tokens.first_step + offsets[first.engine]
    moments, apart = first.tokens.moments.copy(), {}
    for place, each in enumerate(going.tolist()):
        steps, so_far = second.tokens.of(place)
        apart[each] = (
            np.concatenate([[first_step[each]], steps + offsets[engine[each]]]),
            np.concatenate([[1], so_far]),
        )
        moments[each] = len(steps) + 1
    everything = np.concatenate([np.empty(0), *logs])
    tokens = Tokens((everything,) * len(logs), first_step, moments, apart)
    return Served(outcome, engine, first.start_s, first.first_token_s, end_s, preemptions, first.cached_tokens, tokens)
