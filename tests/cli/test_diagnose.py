"""`twinlens diagnose` on published runs and on runs of the fake executor."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from benchmarks.published import published
from click.testing import CliRunner, Result

import twinlens as tl
from material import for_rows, inference, measured, training
from twinlens.cli.main import app
from twinlens.reporting.wording.diagnosis import COUNTERS

RESULTS = published()
DEMO = RESULTS / "2026-11-20-epyc-2core"


def call(*words: str | Path) -> Result:
    return CliRunner().invoke(app, ["diagnose", *map(str, words)])


def published(pattern: str) -> Path:
    return next(path.parent for path in sorted(DEMO.glob(f"*/{pattern}*/run.json")))


@cache
def whole_json(place: Path) -> dict[str, Any]:
    """All that is said of published runs: several tests read it, and it takes seconds."""
    told = call(place, "--json")
    assert told.exit_code == 0, told.stderr
    return json.loads(told.stdout)  # type: ignore[no-any-return]


def as_json(place: Path) -> list[dict[str, Any]]:
    return whole_json(place)["diagnoses"]  # type: ignore[no-any-return]


def test_training_of_the_demo_is_compute_bound_by_its_measured_ceiling() -> None:
    (found,) = as_json(published("*training_fp32_r0"))
    verdict = found["verdict"]
    assert (verdict["code"], verdict["subject"]) == ("compute-bound", "step")
    assert verdict["numbers"]["compute_ceiling"] == "matrix_flop_per_s_at"
    assert verdict["numbers"]["compute_share"] == pytest.approx(0.70, abs=0.01)
    assert verdict["numbers"]["intensity_low"] > verdict["numbers"]["ridge"]
    assert verdict["numbers"]["at_most"] == pytest.approx(1.43, abs=0.02)
    assert "expect ×0.86 to ×1.4 the throughput" in verdict["text"]


def test_decode_of_the_demo_is_bound_by_kernels_that_read_at_a_third_of_memory() -> None:
    (found,) = as_json(published("*inference_fp32_r1"))
    decode = found["verdict"]["numbers"]
    assert (found["verdict"]["code"], found["verdict"]["subject"]) == ("kernel-bound", "decode")
    assert (decode["bandwidth_share"], decode["stream_share"]) == pytest.approx((0.66, 0.34), abs=0.01)
    assert decode["intensity_high"] < decode["ridge"]
    assert [each["code"] for each in found["phases"]] == ["compute-bound", "kernel-bound"]
    assert [each["code"] for each in found["findings"]] == ["kernel-below-stream", "batch-below-ridge"]


@pytest.mark.parametrize("folder", sorted(RESULTS.glob("*/")), ids=lambda path: path.name)
def test_parts_of_every_published_run_add_up_to_all_of_its_time(folder: Path) -> None:
    for found in as_json(folder):
        shares = [each["share"] for each in found["partition"]["parts"]]
        assert sum(shares) == pytest.approx(1.0, abs=1e-9)
        assert found["partition"]["parts"][-1]["part"] == "unattributed"
        assert len(found["counters"]) == 4


def test_one_run_is_on_one_screen() -> None:
    records = [path.parent for path in sorted(RESULTS.rglob("run.json"))]
    assert len(records) > 20
    for folder in records[::4]:
        told = call(folder)
        assert told.exit_code == 0, told.stderr
        assert told.stdout.count("\n") <= 24, folder
        assert max(map(len, told.stdout.splitlines())) <= 80


def test_a_study_is_a_line_for_each_point_with_one_verdict_over_its_repeats_and_advice() -> None:
    """Eight repeats of fp32 decode alone come to three verdicts; the point has one, and says how many agree."""
    told = call(RESULTS / "2026-11-22-neighbour-epyc-2core").stdout
    lines = told.splitlines()
    assert [line.split()[:3] for line in lines[1:5]] == [
        ["training", "fp32", "compute-bound"], ["training", "bf16", "below-ceilings"],
        ["inference", "fp32", "kernel-bound"], ["inference", "bf16", "kernel-bound"],
    ]  # fmt: skip
    assert lines[3].endswith("5 of 8 say so")
    assert "low" in lines[3].split()
    assert "          kernel-bound: Try another runtime" in told
    assert told.count("\n") <= 24
    assert max(map(len, lines)) <= 80


def test_one_point_of_several_repeats_is_one_screen_and_json_has_runs_and_points() -> None:
    points = whole_json(DEMO)["points"]
    assert {len(each["runs"]) for each in points} == {3}
    assert {each["verdict"]["numbers"]["repeats"] for each in points} == {3}
    one = call(
        *sorted({path.parent for path in DEMO.glob("*/*training_fp32_r*/run.json") if "quality" not in str(path)})
    )
    assert "3 repeats together; each of them alone has this verdict" in " ".join(one.stdout.split())
    assert one.stdout.count("\n") <= 24


def test_a_served_run_has_its_time_from_the_servers_own_figures() -> None:
    found = as_json(RESULTS / "2026-11-22-url-epyc-2core")
    assert all({"queue", "prefill", "transport"} <= {part["part"] for part in each["partition"]["parts"]}
               for each in found)  # fmt: skip
    assert {each["verdict"]["code"] for each in found} == {"indeterminate"}, "its ceilings are not known"


def test_the_fake_executor_measures_no_ceilings_and_the_diagnosis_says_so(tmp_path: Path) -> None:
    for data in (training("fake", protocol=for_rows(60)), inference("fake", protocol=for_rows(60))):
        (found,) = tl.diagnose(measured(tmp_path, data))
        assert found.verdict.code in ("indeterminate", "host-bound", "input-bound")
        assert "ceiling-not-measured" in [each.code for each in found.findings]


def test_a_run_that_was_cut_has_nothing_to_diagnose(tmp_path: Path) -> None:
    run = measured(tmp_path, training("fake", protocol=for_rows(60)))
    record = run.folder / "run.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | {"state": "interrupted"}))
    told = call(run.folder)
    assert told.exit_code == 2
    assert "was interrupted, so there is nothing to diagnose; give the same" in " ".join(told.stderr.split())


def test_a_path_without_runs_is_one_sentence(tmp_path: Path) -> None:
    told = call(tmp_path / "nowhere")
    assert told.exit_code == 2
    assert told.stderr.count("\n") == 1


def test_a_page_is_written_beside_what_is_printed(tmp_path: Path) -> None:
    page = tmp_path / "binds.html"
    told = call(published("*training_fp32_r0"), "-o", page)
    assert told.exit_code == 0, told.stderr
    assert "compute-bound" in told.stdout
    assert "report: " in told.stderr
    assert "compute-bound: 7" in page.read_text(encoding="utf-8")
    assert 'role="img"' in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [*COUNTERS.values(), "could show"])
def test_a_name_on_the_screen_has_a_page(name: str) -> None:
    word = name.partition(",")[0]
    assert word in tl.explain(word).lower()
