"""The one command for a GPU, on recorded answers: it judges, goes on after a failure, and keeps to its time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from benchmarks import gpu_several
from benchmarks.gpu_asks import ASKS
from benchmarks.gpu_check import (
    BUDGET_S,
    NEVER_SEEN,
    NOT_SEEN,
    OK,
    TIERS,
    TOTAL_S,
    WRONG,
    check,
    exit_code,
    judged,
    main,
    recorded,
)
from benchmarks.gpu_judge import JUDGES
from benchmarks.own_group import last_answer

from twinlens.executors import refuse
from twinlens.executors.refuse import refuse_unsupported


def answer(name: str) -> dict[str, Any]:
    return recorded(name, Path(), 0.0, nobody)


def nobody(answer: dict[str, Any]) -> None: ...


def test_a_dry_run_writes_a_folder_and_says_first_what_was_never_seen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--dry-run", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(NEVER_SEEN)
    (folder,) = tmp_path.iterdir()
    result = json.loads((folder / "result.json").read_text())
    assert [part["name"] for part in result["results"]] == list(TIERS["one"])
    summary = (folder / "summary.md").read_text()
    assert "no device was asked" in summary
    assert "0 not as expected" in summary
    assert "0 not seen" in summary, "one board is enough for its tier"


def test_the_tier_of_several_boards_covers_what_runs_on_them(tmp_path: Path) -> None:
    assert main(["--dry-run", "--tier", "several", "--out", str(tmp_path)]) == 0
    wanted = {"exchanges", "collectives", "parallel", "deepspeed", "watched", "replicas", "second-gpu"}
    assert wanted <= set(TIERS["several"])
    assert "server" in TIERS["one"]


def test_what_takes_other_installations_has_a_tier_and_is_not_seen_without_them(tmp_path: Path) -> None:
    assert main(["--dry-run", "--tier", "more", "--out", str(tmp_path)]) == OK
    assert {"adapters", "saves", "vllm", "tensorrt"} <= set(TIERS["more"])
    lacking = answer("tensorrt")
    lacking["runs"][0] |= {"state": "refused: tensorrt is not installed", "checks": [], "facts": {}}
    verdicts = {line.verdict for line in judged("tensorrt", lacking) if line.expected.startswith("tensorrt")}
    assert verdicts == {"not seen"}


def test_every_check_can_be_asked_and_judged_within_twenty_five_minutes() -> None:
    assert set(ASKS) == set(JUDGES) == set(BUDGET_S)
    assert sum(TIERS["one"].values()) < TOTAL_S == 1500, "starting and ending each takes time too"
    assert all(sum(tier.values()) < TOTAL_S for tier in TIERS.values())


def test_a_check_that_fails_is_not_seen_and_the_others_go_on(tmp_path: Path) -> None:
    def ask(name: str, folder: Path, limit_s: float, tell: Any) -> dict[str, Any]:
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

    def ask(name: str, folder: Path, limit_s: float, tell: Any) -> dict[str, Any]:
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
        ("tests", lambda a: a.update(failed=["tests/a.py::test_b"]), "a test passes"),
        ("tests", lambda a: a["skipped"].append("SKIPPED [1] tests/a.py: needs an NVIDIA GPU"), "none was skipped but"),
        (
            "server",
            lambda a: a["facts"].update({"accelerator.uuid": ["GPU-a", "GPU-b"]}),
            "it is charged with 1 boards",
        ),
        ("parallel", lambda a: a["runs"][0]["facts"].update({"accelerator.count": 1}), "ddp: the record counts every"),
        ("parallel", lambda a: a["runs"][0]["metrics"].update(mean_power_w=390.0), "ddp: mean power of all boards"),
        (
            "replicas",
            lambda a: [r.update(gpus="0") for r in a["two"]["replicas"]["replicas"]],
            "each replica was given",
        ),
        ("exchanges", lambda a: a.update(rows=a["rows"][:1]), "exchanges of a gigabyte were timed"),
        ("watched", lambda a: a["facts"].update({"accelerator.uuid": ["GPU-a"]}), "it is charged with 2 boards"),
        ("adapters", lambda a: a["runs"][1]["metrics"].update(peak_bytes=2e10), "peak memory of QLoRA over LoRA's"),
        ("saves", lambda a: a["runs"][1]["metrics"].update(save_blocked_s=2.0), "time that an async save blocks"),
        ("vllm", lambda a: a["runs"][1].update(state="failed: no kernel"), "fp8: the run finished"),
        ("tensorrt", lambda a: a["runs"][0]["checks"][0].update(verdict="differs"), "tensorrt: compute is fp16"),
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


HANGS = """
import json, subprocess, sys, time
grown = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
away = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
runs = json.loads(sys.argv[1])
for count in range(1, len(runs) + 1):
    print("ANSWER " + json.dumps({"runs": runs[:count], "pids": [grown.pid, away.pid]}), flush=True)
