"""The ledger: steps with one workload, what each gave, and the money by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sides import side
from twinlens.comparison.difference import workload_hash
from twinlens.comparison.ledger import OWN_LOAD, Prices, ledger
from twinlens.comparison.side import Side
from twinlens.errors import BadInput
from twinlens.record.codec import encode
from twinlens.record.finding import Finding
from twinlens.reporting.chart.ledger_bars import ledger_charts
from twinlens.reporting.comparing.ledger import ledger_document
from twinlens.reporting.document.terminal import screen
from twinlens.reporting.text.fitted import plain
from twinlens.stats.metrics.fidelity import Gate


def step(name: str, rate: float, *asked: str, **parts: Any) -> Side:
    """Three runs at about `rate` requests a second, of 8 tokens each, that take 1 / rate seconds each."""
    spread = (0.99, 1.0, 1.01)
    values = {
        "output_tokens_per_s": [8 * rate * each for each in spread],
        "requests_per_s": [rate * each for each in spread],
        "e2e_latency_s_p50": [1 / (rate * each) for each in spread],
        "mbu": [0.3] * 3,
    }
    return side(name, values, asked=asked, **parts)


def near(*values: float | None) -> list[Any]:
    return [None if value is None else pytest.approx(value, rel=1e-3) for value in values]


def test_each_step_has_what_changed_its_ratio_and_what_it_repays() -> None:
    """3.60 an hour is 0.001 a second: at 10/s a thousand cost 0.10, at 20/s 0.05; a million a month then save 50."""
    bf16 = "point.precision=bf16"
    found = ledger([step("a", 10), step("b", 20, bf16), step("c", 40, bf16, "point.batch=4")], prices=Prices(3.6, 1e6))
    assert [len(each.before.things) if each.before else None for each in found.steps] == [None, 1, 1]
    assert [each.figures["cost"].value for each in found.steps] == near(0.1, 0.05, 0.025)
    assert [each.repays.value for each in found.steps] == near(None, 50, 25)
    last = found.steps[2]
    assert last.before is not None
    assert last.baseline is not None
    assert [thing.aspect for thing in last.before.things] == ["batching"]
    assert [thing.aspect for thing in last.baseline.things] == ["precision", "batching"]
    assert last.before.effects[0].ratio.value == pytest.approx(2.0)
    assert last.baseline.effects[0].ratio.value == pytest.approx(4.0)
    assert found.metrics["latency"] == "e2e_latency_s_p50"
    text = plain(screen(ledger_document(found)))
    assert text.startswith("All steps together: 4.00× (3.")
    assert text.count("\n") <= 24
    assert max(map(len, text.splitlines())) <= 80


def test_latencies_at_each_steps_own_throughput_are_told_with_it_and_not_compared() -> None:
    """In lockstep the step that is twice as fast is asked for twice as much: 0.1 s at 10/s is not 0.05 s at 20/s."""
    found = ledger([step("a", 10), step("b", 20, "point.precision=bf16"), step("c", 40, "point.batch=4")])
    assert found.at_one_load is False
    assert [each.figures["latency"].value for each in found.steps] == near(0.1, 0.05, 0.025)
    for each in found.steps[1:]:
        assert each.before is not None
        assert each.baseline is not None
        for against in (each.before, each.baseline):
            ratios = {effect.metric: effect.ratio for effect in against.effects}
            assert ratios["e2e_latency_s_p50"].value is None
            assert ratios["e2e_latency_s_p50"].reason == OWN_LOAD
            assert ratios["requests_per_s"].value is not None
    told = " ".join(plain(screen(ledger_document(found))).split())
    assert "one load" not in told
    assert "latency p50 is at each step's own load (10.0, 20.0, 40.0 requests/s) and not compared" in told
    assert [chart.id for chart in ledger_charts(found)] == ["ledger-throughput", "ledger-utilisation"]
    plain_data = encode(found)
    assert plain_data["latencies_compared"] is False
    assert [each["load"] for each in plain_data["steps"]] == [{"batch": 1}, {"batch": 1}, {"batch": 4}]


def test_latencies_of_steps_that_met_one_rate_are_compared() -> None:
    at = ("workload.arrival.kind=poisson", "point.rate_per_s=5.0")
    found = ledger([step("a", 10, *at), step("b", 20, *at, "point.precision=bf16")])
    assert found.at_one_load
    assert found.steps[1].before is not None
    ratios = {effect.metric: effect.ratio.value for effect in found.steps[1].before.effects}
    assert ratios["e2e_latency_s_p50"] == pytest.approx(0.5, rel=0.01)
    told = plain(screen(ledger_document(found)))
    assert "one workload at 5 requests/s" in told
    assert "own load" not in told
    assert "ledger-latency" in [chart.id for chart in ledger_charts(found)]


def test_a_step_that_fails_its_fidelity_gate_counts_in_no_total() -> None:
    broken = step("int8", 40, "point.precision=int8-weight")
    gate = Gate(False, (Finding("fidelity-failed", "disqualifies"),), {})
    runs = tuple(replace(run, gate=gate) for run in broken.group.runs)
    failing = replace(broken, group=replace(broken.group, runs=runs))
    found = ledger([step("fp32", 10), step("bf16", 20, "point.precision=bf16"), failing])
    assert [each.fails_fidelity for each in found.steps] == [False, False, True]
    assert found.last is found.steps[1]
    text = " ".join(plain(screen(ledger_document(found))).split())
    assert text.startswith("All steps together: 2.00× (")
    assert "Step 2 fails its quality check and counts in no total." in text
    assert [each["fails_fidelity"] for each in encode(found)["steps"]] == [False, False, True]


def test_the_bounds_of_a_cost_come_from_the_interval_of_the_rate() -> None:
    cost = ledger([step("a", 10), step("b", 20)], prices=Prices(3.6)).steps[0].figures["cost"]
    assert cost.low is not None
    assert cost.high is not None
    assert cost.low < 0.1 < cost.high


def test_without_a_price_or_a_volume_there_is_no_money_and_never_0() -> None:
    bare, priced = (ledger([step("a", 10), step("b", 20)], prices=prices) for prices in (None, Prices(3.6)))
    assert bare.steps[1].figures["cost"].reason == "no price was given"
    assert (priced.steps[1].repays.value, priced.steps[1].repays.reason) == (None, "no volume was given")
    assert "not given: cost (no price was given)" in plain(screen(ledger_document(bare)))


def test_no_cell_of_a_ledger_is_cut_at_80_columns() -> None:
    """All quantities, money and long names: three steps, each with findings against it."""
    changes = ["point.precision=bf16", "point.batch=4", "executor.options.c_s=0.011"]
    steps = [step("a long name of a baseline", 10, label="drift")]
    steps += [
        step(f"a long name of step {place}", 10.0 * 2**place, *changes[:place], label="drift") for place in (1, 2, 3)
    ]
    text = plain(screen(ledger_document(ledger(steps, prices=Prices(3.6, 1e6)))))
    assert text.count("\n") <= 24
    assert "…" not in text.split("not measured")[0]
    assert "3  a long name of step 3: " in text


@pytest.mark.parametrize(
    ("setting", "field"),
    [
        ("workload.input_tokens.value=99", "input tokens"),
        ("point.rate_per_s=3.0", "rate per s"),
        ("workload.data.branches=3", "data"),
    ],
)
def test_another_workload_is_refused_by_what_differs(setting: str, field: str) -> None:
    with pytest.raises(BadInput, match=f"b differs from a in .*{field}") as raised:
        ledger([step("a", 10), step("b", 20, setting)])
    assert raised.value.code == "TL226"


def test_one_side_and_two_lenses_make_no_ledger() -> None:
    for sides in ([step("a", 10)], [step("a", 10), side("t", lens="training")]):
        with pytest.raises(BadInput) as raised:
            ledger(sides)
        assert raised.value.code == "TL226"


def test_a_step_that_is_not_ranked_says_so_and_has_no_ratio() -> None:
    text = plain(screen(ledger_document(ledger([step("a", 10), step("b", 20, label="drift")]))))
    assert "The last step has no ratio to the baseline." in text
    assert "✗ 1" in text
    assert "1  b: " in text
    assert "B (b) is not valid: drift" in text


def test_the_workload_hash_knows_the_work_and_not_who_does_it() -> None:
    base = workload_hash(step("a", 10))
    same = ["point.precision=bf16", "point.batch=4", "protocol.duration_s=99", "protocol.seed=4"]
    assert {workload_hash(step("b", 20, setting)) for setting in same} == {base}
    assert workload_hash(step("b", 20, "workload.model=small")) == base  # the weights are those of a
    assert workload_hash(step("b", 20, "workload.model=small", stack={"model.weights_hash": "bb"})) != base
    assert workload_hash(step("b", 20, "workload.output_tokens.value=9")) != base
