"""A simulated run is a run folder that every verb reads, and that none takes for a measured one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import twinlens as tl
from served_material import served_run
from simulated_material import LAW, simulated_run, spec_of, table
from twinlens.api.plan.calibrate import observed
from twinlens.comparison.ranking import rankings
from twinlens.errors import BadInput
from twinlens.record.run import Run
from twinlens.record.store import read_run
from twinlens.simulation.law import one
from twinlens.simulation.points.run_folder import changed, simulated_of, write_run
from twinlens.simulation.rules import READ_FROM, Rules


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    law = replace(one(0.010, 0.002), origin="fitted", source="3 runs of vLLM")
    return simulated_run(tmp_path_factory.mktemp("simulated"), law, Rules(max_num_seqs=4))


def test_the_folder_says_what_the_run_stands_on(run: Run) -> None:
    known = read_run(run.folder).sections.simulated
    assert known is not None
    assert (known.origin, known.source, known.rules_from) == ("fitted", "3 runs of vLLM", READ_FROM)
    assert known.rules == {"max_num_seqs": 4}
    assert known.law["parts"][0]["fixed_s"] == 0.010
    assert run.place == "simulated"


def test_rules_as_shipped_are_not_told() -> None:
    assert changed(Rules()) == {}
    assert changed(Rules(num_gpu_blocks=100)) == {"num_gpu_blocks": 100}


def test_every_figure_of_a_simulated_run_is_simulated(run: Run) -> None:
    metrics = tl.summary(run).metrics
    assert metrics["tpot_s_p50"].value == pytest.approx(0.012, rel=1e-6)
    assert {each.origin for each in metrics.values()} == {"simulated"}
    assert metrics["peak_bytes"].reason == "nothing ran, so nothing was held in memory"


def test_the_first_screen_says_that_it_is_simulated(run: Run) -> None:
    shown = tl.show(run)
    assert shown.splitlines()[0].startswith("SIMULATED small")
    assert "Simulated, not measured: the law is fitted (3 runs of vLLM)" in " ".join(shown.split())


def test_points_say_it_too(tmp_path: Path) -> None:
    runs = [simulated_run(tmp_path, LAW, rate=rate) for rate in (4.0, 8.0)]
    shown = tl.show(*runs)
    assert "Simulated, not measured" in " ".join(shown.split())
    assert "SIMULATED" in shown


def test_a_simulated_run_is_diagnosed_and_reported(run: Run, tmp_path: Path) -> None:
    assert repr(tl.diagnose(run))
    page = tl.report([run], to=tmp_path / "report.html")
    assert "Simulated, not measured" in Path(page).read_text()


def test_a_simulated_run_has_no_ratio_beside_a_measured_one(run: Run, tmp_path: Path) -> None:
    measured, _ = served_run(tmp_path, 8.0)
    (found,) = tl.compare(measured, run)
    assert "simulated-beside-measured" in [each.code for each in found.findings]
    assert all(each.ratio.value is None for each in found.effects)


def test_a_simulated_run_has_no_rank_beside_measured_ones(run: Run, tmp_path: Path) -> None:
    from twinlens.api.compare import sides

    one_side = sides([run], False)
    measured = [sides([served_run(tmp_path / str(each), 8.0)[0]], False) for each in range(3)]
    ranked = [rank.side.group.is_simulated for ranking in rankings([*measured, one_side]) for rank in ranking.ranks]
    assert ranked == [False] * 3
    assert [rank.side for rank in rankings([one_side] * 3)[0].ranks] == [*one_side] * 3


def test_constants_are_not_fitted_to_simulated_runs(run: Run) -> None:
    with pytest.raises(BadInput, match="is simulated, and constants are fitted to what was measured"):
        observed([run], None, None, 1, None)


def test_a_run_that_was_stopped_is_not_valid(tmp_path: Path) -> None:
    spec = spec_of()
    stopped = write_run(tmp_path, spec, [table()], simulated_of(LAW, Rules(), 0, 60.0), {})
    summary = tl.summary(stopped)
    assert summary.validity == "not valid"
    assert "simulation-stopped" in [each.code for each in summary.disqualified]


def test_a_simulated_run_is_no_evidence_and_answers_no_question(run: Run, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="is simulated, and a pack holds what was measured"):
        tl.evidence(run, to=tmp_path / "pack.zip")
    with pytest.raises(BadInput, match="these runs are simulated, and what was measured answers"):
        tl.answers(run, to="precision=bf16,rate_per_s=8")
