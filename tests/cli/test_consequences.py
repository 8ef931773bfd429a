"""A check that fails has consequences: the first lines say so, JSON holds it, and `--gate` exits 1."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from material import inference, measured, run_json, study_of
from twinlens.cli.main import app
from twinlens.errors import GateFailed
from twinlens.measurement.session import run_here
from twinlens.record.codec import encode
from twinlens.record.executor.record import PrecisionCheck
from twinlens.record.run import Runs
from twinlens.record.store import create_run, read_run, update_run
from twinlens.spec.load import dump

LONG = {"duration_s": 30.0, "min_rows": 100}
SERVED = {
    "arrival": {"kind": "constant"},
    "point": {"rate_per_s": 1.0},
    "options": {"noise": 0.02},
    "protocol": {"duration_s": 200.0, "min_rows": 100},
}


def call(*words: str | Path) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def served(folder: Path, ttft_s: float) -> Path:
    file = folder / "served.toml"
    file.write_text(dump(study_of(inference("fake", slo={"ttft_s": ttft_s}, **SERVED))))
    return file


def test_a_gate_is_red_where_every_request_misses_the_slo(tmp_path: Path) -> None:
    done = call("measure", served(tmp_path, 1e-6), "--out", tmp_path / "a", "-q", "--gate")
    assert done.exit_code == 1
    assert "The SLO is missed: 0% of requests keep TTFT ≤ 1.00 µs" in done.stderr
    assert "slo-missed" in done.stderr
    head = "\n".join(done.stdout.splitlines()[:6])
    assert "✗ not valid: SLO missed" in head
    assert "✗ The SLO is missed" in head
    (run,) = (tmp_path / "a").glob("*/*/run.json")
    data = json.loads(call("show", run.parent, "--json").stdout)
    assert data["validity"] == "not valid"
    assert data["findings"][0]["code"] == "slo-missed"
    assert data["verdict"]["validity"] == "valid", "it was steady all the same"


def test_a_gate_is_green_where_the_slo_is_met(tmp_path: Path) -> None:
    done = call("measure", served(tmp_path, 100.0), "--out", tmp_path / "a", "-q", "--gate", "--set",
                "workload.slo.quantile=0.9")  # fmt: skip
    assert (done.exit_code, "is missed" in done.stderr) == (0, False)
    assert any(line.startswith("✓ valid: ") for line in done.stdout.splitlines()[:4])


def test_the_first_lines_of_several_points_name_what_is_not_ranked_and_why(tmp_path: Path) -> None:
    good = measured(tmp_path / "runs", inference("fake", options={"noise": 0.02}, protocol=LONG))
    bad = measured(tmp_path / "runs", inference("fake", options={"noise": 0.02}, protocol=LONG, point={"batch": 2}))
    ruled = {"id": "caching", "after": "TEST04", "ruling": "fail", "reason": "repeats take a tenth", "evidence": {}}
    update_run(bad.folder, guards=[ruled])
    shown = call("show", good.folder, bad.folder)
    assert shown.stdout.splitlines()[0] == "Of 2 points 1 is valid, 1 not valid."
    assert "✗ fp32 · batch 2 is not valid: guard failed" in " ".join(shown.stdout.split())
    whole = call("show", good.folder, bad.folder, "--all").stdout.splitlines()
    left = "Not valid: inference, fp32 · batch 2 (guard failed)."
    assert " ".join(whole[:2]).startswith(f"Of 2 points 1 is valid, 1 not valid. {left}")


def test_a_try_that_failed_and_was_made_again_does_not_fail_the_gate(tmp_path: Path) -> None:
    from twinlens.api.measuring.gate import gate
    from twinlens.measurement.study import Outcome
    from twinlens.record.store import end_run, find_runs

    spec = study_of(inference("fake", options={"noise": 0.02}, protocol=LONG)).runs()[0]
    end_run(create_run(tmp_path, spec), "failed", "no README.md")
    run_here(create_run(tmp_path, spec), spec, lambda phrase, share, rows: None)
    outcome = Outcome(tmp_path, Runs.of(find_runs(tmp_path)), 0, ())
    assert len(outcome.runs) == 2
    gate(outcome)


def damaged(folder: Path, rows: str = "requests.arrows") -> None:
    """Bytes in the middle of the rows flipped, as a bad disk or a bad copy does."""
    data = bytearray((folder / rows).read_bytes())
    middle = len(data) // 2
    data[middle : middle + 64] = bytes(byte ^ 0xFF for byte in data[middle : middle + 64])
    (folder / rows).write_bytes(bytes(data))


@pytest.fixture
def one_is_damaged(tmp_path: Path) -> tuple[Path, Path]:
    """A folder of two runs, the second of which has flipped bytes in its rows; and that second one."""
    measured(tmp_path / "runs", inference("fake", options={"noise": 0.02}, protocol=LONG))
    bad = measured(tmp_path / "runs", inference("fake", protocol=LONG, point={"batch": 2})).folder
    damaged(bad)
    return tmp_path / "runs", bad


def test_damaged_rows_are_one_sentence_and_exit_2(one_is_damaged: tuple[Path, Path]) -> None:
    done = call("show", one_is_damaged[1])
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert f"{one_is_damaged[1].name}/requests.arrows is damaged" in done.stderr
    assert "TL220" in done.stderr


def test_runs_beside_a_damaged_one_are_still_shown(one_is_damaged: tuple[Path, Path]) -> None:
    done = call("show", one_is_damaged[0])
    assert done.exit_code == 2
    assert "inference: batch 1" in done.stdout
    assert "is damaged" in done.stderr
    data = json.loads(call("show", one_is_damaged[0], "--json").stdout)
    assert data["point"]["batch"] == 1


def test_a_report_is_written_without_a_damaged_run_and_says_so(
    one_is_damaged: tuple[Path, Path], tmp_path: Path
) -> None:
    done = call("report", one_is_damaged[0], "-o", tmp_path / "r.html")
    assert done.exit_code == 2
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "A run is left out" in page.partition("What it comes to")[0]


def test_rows_of_a_finished_run_that_are_gone_are_no_finished_run_of_none(tmp_path: Path) -> None:
    run = measured(tmp_path, inference("fake", protocol=LONG))
    (run.folder / "requests.arrows").write_bytes(bytes(range(256)) * 40)
    assert call("show", run.folder).exit_code == 2


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            {"guards": [{"id": "caching", "after": "TEST04", "ruling": "fail", "reason": "x", "evidence": {}}]},
            "The guard 'caching' failed: x \\(guard-failed\\)",
        ),
        ({"facts.precision": "bf16"}, "weights was declared as fp32 and ran as bf16 .*\\(precision-differs\\)"),
    ],
)
def test_a_gate_is_red_where_a_check_failed_however_steady_the_run(
    tmp_path: Path, change: dict[str, Any], says: str
) -> None:
    from twinlens.api.measuring.gate import gate
    from twinlens.measurement.study import Outcome

    run = measured(tmp_path, inference("fake", options={"noise": 0.02}, protocol=LONG))
    gate(Outcome(tmp_path, Runs((run,)), 0, ()))
    if "facts.precision" in change:
        check = PrecisionCheck("weights", "fp32", "bf16", "differs", "native", "dtype of the tensors")
        change = {"facts": run_json(run)["facts"] | {"precision": [encode(check)]}}
    update_run(run.folder, **change)
    with pytest.raises(GateFailed, match=says):
        gate(Outcome(tmp_path, Runs((read_run(run.folder),)), 0, ()))


def test_a_gate_says_which_state_it_demands(tmp_path: Path) -> None:
    """Thirty rows that scatter by 15 %: nothing wrong is seen, and a change of a tenth would not be either."""
    asked = inference("fake", options={"noise": 0.15}, protocol={"duration_s": 1.0, "min_rows": 30, "steady_s": 0.0})
    file = tmp_path / "brief.toml"
    file.write_text(dump(study_of(asked)))
    bare = call("measure", "--gate", file, "--out", tmp_path / "a", "-q")
    assert (bare.exit_code, "is provisional, and the gate demands valid" in bare.stderr) == (1, True)
    assert call("measure", file, "--out", tmp_path / "b", "-q", "--gate", "valid").exit_code == 1
    less = call("measure", file, "--out", tmp_path / "c", "-q", "--gate", "provisional")
    assert less.exit_code == 0, less.stderr
    assert any(line.startswith("~ provisional: nothing wrong was seen") for line in less.stdout.splitlines()[:4])
    wrong = call("measure", file, "--out", tmp_path / "d", "-q", "--gate=steady")
    assert (wrong.exit_code, "--gate demands valid or provisional" in wrong.stderr) == (2, True)


def test_an_undecided_slo_fails_the_gate_and_says_how_many_more_requests_decide_it(tmp_path: Path) -> None:
    """All of 200 requests are within the limit, which 95 % asked can show and 99 % cannot."""
    done = call("measure", served(tmp_path, 100.0), "--out", tmp_path / "a", "-q", "--gate", "--set",
                "workload.slo.quantile=0.99")  # fmt: skip
    assert done.exit_code == 1
    assert "It is undecided if the SLO is met: 100% of requests keep TTFT" in done.stderr
    assert "more requests decide it" in done.stderr
    assert any(line.startswith("✓ valid: ") for line in done.stdout.splitlines()[:4]), "the rate is as good as any"


def test_the_gate_asks_a_run_that_was_looked_at_as_surely_as_its_looks_do(tmp_path: Path) -> None:
    """All of 130 requests are within the limit: one look shows 97 % of them with 122, two looks need 144."""
    file = tmp_path / "looked.toml"
    looked_at = SERVED | {"protocol": {"duration_s": 130.0, "most_s": 195.0, "min_rows": 20}}
    slo = {"ttft_s": 100.0, "quantile": 0.97}
    file.write_text(dump(study_of(inference("fake", slo=slo, **looked_at))))
    done = call("measure", file, "--out", tmp_path / "a", "-q", "--gate", "provisional")
    assert (done.exit_code, "slo-unclear" in done.stderr) == (1, True)
    once = call("measure", file, "--out", tmp_path / "b", "-q", "--gate", "provisional", "--set",
                "protocol.most_s=0")  # fmt: skip
    assert once.exit_code == 0, once.stderr
