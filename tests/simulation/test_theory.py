"""The engine against queueing theory: closed forms lie inside the interval of a simulation, and it is narrow."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from twinlens.simulation.engine import Engine
from twinlens.simulation.fleet import Replica, serve_fleet
from twinlens.simulation.law import one
from twinlens.simulation.outcome import overloaded_from
from twinlens.simulation.routing import Routing
from twinlens.simulation.rules import Rules
from twinlens.simulation.serve import serve
from twinlens.simulation.work import Floats, Ints, Work
from twinlens.theory.waiting.batching import continuous_time, continuous_tpot, dynamic_time
from twinlens.theory.waiting.servers import erlang_wait, pollaczek_khinchine, waiting_share

ROOM = Rules(max_num_seqs=10**6, max_num_batched_tokens=10**6)
STEP_S = 0.01


def lengths(kind: str, mean: int, count: int, generator: np.random.Generator) -> Ints:
    """Answer lengths with this mean: fixed, geometric, of two kinds (cv² 4), or of a heavy tail."""
    if kind == "fixed":
        return np.full(count, mean)
    if kind == "geometric":
        return generator.geometric(1 / mean, count)
    if kind == "two kinds":
        short = generator.random(count) < 0.8872983346207417
        return np.where(
            short, generator.geometric(1.7745966692 / mean, count), generator.geometric(0.2254 / mean, count)
        )
    return np.maximum(1, np.round(generator.pareto(2.5, count) * 1.5 * mean)).astype(np.int64)


def work_at(rate_per_s: float, output: Ints, generator: np.random.Generator) -> Work:
    ones = np.ones(len(output), dtype=np.int64)
    return Work(np.cumsum(generator.exponential(1 / rate_per_s, len(output))), ones, output)


def lindley(arrival_s: Floats, service_s: Floats) -> Floats:
    """Wait of each request at one server: the most by which work since any earlier arrival exceeds the time since."""
    excess = np.concatenate([[0.0], np.cumsum(service_s[:-1] - np.diff(arrival_s))])
    return excess - np.minimum.accumulate(excess)


def within(values: Floats, expected: float, most: float) -> None:
    """Asserts that the 99.5 % interval of the mean, by 20 batches behind a tenth, holds what is expected.

    `most`: the half of the interval that is still narrow, as a share of what is expected.
    """
    batches = np.array([batch.mean() for batch in np.array_split(values[len(values) // 10 :], 20)])
    half = stats.t.ppf(0.9975, 19) * batches.std(ddof=1) / np.sqrt(20)
    assert half < most * expected, f"an interval of ± {half / expected:.0%} proves nothing"
    assert abs(batches.mean() - expected) < half, f"{batches.mean():.4g} ± {half:.2g}, theory {expected:.4g}"


@pytest.mark.parametrize("kind", ["fixed", "geometric", "two kinds"])
@pytest.mark.parametrize(("load", "most"), [(0.3, 0.3), (0.5, 0.4), (0.7, 0.5), (0.9, 0.7)])
def test_one_place_waits_as_pollaczek_and_khinchine_say(kind: str, load: float, most: float) -> None:
    generator = np.random.default_rng(11)
    count = 30_000 if load == 0.9 else 16_000 if kind == "two kinds" else 8_000
    output = lengths(kind, 20, count, generator)
    service_s, cv2 = STEP_S * output.mean(), output.var() / output.mean() ** 2
    work = work_at(load / service_s, output, generator)
    served = serve(work, one(STEP_S), Rules(max_num_seqs=1), tokens=False)
    waits_s = served.start_s - work.arrival_s
    within(waits_s, pollaczek_khinchine(load / service_s, service_s, cv2), most)
    np.testing.assert_allclose(waits_s, lindley(work.arrival_s, STEP_S * output), atol=1e-8)


@pytest.mark.parametrize("kind", ["fixed", "geometric", "heavy tail"])
@pytest.mark.parametrize("rate_per_s", [5.0, 15.0])
def test_continuous_batching_takes_as_long_as_processor_sharing_says(kind: str, rate_per_s: float) -> None:
    generator = np.random.default_rng(7)
    output = lengths(kind, 200, 10_000, generator)
    work = work_at(rate_per_s, output, generator)
    served = serve(work, one(0.005, row_s=0.0002), ROOM, tokens=False)
    time_s, mean = served.end_s - work.arrival_s, float(output.mean())
    within(time_s, continuous_time(rate_per_s, mean, 0.005, 0.0002), 0.2)
    within(time_s * len(output) / output.sum(), continuous_tpot(rate_per_s, mean, 0.005, 0.0002), 0.2)


def test_replicas_with_one_queue_wait_as_erlang_says_and_a_random_split_as_single_ones() -> None:
    generator = np.random.default_rng(3)
    output = lengths("geometric", 50, 6_000, generator)
    service_s = STEP_S * float(output.mean())
    work = work_at(0.7 * 4 / service_s, output, generator)
    replicas = [Replica(Rules(max_num_seqs=1), one(STEP_S))] * 4
    shared = serve_fleet(work, replicas, Routing("least-tokens"), tokens=False)
    within(shared.start_s - work.arrival_s, erlang_wait(0.7 * 4 / service_s, service_s, 4), 0.4)
    split = serve_fleet(work, replicas, Routing("random"), tokens=False)
    within(split.start_s - work.arrival_s, pollaczek_khinchine(0.7 / service_s, service_s, 0.98), 0.4)


@pytest.mark.parametrize("load", [0.3, 0.6, 0.9])
def test_batches_of_all_that_wait_take_as_long_as_inoue_says(load: float) -> None:
    generator = np.random.default_rng(5)
    work = work_at(load / 0.001, np.ones(20_000, dtype=np.int64), generator)
    rules = Rules(batching="dynamic", batch_size=10**6, max_num_seqs=10**6)
    served = serve(work, one(0.005, row_s=0.001), rules, tokens=False)
    time_s = float((served.end_s - work.arrival_s).mean())
    assert time_s == pytest.approx(dynamic_time(load / 0.001, 0.005, 0.001), rel=0.06)


def test_requests_that_are_there_are_rate_times_time() -> None:
    generator = np.random.default_rng(9)
    work = work_at(10.0, lengths("geometric", 100, 3_000, generator), generator)
    engine, law = Engine(Rules(max_num_seqs=16), one(0.005, row_s=0.0002)), one(0.005, row_s=0.0002)
    there, looks = [], np.arange(50.0, work.arrival_s[-1], 1.0)
    place = 0
    for look_s in looks.tolist():
        while work.arrival_s[place] <= look_s:
            engine.run_until(work.arrival_s[place])
            engine.add(work.arrival_s[place], 1, int(work.output_tokens[place]))
            place += 1
        engine.run_until(look_s)
        there.append(
            len(engine.running) + len(engine.waiting) + sum(each.end_s > look_s for each in engine.finished[-20:])
        )
    served = serve(work, law, Rules(max_num_seqs=16), tokens=False)
    within(np.array(there, dtype=float), 10.0 * float((served.end_s - work.arrival_s).mean()), 0.2)


def test_closed_forms_have_their_known_values_and_end_where_the_server_is_full() -> None:
    assert pollaczek_khinchine(0.5, 1.0, 1.0) == pytest.approx(1.0)
    assert pollaczek_khinchine(0.5, 1.0, 0.0) == pytest.approx(0.5)
    assert waiting_share(1.0, 1.0, 2) == pytest.approx(1 / 3)
    assert erlang_wait(1.0, 1.0, 2) == pytest.approx(1 / 3)
    assert erlang_wait(0.5, 1.0, 1) == pytest.approx(pollaczek_khinchine(0.5, 1.0, 1.0))
    assert waiting_share(80.0, 1.0, 100) == pytest.approx(0.0196, abs=1e-3)
    assert continuous_time(5.0, 200, 0.005, 0.0002) == pytest.approx(1.3)
    assert [dynamic_time(rate, 0.005, 0.001) for rate in (300, 600, 900)] == pytest.approx(
        [0.01198, 0.02078, 0.0826], rel=1e-3
    )
    assert pollaczek_khinchine(1.0, 1.0, 1.0) == erlang_wait(2.0, 1.0, 2) == float("inf")
    assert continuous_time(25.0, 200, 0.005, 0.0002) == dynamic_time(1000, 0.005, 0.001) == float("inf")


def test_an_overloaded_engine_says_the_rate_that_it_keeps_up_with_and_a_quiet_one_says_none() -> None:
    generator = np.random.default_rng(2)
    output = lengths("geometric", 50, 4_000, generator)
    most_per_s = 1 / (STEP_S * float(output.mean()))
    found = []
    for share in (0.6, 1.5, 3.0):
        work = work_at(share * most_per_s, output, generator)
        found.append(overloaded_from(work, serve(work, one(STEP_S), Rules(max_num_seqs=1), tokens=False)))
    assert found == [None, pytest.approx(most_per_s, rel=0.1), pytest.approx(most_per_s, rel=0.1)]
