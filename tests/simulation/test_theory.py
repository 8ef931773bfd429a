"""The engine against queueing theory: closed forms lie inside the interval of a simulation, and it is narrow."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.simulator.theory import STEP_S, Case, cases, compared, lengths, one_place, work_at

from twinlens.simulation.engine import Engine
from twinlens.simulation.law import one
from twinlens.simulation.outcome import overloaded_from
from twinlens.simulation.rules import Rules
from twinlens.simulation.serve import serve
from twinlens.simulation.work import Floats
from twinlens.theory.waiting.batching import continuous_time, dynamic_time
from twinlens.theory.waiting.servers import erlang_wait, pollaczek_khinchine, waiting_share


@pytest.mark.parametrize("case", list(cases()), ids=lambda case: case.name)
def test_a_closed_form_lies_in_the_interval_of_a_simulation(case: Case) -> None:
    found = compared(case)
    assert found.half < case.most * found.theory, f"an interval of ± {found.half / found.theory:.0%} proves nothing"
    assert found.agrees(case.slack), found


def lindley(arrival_s: Floats, service_s: Floats) -> Floats:
    """Wait of each request at one server: the most by which work since any earlier arrival exceeds the time since."""
    excess = np.concatenate([[0.0], np.cumsum(service_s[:-1] - np.diff(arrival_s))])
    return excess - np.minimum.accumulate(excess)


def test_each_wait_at_one_server_is_that_of_lindleys_recursion() -> None:
    work, waits_s, _ = one_place("two kinds", 0.9, 8_000)
    np.testing.assert_allclose(waits_s, lindley(work.arrival_s, STEP_S * work.output_tokens), atol=1e-8)


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
    expected = 10.0 * float((served.end_s - work.arrival_s).mean())
    counted = Case("requests there", "Little", len(there), 0.2, lambda count: (np.array(there, dtype=float), expected))
    found = compared(counted)
    assert found.half < 0.2 * expected
    assert found.agrees(), found


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
