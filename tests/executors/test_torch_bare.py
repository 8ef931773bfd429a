"""What is reported agrees with a bare loop of a few lines, interleaved with it in one process on the same work."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import pytest

from material import inference, quiet, spec_of, training
from twinlens.testing.schedules import TimedRequests

torch = pytest.importorskip("torch", reason="needs the torch extra")
import torch.nn.functional as F  # noqa: E402

from twinlens.executors.torch.infer import TorchServer  # noqa: E402
from twinlens.executors.torch.model.build import build_model  # noqa: E402
from twinlens.executors.torch.model.data import Batches  # noqa: E402
from twinlens.executors.torch.train import TorchTrainer  # noqa: E402
from twinlens.record.request import Request  # noqa: E402

pytestmark = pytest.mark.torch
GENEROUS = 0.3


def agree(ours: Callable[[], float], bare: Callable[[], float], pairs: int, attempts: int = 3) -> None:
    """Medians of the ratio of neighbours: what a busy machine does to both cancels. A few tries, as it is noisy."""
    seen = []
    for _ in range(attempts):
        for _ in range(3):
            ours(), bare()
        ratios = []
        for turn in range(pairs):
            first, second = (ours, bare) if turn % 2 else (bare, ours)
            times = {first: first(), second: second()}
            ratios.append(times[ours] / times[bare])
        seen.append(statistics.median(ratios))
        if abs(seen[-1] - 1) < GENEROUS:
            return
    pytest.fail(f"ours / bare is {seen}, not within {GENEROUS:.0%} of 1")


def test_training_steps_take_as_long_as_those_of_a_bare_loop_and_learn_the_same() -> None:
    spec = spec_of(training(global_batch=8, seq_len=64))
    trainer = TorchTrainer()
    trainer.open(spec, quiet)
    device = torch.device("cpu")
    workload = trainer.workload
    model = build_model(trainer.ref, "sdpa", spec.seed, device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=workload.learning_rate, fused=True)
    batches = Batches(workload.data, trainer.ref, 8, 64, spec.seed, device, 8)
    losses: tuple[list[float], list[float]] = ([], [])

    def ours() -> float:
        marks = trainer.step()
        losses[0].append(marks.loss or 0.0)
        return (marks.end_ns - marks.begin_ns) / 1e9

    def bare() -> float:
        begin_s = time.perf_counter()
        inputs, targets = batches.next()
        loss = F.cross_entropy(model(input_ids=inputs, use_cache=False).logits.flatten(0, 1), targets.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses[1].append(loss.item())
        return time.perf_counter() - begin_s

    agree(ours, bare, pairs=15)
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_decoded_tokens_take_as_long_as_those_of_a_bare_loop() -> None:
    from transformers import StaticCache

    length, tokens = 16, 17
    parts = {"output_tokens": {"kind": "fixed", "value": tokens}}
    server, twin = TorchServer(), TorchServer()
    server.open(spec_of(inference(**parts)), quiet)
    twin.open(spec_of(inference(**parts)), quiet)  # the same weights in the same layout, played by hand
    model, prompts = twin.model, twin.prompts.batch([(9, 0)], length)
    cache = StaticCache(config=model.config, max_cache_len=length + tokens)

    def ours() -> float:
        rows: list[Request] = []
        server.play(TimedRequests([0], length, tokens), rows.append)
        return (rows[0].end_ns - rows[0].chunk_ns[0]) / 1e9

    @torch.inference_mode()
    def bare() -> float:
        cache.reset()
        token = model(input_ids=prompts, past_key_values=cache, use_cache=True).logits[:, -1:].argmax(-1)
        begin_s = time.perf_counter()
        for position in range(length, length + tokens - 1):
            ids = torch.tensor([[position]])
            token = model(input_ids=token, position_ids=ids, past_key_values=cache, use_cache=True).logits.argmax(-1)
        return time.perf_counter() - begin_s

    agree(ours, bare, pairs=15)
