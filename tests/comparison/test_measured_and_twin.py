"""A measured run and its twin: the same law lies inside, and another one parts where it differs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

import twinlens as tl
from simulated_material import measured_run, spec_of
from twinlens.cli.main import app
from twinlens.comparison.twin import Twin, twin
from twinlens.record.run import Run
from twinlens.simulation.law import StepLaw, one
from twinlens.simulation.noise import Noise
from twinlens.simulation.points.play import play
from twinlens.simulation.points.run_folder import simulated_of, write_run
from twinlens.simulation.rules import Rules
from twinlens.spec.study import RunSpec

TRUTH = replace(one(0.010, 0.001, 0.0, 1e-4), before_s=0.004)


def rows_by(law: StepLaw, repeat: int, rate: float = 12.0) -> tuple[RunSpec, pa.Table]:
    spec = spec_of(rate, seconds=30.0).model_copy(update={"repeat": repeat})
    factors = np.random.default_rng([repeat, 5]).lognormal(0.0, 0.1, 4096)
    return spec, play(spec, law, Rules(), noise=Noise(factors, repeat)).table


def simulated(parent: Path, law: StepLaw, count: int = 6, first: int = 10) -> list[Run]:
    made = [rows_by(law, first + place) for place in range(count)]
    return [write_run(parent, spec, [table], simulated_of(law, Rules(), spec.seed), {}) for spec, table in made]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    parent = tmp_path_factory.mktemp("measured")
    return [measured_run(parent, table, spec) for spec, table in (rows_by(TRUTH, repeat) for repeat in range(2))]


def found_of(measured: list[Run], parent: Path, law: StepLaw) -> Twin:
    return twin(measured, simulated(parent, law))


def test_the_same_law_lies_inside_in_every_part(measured: list[Run], tmp_path: Path) -> None:
    found = found_of(measured, tmp_path, TRUTH)
    assert [each.part for each in found.parts] == ["arrival", "queue", "prefill", "decode", "tail"]
    assert found.outside == ()
    for each in found.parts:
        assert each.ratio.value == pytest.approx(1.0, abs=0.3)
        assert each.measured.origin == "measured"
        assert each.simulated.origin == "simulated"


@pytest.mark.parametrize(("law", "part"), [
    (replace(TRUTH, parts=(replace(TRUTH.parts[0], fixed_s=0.016),)), "decode"),
    (replace(TRUTH, before_s=0.030), "prefill"),
])  # fmt: skip
def test_another_law_parts_where_it_differs(measured: list[Run], tmp_path: Path, law: StepLaw, part: str) -> None:
    found = found_of(measured, tmp_path, law)
    assert part in found.outside
    assert "arrival" not in found.outside


def test_ratios_are_simulated_over_measured_by_hand(measured: list[Run], tmp_path: Path) -> None:
    found = found_of(measured, tmp_path, TRUTH)
    decode = next(each for each in found.parts if each.part == "decode")
    gaps = []
    for run in measured:
        rows = run.requests
        gaps.append(float(np.mean((rows.last_chunk_ns() - rows.first_chunk_ns()) / 1e9 / 15)))
    assert decode.measured.value == pytest.approx(np.mean(gaps), rel=1e-9)
    assert decode.ratio.value == pytest.approx((decode.simulated.value or 0) / np.mean(gaps), rel=1e-9)


def test_one_simulation_has_no_band_and_is_not_judged(measured: list[Run], tmp_path: Path) -> None:
    found = twin(measured, simulated(tmp_path, TRUTH, 1))
    assert {each.inside for each in found.parts} == {None}


def test_compare_gives_a_twin_a_verdict_of_its_own(measured: list[Run], tmp_path: Path) -> None:
    (same,) = tl.compare(measured, simulated(tmp_path / "same", TRUTH))
    assert same.verdict == "twin"
    assert same.effects == ()
    assert same.to_json()["twin"]["parts"][3]["part"] == "decode"
    slower = replace(TRUTH, parts=(replace(TRUTH.parts[0], fixed_s=0.016),))
    (apart,) = tl.compare(simulated(tmp_path / "slow", slower), measured)
    assert apart.findings[0].code == "twin-outside"


def test_the_twin_is_shown_part_by_part(measured: list[Run], tmp_path: Path) -> None:
    simulated(tmp_path / "twin", TRUTH)
    told = CliRunner().invoke(app, ["compare", str(measured[0].folder.parent), str(tmp_path / "twin")])
    assert told.exit_code == 0, told.output
    assert told.stdout.startswith("A twin: all of its 5 parts inside band and noise.")
    assert max(map(len, told.stdout.splitlines())) <= 80
    data = json.loads(CliRunner().invoke(
        app, ["compare", str(measured[0].folder.parent), str(tmp_path / "twin"), "--json"]).stdout)  # fmt: skip
    assert data["comparisons"][0]["verdict"] == "twin"


def test_a_simulation_of_another_load_is_no_twin(measured: list[Run], tmp_path: Path) -> None:
    spec, table = rows_by(TRUTH, 20, rate=6.0)
    other = write_run(tmp_path, spec, [table], simulated_of(TRUTH, Rules(), 0), {})
    (found,) = tl.compare(measured, [other])
    assert found.verdict == "not comparable"
    assert "simulated-beside-measured" in [each.code for each in found.findings]
