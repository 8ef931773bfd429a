"""The one command for a GPU, on recorded answers: it judges, goes on after a failure, and keeps to its time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from benchmarks.gpu_asks import ASKS
from benchmarks.gpu_check import BUDGET_S, NEVER_SEEN, TOTAL_S, check, judged, main, recorded
from benchmarks.gpu_judge import JUDGES


def answer(name: str) -> dict[str, Any]:
    return recorded(name, Path(), 0.0)


def test_a_dry_run_writes_a_folder_and_says_first_what_was_never_seen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--dry-run", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(NEVER_SEEN)
    (folder,) = tmp_path.iterdir()
    result = json.loads((folder / "result.json").read_text())
    assert [part["name"] for part in result["results"]] == list(BUDGET_S)
    summary = (folder / "summary.md").read_text()
    assert "no device was asked" in summary
    assert "0 not as expected" in summary
    unseen = [
        part["name"] for part in result["results"] if any(line["verdict"] == "not seen" for line in part["lines"])
    ]
    assert unseen == ["second-gpu"], "a machine with one board cannot show what a second one does"


def test_every_check_can_be_asked_and_judged_within_twenty_five_minutes() -> None:
    assert set(ASKS) == set(JUDGES) == set(BUDGET_S)
    assert sum(BUDGET_S.values()) <= TOTAL_S == 1500


def test_a_check_that_fails_is_not_seen_and_the_others_go_on(tmp_path: Path) -> None:
    def ask(name: str, folder: Path, limit_s: float) -> dict[str, Any]:
        if name == "tf32":
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        return {"odd": 1} if name == "sustained" else answer(name)

    names = ["tf32", "sustained", "memory"]
    results = check(names, ask, tmp_path)
    assert [{line.verdict for line in result.lines} for result in results] == [
        {"not seen"},
        {"not seen"},
        {"as expected"},
    ]
    assert "illegal memory access" in results[0].lines[0].seen
    (late,) = check(["memory"], ask, tmp_path, total_s=0.0)
    assert late.lines[0].seen == "no time was left"


def test_no_check_is_given_more_than_its_own_time_or_what_is_left(tmp_path: Path) -> None:
    given: dict[str, float] = {}

    def ask(name: str, folder: Path, limit_s: float) -> dict[str, Any]:
        given[name] = limit_s
        return answer(name)

    check(["machine", "training"], ask, tmp_path, total_s=100.0)
    assert given["machine"] == BUDGET_S["machine"]
    assert given["training"] <= 100.0 < BUDGET_S["training"]


@pytest.mark.parametrize(
    ("name", "change", "expected"),
    [
        ("probe", lambda a: a["probes"][0].update(fp32_size=256), "the fp32 rate is not from 256 squared"),
        ("profiler", lambda a: a.update(operator_s=2 * a["device_s"]), "operators' time over that of the kernels"),
        ("profiler", lambda a: a.update(selected=["cudaLaunchKernel"]), "kernels, not calls, are selected"),
        ("tf32", lambda a: a["products"][2].update(arithmetic="tf32"), "fp32 at 8192 squared: fp32 by arithmetic"),
        ("decode", lambda a: a["facts"].update({"serving.graphs": "none: skipped"}), "CUDA graphs were captured"),
        ("training", lambda a: a["metrics"].update(data_share=0.11), "data_share"),
        ("training", lambda a: a["metrics"].update(hfu=0.9 * a["metrics"]["mfu"]), "HFU over MFU"),
        ("training", lambda a: a["metrics"].update(peak_bytes=3e9), "peak memory is the allocator's"),
        ("fp8-training", lambda a: a["runs"][0]["checks"][0].update(verdict="differs"), "fp8 eager: compute is"),
        ("sustained", lambda a: a.update(ceiling=2 * a["ceiling"]), "our sustained ceiling over that"),
        ("memory", lambda a: a.update(is_out_of_memory=False), "too large an allocation is known"),
        ("vision", lambda a: a["runs"]["fp32"].update({"cudnn.conv": "tf32"}), "fp32: convolutions are set to ieee"),
        ("tests", lambda a: a.update(code=1), "`pytest -m gpu` passes"),
    ],
)
def test_what_is_not_as_it_should_be_is_told(name: str, change: Any, expected: str) -> None:
    wrong = answer(name)
    change(wrong)
    found = {line.expected for line in judged(name, wrong) if line.verdict == "not as expected"}
    assert any(each.startswith(expected) for each in found), found


def test_a_name_that_does_not_exist_is_told_with_those_that_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--dry-run", "--only", "tensor"]) == 2
    assert "there are machine, profiler" in capsys.readouterr().err
