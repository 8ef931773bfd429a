"""`simulate` as people ask it: points with bands, limits, policies, what-ifs, and one sentence for what cannot be."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import twinlens as tl
from simulated_material import LAW, simulated_run
from twinlens.api.simulating.basis import modelled, quoted
from twinlens.api.simulating.settings import policies_of, settings_of
from twinlens.api.simulating.simulate import SimulateResult
from twinlens.cli.main import app
from twinlens.errors import BadInput
from twinlens.simulation.law import Affine, one
from twinlens.simulation.points.basis import Basis
from twinlens.simulation.points.sweep import Point, changes, flips, simulate_point, with_seeds
from twinlens.simulation.rules import Rules
from twinlens.spec.study import Study

TABLE = 'fixed_s = 0.012\nrow_s = 0.0004\ntoken_s = 1e-4\nbefore_s = 0.002\nsource = "by hand"\n'


@pytest.fixture(scope="module")
def law(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("law") / "law.toml"
    file.write_text(TABLE)
    return file


@pytest.fixture(scope="module")
def found(law: Path, tmp_path_factory: pytest.TempPathFactory) -> SimulateResult:
    return tl.simulate("chat", law=law, at=["rate_per_s=2,16,100"], set_=["protocol.duration_s=20"], seeds=3,
                       out=tmp_path_factory.mktemp("runs"))  # fmt: skip


def call(*words: object) -> Result:
    return CliRunner().invoke(app, ["simulate", *map(str, words)])


def test_a_point_has_the_median_and_the_band_of_its_simulations(found: SimulateResult) -> None:
    assert len(found.points) == 3
    for name in ("ttft_s_p50", "ttft_s_p95", "tpot_s_p99", "e2e_latency_s_mean", "output_tokens_per_s", "busy_share"):
        figure = found.points[0].figures[name]
        assert figure.origin == "simulated"
        assert figure.n == 3
        assert figure.value is not None
        assert figure.low is not None
        assert figure.high is not None
        assert figure.low <= figure.value <= figure.high


def test_overload_is_told_where_more_come_than_a_full_engine_serves(found: SimulateResult) -> None:
    calm, busy, over = found.points
    assert (calm.overloaded, busy.overloaded, over.overloaded) == (False, False, True)
    assert over.capacity is not None
    assert over.capacity.value is not None
    assert 16 < over.capacity.value < 100
    shown = " ".join(repr(found).split())
    assert "overloaded from" in shown
    assert "SIMULATED small · bf16" in shown


def test_every_simulation_is_a_run_folder_and_the_result_stands_for_its_runs(found: SimulateResult) -> None:
    assert len(found.runs) == len(list(found)) == 9
    assert found.folder is not None
    assert {run.place for run in tl.read(found.folder)} == {"simulated"}
    shown = " ".join(tl.show(found).split())
    assert "SIMULATED" in shown


def test_the_screen_fits_a_terminal_and_says_what_binds(found: SimulateResult) -> None:
    shown = repr(found)
    assert max(map(len, shown.splitlines())) <= 80
    assert "what every step costs" in shown
    assert "Every figure" in found.to_markdown()
    page = found.to_html()
    assert page.count("<svg") == 3, "TTFT and TPOT against the rate, and who waits for whom"
    assert "requests wait" in page


def test_json_has_law_rules_points_and_bands(law: Path, tmp_path: Path) -> None:
    told = call("chat", "--law", law, "--at", "rate_per_s=4", "--seeds", 2, "--set", "max_num_seqs=8",
                "--set", "protocol.duration_s=10", "--dry", "--json")  # fmt: skip
    assert told.exit_code == 0, told.stderr
    data = json.loads(told.stdout)
    assert (data["simulated"], data["law"]["origin"], data["rules"]["changed"]) == (True, "quoted", {"max_num_seqs": 8})
    assert data["points"][0]["figures"]["ttft_s_p99"]["origin"] == "simulated"
    assert data["points"][0]["binds"]["shares"]["fixed"] > 0.5
    assert data["runs"] == []


def test_the_same_seed_gives_the_same_rows(law: Path, tmp_path: Path) -> None:
    tables = [
        tl.simulate("chat", law=law, at=["rate_per_s=4"], set_=["protocol.duration_s=10"], seeds=1,
                    out=tmp_path / str(each)).runs[0].table
        for each in range(2)
    ]  # fmt: skip
    assert tables[0].equals(tables[1])


def test_policies_meet_the_same_arrivals_and_one_is_chosen(law: Path) -> None:
    found = tl.simulate("chat", law=law, at=["rate_per_s=4"], seeds=2, dry=True, set_=["protocol.duration_s=15"],
                        batching="continuous,static(8),dynamic(8,50ms),engine:static(8)")  # fmt: skip
    arrivals = {
        tuple(sorted(point.repeats[0].played.table.column("intended_ns").to_pylist())) for point in found.points
    }
    assert len(arrivals) == 1
    waits = {each.policy: each.figures["ttft_s_p99"].value or 0.0 for each in found.points}
    assert waits["continuous"] < waits["dynamic(8,50ms)"] < waits["static(8)"]
    assert found.chosen[4.0] == ("continuous",)
    assert "lowest TTFT p99 at 4/s: continuous" in " ".join(repr(found).split())


def test_what_requests_of_a_policy_wait_for_is_told_apart(law: Path) -> None:
    found = tl.simulate("chat", law=law, at=["rate_per_s=4"], seeds=1, dry=True, set_=["protocol.duration_s=15"],
                        batching="continuous,static(4),dynamic(4,50ms)")  # fmt: skip
    plain, static, dynamic = ({name: each.value for name, each in point.figures.items()} for point in found.points)
    assert "gathering_s" not in plain
    assert dynamic["gathering_s"] <= 0.05 < static["gathering_s"]
    (table,) = [point.repeats[0].played.table for point in found.points if point.policy == "static(4)"]
    waited = np.mean([row["released_ns"] - row["intended_ns"] for row in table.to_pylist()]) / 1e9
    assert sum(static[name] for name in ("gathering_s", "blocked_s", "slots_s")) == pytest.approx(waited, rel=1e-6)


def test_a_what_if_is_told_over_the_same_without_it_by_the_same_draws(law: Path) -> None:
    found = tl.simulate("chat", law=law, at=["rate_per_s=4"], seeds=2, dry=True,
                        set_=["overhead*2", "protocol.duration_s=15"])  # fmt: skip
    assert found.changed == ("overhead*2", "protocol.duration_s=15")
    ratio = changes(found.before[0], found.points[0], "tpot_s_p50")
    assert ratio.value == pytest.approx(0.012 / 2 / 0.0124 + 0.0004 / 0.0124, rel=0.5)
    assert "TPOT p50 ×" in " ".join(repr(found).split())
    plain = tl.simulate("chat", law=law, at=["rate_per_s=4"], seeds=1, dry=True, set_=["protocol.duration_s=5"])
    assert plain.before == ()


def test_the_choice_flips_between_the_rates_where_another_policy_is_the_best() -> None:
    def point(policy: str, rate: float, value: float) -> Point:
        study = tl.load("chat").at(rate_per_s=rate, precision="bf16")
        figure = tl.Estimate(value, "s", "made", "simulated", value * 0.9, value * 1.1, 0.9, n=3)
        return Point(study.point_runs()[0], policy, {"ttft_s_p99": figure}, None, None, None, {}, ())

    table = {"a": (1.0, 2.0, 8.0), "b": (3.0, 2.1, 4.0)}
    points = [
        point(name, rate, value) for name, row in table.items() for rate, value in zip((1, 2, 4), row, strict=True)
    ]
    best, turned = flips(points, "ttft_s_p99")
    assert best == {1.0: ("a",), 2.0: ("a", "b"), 4.0: ("b",)}
    assert [(each.below, each.above, each.from_per_s, each.to_per_s) for each in turned] == [("a", "b", 1.0, 4.0)]


def test_more_draws_of_the_law_widen_the_band() -> None:
    spec = tl.load("chat").at(rate_per_s=4.0).point_runs()[0]
    spec = spec.model_copy(update={"protocol": spec.protocol.model_copy(update={"duration_s": 15.0})})
    specs = with_seeds([spec], 4)
    sure = simulate_point(specs, Basis(LAW), Rules())
    unsure = simulate_point(specs, Basis(LAW, draws=tuple(one(0.01 * k, 0.002) for k in (0.5, 1, 1.5, 2))), Rules())
    widths = [(each.figures["tpot_s_p50"].high or 0) - (each.figures["tpot_s_p50"].low or 0) for each in (sure, unsure)]
    assert widths[1] > 5 * widths[0]
    assert "and constants" in unsure.figures["tpot_s_p50"].method


def test_a_point_says_how_far_it_lies_outside_what_was_measured() -> None:
    basis = Basis(LAW, reach={"requests_per_s": (1.0, 2.0), "prompt_tokens": (64.0, 64.0)})
    spec = tl.load("chat").at(rate_per_s=8.0).point_runs()[0]
    spec = spec.model_copy(update={"protocol": spec.protocol.model_copy(update={"duration_s": 5.0})})
    assert simulate_point([spec], basis, Rules()).beyond == {"requests_per_s": 4.0}


def test_a_modelled_law_reads_weights_and_cache_and_computes_products() -> None:
    spec = tl.parse(tl.load("chat").to_dict(), ['workload.model="llama-3.1-8b"']).point_runs()[0]
    basis = modelled(spec, "H100")
    read, computed = basis.law.parts
    assert 0.004 < read.fixed_s < 0.012, "16 GB of weights over 3.35 TB/s, and overheads"
    assert read.context_s == pytest.approx(131_072 / 3.35e12, rel=0.5)
    assert computed.token_s == pytest.approx(2 * 8.0e9 / 989e12, rel=1.0)
    assert basis.law.origin == "modelled"
    fixed = [each.parts[0].fixed_s for each in basis.draws]
    assert fixed == sorted(fixed)
    two = modelled(spec, "H100", 2)
    assert two.law.parts[0].context_s == pytest.approx(read.context_s / 2, rel=0.05)


def test_settings_are_of_the_spec_the_rules_or_the_machine() -> None:
    read = settings_of(["prompt=128", "rate=2,4", "precision=fp8", "max_num_seqs=16", "bandwidth*2", "device=H200",
                        "num_gpu_blocks=none", "protocol.duration_s=5"])  # fmt: skip
    assert read.spec == (
        'workload.input_tokens={kind="fixed", value=128}', "sweep.rate_per_s=[2, 4]", 'sweep.precision=["fp8"]',
        "protocol.duration_s=5",
    )  # fmt: skip
    assert read.rules == {"max_num_seqs": 16, "num_gpu_blocks": None}
    assert (read.factors, read.device) == ({"bandwidth": 2.0}, "H200")


def test_policies_are_read_with_their_sizes_and_waits() -> None:
    read = policies_of("continuous, continuous(8), dynamic(32, 50ms), engine:static(4)")
    assert [(each.kind, each.size, each.wait_s, each.where) for each in read] == [
        ("continuous", None, None, "front"), ("continuous", 8, None, "front"), ("dynamic", 32, 0.05, "front"),
        ("static", 4, None, "engine"),
    ]  # fmt: skip
    assert read[3].rules(Rules()) == replace(Rules(), batching="static", batch_size=4)
    assert read[2].point == ('point.admission="dynamic"', "point.batch=32", "point.timeout_s=0.05")


def test_a_table_of_constants_may_have_several_parts(tmp_path: Path) -> None:
    file = tmp_path / "law.json"
    file.write_text(json.dumps({"parts": [{"fixed_s": 0.01}, {"fixed_s": 0.002, "row_s": 0.001}], "after_s": 0.001}))
    law = quoted(file).law
    assert law.parts == (Affine(0.01), Affine(0.002, 0.001))
    assert (law.after_s, law.origin, law.source) == (0.001, "quoted", "law.json")


def bad_law(tmp_path: Path, text: str) -> str:
    file = tmp_path / "bad.toml"
    file.write_text(text)
    with pytest.raises(BadInput) as refused:
        quoted(file)
    return str(refused.value)


@pytest.mark.parametrize(("text", "words"), [
    ("fixed_s = -1", "fixed_s of a law is a number of seconds from 0 on, not '-1'"),
    ("fixed_s = nan", "fixed_s of a law is a number of seconds from 0 on, not 'nan'"),
    ("row_s = 0.1", "a part of a law has fixed_s, the seconds of every step; it is missing"),
    ("fixd_s = 0.1", "a law has no 'fixd_s'; did you mean 'fixed_s'?"),
    ("[[parts]]\nfixed = 1", "a part of a law has no 'fixed'; did you mean 'fixed_s'?"),
    ("parts = 3", "the parts of a law are tables of constants, at least one: [[parts]]"),
    ("fixed_s = ", "cannot be read"),
])  # fmt: skip
def test_a_law_that_is_none_is_refused_in_one_sentence(tmp_path: Path, text: str, words: str) -> None:
    assert words in bad_law(tmp_path, text)


@pytest.mark.parametrize(("words", "sentence"), [
    (("pretrain", "--device", "H100"), "a spec does not say how long training is"),
    (("chat",), "a simulation has one law, and nothing was given"),
    (("chat", "--law", "LAW", "--device", "H100"), "a simulation has one law, and --law and --device was given"),
    (("chat", "--law", "LAW", "--at", "rate_per_s=-2"), "rate_per_s"),
    (("chat", "--law", "LAW", "--set", "max_num_seqs=0"), "max_num_seqs is 0; it has to be at least 1"),
    (("chat", "--law", "LAW", "--set", "max_num_seqs=many"), "max_num_seqs is a whole number, not 'many'"),
    (("chat", "--law", "LAW", "--set", "num_gpu_blocks=2"), "it can never run"),
    (("chat", "--law", "LAW", "--set", "bandwith*2"), "'bandwith' has no factor; did you mean 'bandwidth'?"),
    (("chat", "--law", "LAW", "--set", "bandwidth*-1"), "bandwidth is times a number above 0"),
    (("chat", "--law", "LAW", "--batching", "static"), "static: say of how many requests a batch is"),
    (("chat", "--law", "LAW", "--batching", "dynamic(4)"), "a dynamic batch waits for so long"),
    (("chat", "--law", "LAW", "--batching", "greedy"), "--batching takes continuous"),
    (("chat", "--law", "LAW", "--seeds", "0"), "--seeds is a whole number from 1 to 1,000, not '0'"),
    (("chat", "--law", "LAW", "--at", "rate_per_s=100000"), "tokens, and at most 20,000,000 are simulated at once"),
    (("chat", "--law", "LAW", "--set", "device=H200"), "which is not in the catalogue"),
    (("chat", "--law", "LAW", "--sets", "1"), "simulate has no option --sets; did you mean '--set'?"),
])  # fmt: skip
def test_bad_input_is_one_sentence_before_any_work(law: Path, words: tuple[str, ...], sentence: str) -> None:
    told = call(*(str(law) if word == "LAW" else word for word in words))
    assert told.exit_code == 2, told.output
    assert sentence in " ".join(told.stderr.split())
    assert "Traceback" not in told.stderr
    assert told.stdout == ""


def test_a_law_is_not_learnt_from_simulated_runs(tmp_path: Path) -> None:
    run = simulated_run(tmp_path)
    with pytest.raises(BadInput, match="is simulated, and a law is learnt from what was measured"):
        tl.simulate("chat", like=[run])


def test_a_study_and_a_run_of_python_are_simulated_too(law: Path) -> None:
    study: Study = tl.load("chat").at(rate_per_s=4.0)
    more: dict[str, Any] = {"law": law, "seeds": 1, "dry": True, "set_": ["protocol.duration_s=5"]}
    for spec in (study, study.point_runs()[0]):
        assert [each.spec.point.rate_per_s for each in tl.simulate(spec, **more).points] == [4.0]
