"""More of a resource never hurts: laws of the grid that a choice is made from."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from twinlens.api.plan.reading.subject import subject_of
from twinlens.planning.choose.serving_choice import serve, serving_ways
from twinlens.planning.choose.site import Pairs, Times, multiplied, pairs_of, smallest, taken
from twinlens.planning.choose.training_choice import train, training_ways
from twinlens.planning.choose.wanted import ServingWanted, TrainingWanted
from twinlens.planning.prediction.band import shipped as constants
from twinlens.planning.prediction.place import Layout
from twinlens.planning.prediction.step_time import decode_step
from twinlens.planning.subject import Subject
from twinlens.spec.catalogue import shipped

DEVICES = ("h100-sxm-80gb", "b200-sxm-180gb", "mi300x", "l4", "rtx-4090", "m2-ultra", "t4", "tpu-v5e")
MODELS = ("llama-3.1-8b", "llama-3.1-70b", "mixtral-8x7b")
USERS, CONTEXTS, MORE = st.integers(1, 256), st.integers(64, 8192), st.floats(1.01, 8.0)


@lru_cache(maxsize=8)
def at(model: str, lens: str) -> tuple[Subject, Pairs]:
    catalogue = shipped()
    subject = subject_of(model, catalogue)
    assert subject.shape is not None
    devices = [catalogue.device(name) for name in DEVICES]
    known = constants()[lens]
    pairs = pairs_of(devices, ("bf16", "fp8"), subject.shape, known, lambda *_: (), "", catalogue)
    return subject, pairs


@settings(max_examples=20, deadline=None)
@example(
    "llama-3.1-70b", 179, 133, 73, 7.065, "bandwidth"
)  # two prompts come in each step, whose weights are read once
@example("llama-3.1-8b", 2, 577, 64, 2.0, "compute")  # a shorter prefill: more of the other user's time is decode
@example("mixtral-8x7b", 2, 4370, 285, 4.0, "compute")  # more decode together, so each step reads more experts
@example("llama-3.1-8b", 254, 101, 71, 6.4, "bandwidth")  # products bound decode too: nothing is shared with a prompt
@given(st.sampled_from(MODELS), USERS, CONTEXTS, CONTEXTS, MORE, st.sampled_from(["bandwidth", "compute", "link"]))
def test_more_of_a_resource_never_makes_decode_slower(
    model: str, users: int, prompt: int, answer: int, more: float, resource: str
) -> None:
    subject, pairs = at(model, "serving")
    assert subject.shape is not None
    wanted = ServingWanted(subject, subject.shape, users, prompt, answer, (), None, None)
    ways = serving_ways(subject.shape, 8)
    pair, way = (each.ravel() for each in np.meshgrid(np.arange(len(pairs)), np.arange(len(ways.tensor))))
    now = serve(wanted, pairs, pair, ways, way)
    then = serve(wanted, pairs, pair, ways, way, Times(**{resource: more}))
    assert np.isfinite(now.tpot_s).all()
    layout = Layout(ways.tensor[way], np.ones(len(way)), ways.pipeline[way], np.ones(len(way)))
    work, fitted, rates = taken(pairs.work, pair), pairs.constants(pair), taken(pairs.rates, pair)
    faster = multiplied(rates, Times(**{resource: more}))
    context = prompt + answer / 2.0
    fewer, crowd = (decode_step(work, faster, layout, fitted, each.batch, context).total_s for each in (now, then))
    # Experts are read for each that decodes, and more decode at a time where prompts are done sooner.
    read = np.maximum(crowd - fewer, 0.0) if work.expert_layers.any() else 0.0
    assert (then.tpot_s <= now.tpot_s * (1 + 1e-6) + read).all()
    assert (then.requests_per_s >= now.requests_per_s * (1 - 1e-6)).all()
    alone = decode_step(work, rates, layout, fitted, float(users), float(prompt)).total_s
    assert (decode_step(work, faster, layout, fitted, float(users), float(prompt)).total_s <= alone * (1 + 1e-9)).all()


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(MODELS), st.sampled_from([8, 32, 128]), MORE, st.sampled_from(["bandwidth", "compute", "link"]))
def test_more_of_a_resource_never_makes_a_training_step_slower(
    model: str, sequences: int, more: float, resource: str
) -> None:
    subject, pairs = at(model, "training")
    assert subject.shape is not None
    wanted = TrainingWanted(subject, subject.shape, "full", sequences, 2048, ())
    ways = training_ways(wanted, 16)
    assert (sequences % (ways.data * ways.microbatch) == 0).all()
    pair, way = (each.ravel() for each in np.meshgrid(np.arange(len(pairs)), np.arange(len(ways.tensor))))
    now = train(wanted, pairs, pair, ways, way).total_s
    then = train(wanted, pairs, pair, ways, way, Times(**{resource: more})).total_s
    assert (then <= now * (1 + 1e-9)).all()


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5), st.floats(0.1, 9), st.booleans()), min_size=1))
def test_the_smallest_is_what_a_loop_finds(rows: list[tuple[int, int, float, bool]]) -> None:
    pair, devices, rate, meets = (np.array(column) for column in zip(*rows, strict=True))
    found = smallest(pair, devices, rate, meets)
    for one in range(4):
        best = min(((n, -r) for p, n, r, ok in rows if p == one and ok), default=None)
        assert (one in found) is (best is not None)
        if best is not None:
            assert (devices[found[one]], -rate[found[one]]) == best