time.sleep(600)
"""


def hanging(name: str) -> list[str]:
    """A command that answers two of its three parts, starts two processes, one of which leaves its group, and hangs."""
    return [sys.executable, "-c", HANGS, json.dumps(answer(name)["runs"][:2])]


def test_a_check_that_hangs_is_ended_with_all_it_started_and_what_it_answered_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    heard: list[int] = []

    def ask(name: str, folder: Path, limit_s: float, tell: Any) -> dict[str, Any]:
        def counted(said: dict[str, Any]) -> None:
            heard.append(len(said["runs"]))
            tell(said)

        return last_answer(hanging(name), tmp_path, tmp_path / "log", 4.0, counted)

    (result,) = check(["fp8-training"], ask, tmp_path)
    assert heard == [1, 2], "each part is told when it is there"
    kept = json.loads((tmp_path / "fp8-training.json").read_text())
    assert kept["unfinished"] == "it took more than 4 s"
    assert len(kept["runs"]) == 2
    assert not any(map(psutil.pid_exists, kept["pids"])), "no orphan, in another session either"
    assert [line.verdict for line in result.lines].count("as expected") > 3
    assert result.lines[-1].verdict == "not seen"
    assert exit_code([result]) == NOT_SEEN
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == len(set(printed)) == len(set(result.lines)), "each line once"


def test_wrong_not_seen_and_well_have_codes_of_their_own(tmp_path: Path) -> None:
    def ask(name: str, folder: Path, limit_s: float, tell: Any) -> dict[str, Any]:
        return {"error": "it took more than 1 s"} if name == "vision" else answer(name)

    assert exit_code(check(["memory"], ask, tmp_path)) == OK
    assert exit_code(check(["memory", "vision"], ask, tmp_path)) == NOT_SEEN, "a pass of nothing is no pass"
    wrong = check(["vision"], ask, tmp_path) + check(["tests"], lambda *_: answer("tests") | {"code": 1}, tmp_path)
    assert exit_code(wrong) == WRONG
    assert exit_code([]) == NOT_SEEN
    assert len({OK, WRONG, NOT_SEEN, 2}) == 4


INTERRUPTED = """
import sys
from pathlib import Path
from benchmarks.gpu_check import check, exit_code
from benchmarks.own_group import last_answer
out = Path(sys.argv[1])
def ask(name, folder, limit_s, tell):
    def heard(said):
        tell(said)
        print("HEARD", flush=True)
    return last_answer(sys.argv[2:], out, out / "log", 300.0, heard)
sys.exit(exit_code(check(["fp8-training", "memory"], ask, out)))
"""


def test_ctrl_c_ends_the_check_writes_the_summary_and_is_no_traceback(tmp_path: Path) -> None:
    command = [sys.executable, "-c", INTERRUPTED, str(tmp_path), *hanging("fp8-training")]
    root = Path(__file__).parents[2]
    running = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=root,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # tests in the background ignore it
    )  # fmt: skip
    assert running.stdout is not None
    for line in running.stdout:
        if line == "HEARD\n":
            break
    os.kill(running.pid, signal.SIGINT)
    _, said = running.communicate(timeout=60)
    assert (running.returncode, said) == (NOT_SEEN, "")
    assert not any(map(psutil.pid_exists, json.loads((tmp_path / "fp8-training.json").read_text())["pids"]))
    assert json.loads((tmp_path / "memory.json").read_text()) == {"error": "it was interrupted"}
    assert "it was interrupted" in (tmp_path / "summary.md").read_text()


def test_a_check_that_crashes_keeps_what_it_answered_and_says_its_code(tmp_path: Path) -> None:
    script = "print('ANSWER {\"part\": 1}'); raise SystemExit(7)"
    found = last_answer([sys.executable, "-c", script], tmp_path, tmp_path / "log", 60.0, nobody)
    assert found == {"part": 1, "unfinished": "it ended with code 7; see log"}
    none = last_answer([sys.executable, "-c", "print(1)"], tmp_path, tmp_path / "log", 60.0, nobody)
    assert none == {"error": "it gave no answer; see log"}


@pytest.mark.parametrize(
    "name",
    ["server", "replicas", "collectives", "parallel", "deepspeed", "adapters", "saves", "vllm", "tensorrt"],
)
def test_the_specs_that_are_asked_through_studies_are_specs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from twinlens.measurement import study as module

    measured: list[Any] = []
    monkeypatch.setattr(module, "measure_study", lambda study, folder: _kept(measured, study))
    monkeypatch.setattr(refuse, "find_spec", lambda name: name)  # as if the packages of adapters were here
    monkeypatch.setattr(gpu_several, "boards", lambda: 2)
    monkeypatch.setattr(gpu_several, "_link", lambda: "NVLink")
    monkeypatch.setattr(gpu_several, "HOSTS", Path(sys.executable))
    monkeypatch.setattr(gpu_several, "said_of", lambda run: {"state": "finished"})
    found = ASKS[name](tmp_path)
    assert [found] if isinstance(found, dict) else list(found)
    assert measured
    for study in measured:
        for spec in study.point_runs():
            assert spec.device.kind == "cuda"
            refuse_unsupported(spec)


def _kept(measured: list[Any], study: Any) -> Any:
    measured.append(study)
    return SimpleNamespace(runs=[None])
