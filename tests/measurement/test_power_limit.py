"""A power limit is set within the range of its device, and set back whatever ends the program."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import psutil
import pytest

from material import inference, spec_of, study_of, training
from nvml_machine import Board, Machine
from twinlens.errors import BadInput
from twinlens.measurement.preflight import power
from twinlens.measurement.session import run_here
from twinlens.measurement.study import measure_study
from twinlens.measurement.summary_file import summary_of
from twinlens.record.store import create_run, read_run
from twinlens.reporting.point_name import point_names
from twinlens.spec.study import RunSpec
from twinlens.stats.summary.group import group
from twinlens.system import nvml
from twinlens.system.limit_keeper import held_limits, set_back_left
from twinlens.system.power_limit import limits_of_gpus, limits_of_packages, package_limit_w, read_raw, write_raw
from twinlens.system.processes import this_machine

FAKE = Path(__file__).parent / "fake_nvml"
HOLDER = """
import sys, time
from pathlib import Path
from twinlens.system.limit_keeper import held_limits
from twinlens.system.power_limit import limits_of_packages
powercap, journals = map(Path, sys.argv[1:])
with held_limits(limits_of_packages(powercap), 60.0, journals, powercap):
    print("set", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def powercap(tmp_path: Path) -> Path:
    """Two packages at 125 W of at most 150 W, a core domain and a short-term constraint beside them."""
    root = tmp_path / "powercap"
    for number in (0, 1):
        folder = root / f"intel-rapl:{number}"
        folder.mkdir(parents=True)
        files = {"name": f"package-{number}", "enabled": "1", "constraint_0_name": "short_term",
                 "constraint_0_power_limit_uw": "187500000", "constraint_0_max_power_uw": "0",
                 "constraint_1_name": "long_term", "constraint_1_power_limit_uw": "125000000",
                 "constraint_1_max_power_uw": "150000000"}  # fmt: skip
        for name, text in files.items():
            (folder / name).write_text(text + "\n")
    core = root / "intel-rapl:0:0"
    core.mkdir()
    (core / "name").write_text("core\n")
    return root


def watts(powercap: Path) -> list[float]:
    files = sorted(powercap.glob("intel-rapl:?/constraint_1_power_limit_uw"))
    return [int(file.read_text()) / 1e6 for file in files]


def wait_until(met: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not met():
        assert time.monotonic() < until, "not met in a minute"
        time.sleep(0.05)


def holding(powercap: Path, journals: Path) -> subprocess.Popen[str]:
    """Another program that holds 60 W."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(powercap), str(journals)],
        stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert holder.stdout is not None
    assert holder.stdout.readline() == "set\n"
    return holder


def keeper_of(journals: Path) -> psutil.Process:
    return next(
        each for each in psutil.process_iter(["cmdline"]) if str(journals) in " ".join(each.info["cmdline"] or ())
        and "twinlens.system.limit_keeper" in each.info["cmdline"]
    )  # fmt: skip


def test_packages_are_held_at_a_limit_and_set_back_by_the_process_beside(powercap: Path, tmp_path: Path) -> None:
    limits, journals = limits_of_packages(powercap), tmp_path / "journals"
    assert [(each.device, each.now_w, each.least_w, each.most_w) for each in limits] == [
        ("package:intel-rapl:0", 125.0, 15.0, 150.0),
        ("package:intel-rapl:1", 125.0, 15.0, 150.0),
    ]
    with held_limits(limits, 90.5, journals, powercap):
        assert watts(powercap) == [90.5, 90.5]
        assert (powercap / "intel-rapl:0/constraint_0_power_limit_uw").read_text() == "187500000\n"
        with (
            pytest.raises(BadInput, match=f"held by another run .process {os.getpid()}.; wait for it"),
            held_limits(limits[1:], 50.0, journals, powercap),
        ):
            pass
        assert watts(powercap) == [90.5, 90.5]
    assert watts(powercap) == [125.0, 125.0]
    assert list(journals.glob("*.json")) == []


def test_a_limit_is_set_back_when_its_holder_and_all_of_its_group_are_killed(powercap: Path, tmp_path: Path) -> None:
    holder = holding(powercap, tmp_path / "journals")
    assert watts(powercap) == [60.0, 60.0]
    os.killpg(holder.pid, signal.SIGKILL)
    holder.wait()
    wait_until(lambda: watts(powercap) == [125.0, 125.0])
    wait_until(lambda: not list((tmp_path / "journals").glob("*.json")))


def test_the_next_start_sets_back_what_both_processes_left_when_both_were_killed(
    powercap: Path, tmp_path: Path
) -> None:
    journals = tmp_path / "journals"
    holder = holding(powercap, journals)
    assert set_back_left(journals) == ()
    assert watts(powercap) == [60.0, 60.0], "its holder lives"
    keeper_of(journals).kill()
    holder.kill()
    holder.wait()
    assert watts(powercap) == [60.0, 60.0]
    (powercap / "intel-rapl:1/constraint_1_power_limit_uw").write_text("80000000\n")
    assert set_back_left(journals) == ()
    assert watts(powercap) == [125.0, 80.0], "what somebody else has set since is theirs"
    assert list(journals.glob("*.json")) == []


def test_what_cannot_be_set_back_is_said_and_stays_in_the_journal(powercap: Path, tmp_path: Path) -> None:
    journals = tmp_path / "journals"
    journals.mkdir()
    gone = {"machine": "", "pid": 1, "born_s": 0.0, "powercap": str(powercap)}
    limits = {"package:intel-rapl:7": {"found": 125_000_000, "set": 60_000_000}}
    (journals / "1.json").write_text(json.dumps(gone | {"machine": this_machine(), "limits": limits}))
    (said,) = set_back_left(journals)
    assert said.endswith("it was 125000000 µW")
    with (
        pytest.raises(BadInput, match="a run that was killed has left a power limit behind"),
        held_limits(limits_of_packages(powercap), 60.0, journals, powercap),
    ):
        pass
    (journals / "1.json").write_text(json.dumps(gone | {"limits": limits}))
    assert set_back_left(journals) == (), "another start of the machine has its own limits again"
    (journals / "2.json").write_text("[]")
    assert set_back_left(journals) == ()


@pytest.mark.parametrize(
    ("file", "text", "why"),
    [
        ("enabled", "0", "its limit is switched off"),
        ("constraint_1_power_limit_uw", "", "cannot be read"),
        ("name", "psys", "there is no package under"),
    ],
)
def test_a_package_without_a_limit_that_may_be_set_says_why(powercap: Path, file: str, text: str, why: str) -> None:
    for folder in powercap.glob("intel-rapl:?"):
        (folder / file).write_text(text)
    with pytest.raises(BadInput, match=why) as refused:
        limits_of_packages(powercap)
    assert refused.value.code == "TL266"


@pytest.mark.parametrize("asked", [14.9, 150.1, float("nan")])
def test_a_limit_outside_the_range_is_refused_and_nothing_is_set(powercap: Path, tmp_path: Path, asked: float) -> None:
    with (
        pytest.raises(BadInput, match="is outside 15 to 150 W"),
        held_limits(limits_of_packages(powercap), asked, tmp_path / "journals", powercap),
    ):
        pass
    assert watts(powercap) == [125.0, 125.0]
    assert not (tmp_path / "journals").exists()


def test_a_measurement_begins_by_setting_back_what_was_left_and_says_where_it_cannot(
    powercap: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TWINLENS_CACHE", str(tmp_path))
    journal = tmp_path / "power-limits" / "1.json"
    journal.parent.mkdir()
    gone = {"machine": this_machine(), "pid": 1, "born_s": 0.0, "powercap": str(powercap)}
    left = {"package:intel-rapl:0": {"found": 150_000_000, "set": 125_000_000}}
    journal.write_text(json.dumps(gone | {"limits": left}))
    assert measure_study(study_of(training("fake")), tmp_path / "runs").runs
    assert watts(powercap) == [150.0, 125.0]
    journal.write_text(json.dumps(gone | {"limits": {"package:intel-rapl:7": left["package:intel-rapl:0"]}}))
    with pytest.raises(BadInput, match=r"left a power limit behind: .*; set it by hand, and remove the journals in"):
        measure_study(study_of(training("fake")), tmp_path / "runs", fresh=True)


def test_the_limit_that_a_processor_shows_is_the_lowest_of_its_packages(powercap: Path, tmp_path: Path) -> None:
    (powercap / "intel-rapl:1/constraint_1_power_limit_uw").write_text("95000000\n")
    assert package_limit_w(powercap) == 95.0
    assert package_limit_w(tmp_path / "nowhere") is None


def test_the_most_of_a_package_that_names_none_is_what_it_had(powercap: Path) -> None:
    (powercap / "intel-rapl:0/constraint_1_max_power_uw").write_text("0\n")
    assert limits_of_packages(powercap)[0].most_w == 125.0


@pytest.fixture
def boards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[int]]:
    """Two boards that this process and those it starts share; their limits in W."""
    file = tmp_path / "boards.json"
    file.write_text(json.dumps({"GPU-a": {"limit": 700_000}, "GPU-b": {"limit": 650_000}}))
    monkeypatch.setenv("FAKE_NVML", str(file))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(FAKE), *filter(None, [os.environ.get("PYTHONPATH")])]))
    monkeypatch.syspath_prepend(str(FAKE))
    monkeypatch.delitem(sys.modules, "pynvml", raising=False)
    return lambda: [each["limit"] // 1000 for each in json.loads(file.read_text()).values()]


def test_boards_are_held_at_a_limit_and_set_back_each_to_its_own(
    boards: Callable[[], list[int]], tmp_path: Path
) -> None:
    limits = limits_of_gpus(nvml.open_gpus()[0])
    with held_limits(limits, 300.0, tmp_path / "journals"):
        assert boards() == [300, 300]
    assert boards() == [700, 650]


def test_a_board_that_refuses_leaves_those_set_before_as_they_were(
    boards: Callable[[], list[int]], tmp_path: Path
) -> None:
    file = Path(os.environ["FAKE_NVML"])
    file.write_text(file.read_text().replace('"limit": 650000', '"limit": 650000, "locked": 1'))
    with (
        pytest.raises(BadInput, match="gpu:GPU-b cannot be set: NVML says Insufficient Permissions"),
        held_limits(limits_of_gpus(nvml.open_gpus()[0]), 300.0, tmp_path / "journals"),
    ):
        pass
    assert boards() == [700, 650]
    with pytest.raises(BadInput, match="NVML does not see it any more"):
        write_raw("gpu:GPU-c", 1)
    assert read_raw("gpu:GPU-c") is None


def test_a_board_without_a_limit_says_why() -> None:
    gpus: Any = nvml.gpus_of(Machine(Board("GPU-1")))[0]
    with pytest.raises(BadInput, match="NVML tells no limit or no range of it on this board"):
        limits_of_gpus(gpus)


# A run with a limit.


def asked(kind: str = "torch", **more: Any) -> RunSpec:
    return spec_of(training(kind, executor={"power_limit_w": 60.0, **more}))


def test_a_run_has_its_limit_while_it_is_measured_and_its_spec_says_so(
    powercap: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(power, "device_limits", lambda spec, _: limits_of_packages(powercap))
    monkeypatch.setattr(
        power, "held_limits", lambda limits, w, **_: held_limits(limits, w, tmp_path / "journals", powercap)
    )
    spec, seen = asked("fake"), list[list[float]]()
    folder = create_run(tmp_path, spec)
    run_here(folder, spec, lambda phrase, share, rows: seen.append(watts(powercap)))
    run = read_run(folder)
    assert run.is_finished
    assert run.spec.executor.power_limit_w == 60.0
    assert seen
    assert set(map(tuple, seen)) == {(60.0, 60.0)}
    assert watts(powercap) == [125.0, 125.0]


def test_a_sweep_of_the_limit_has_a_point_for_each_with_its_name(
    powercap: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[float] = []
    monkeypatch.setattr(power, "device_limits", lambda spec, _: limits_of_packages(powercap))
    monkeypatch.setattr(power, "held_limits", lambda limits, w, **_: nullcontext(held.append(w)))
    study = study_of(training("fake", sweep={"executor.power_limit_w": [50.0, 60.0]}))
    outcome = measure_study(study, tmp_path)
    assert sorted(held) == [50.0, 60.0]
    assert set(point_names(group([summary_of(run) for run in outcome.runs]))) == {
        "fp32 · power_limit_w 50.0",
        "fp32 · power_limit_w 60.0",
    }


def test_a_limit_is_of_the_devices_that_a_run_uses(
    powercap: Path, boards: Callable[[], list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def devices(spec: RunSpec) -> list[str]:
        return [limit.device.split(":")[1] for limit in power.device_limits(spec, powercap)]

    assert devices(asked(device="cpu")) == ["intel-rapl", "intel-rapl"]
    assert devices(asked(device="cuda:1")) == ["GPU-b"]
    assert devices(asked(device="cuda")) == ["GPU-a"]
    assert devices(asked("torch-parallel", device="cuda")) == ["GPU-a", "GPU-b"]
    assert devices(spec_of(inference("onnxruntime", executor={"power_limit_w": 60.0}))) == ["intel-rapl"] * 2
    split = {"options": {"tensor_parallel": 2}}
    assert devices(spec_of(inference("vllm", executor={"power_limit_w": 60.0, "device": "cuda"}, **split))) == [
        "GPU-a",
        "GPU-b",
    ]
    with pytest.raises(BadInput, match=r'set executor\.device to "cpu" or "cuda"'):
        devices(spec_of(inference("vllm", executor={"power_limit_w": 60.0, "device": "auto"})))
    with pytest.raises(BadInput, match=r"executor\.power_limit_w cannot be set"):
        devices(asked("torch-parallel", device="cuda", options={"ranks": 4}))


@pytest.mark.parametrize(
    ("data", "words", "code"),
    [
        (training("fake", executor={"power_limit_w": 60.0}), "has no effect on fake", "TL218"),
        (inference("openai-http", options={"url": "http://127.0.0.1:1/v1"}, executor={"power_limit_w": 60.0}),
         "has no effect on openai-http", "TL218"),
        (training(executor={"power_limit_w": 600.0}), "is outside 15 to 150 W", "TL266"),
    ],
)  # fmt: skip
def test_a_limit_that_cannot_be_had_is_refused_before_anything_starts(
    data: dict[str, Any], words: str, code: str, powercap: Path
) -> None:
    with pytest.raises(BadInput, match=words) as refused:
        power.refuse_power_limit(spec_of(data), powercap)
    assert refused.value.code == code


def test_points_that_take_turns_have_no_limit_of_their_own() -> None:
    data = training(protocol={"pairing": "slices", "isolate": True}, sweep={"executor.power_limit_w": [50.0, 60.0]})
    with pytest.raises(BadInput, match="the power limit is one for all that run at a time"):
        study_of(data)


def test_a_spec_without_a_limit_is_asked_as_before_there_was_one() -> None:
    without, limited = spec_of(training()), asked()
    assert "power_limit_w" not in without.to_dict()["executor"]
    assert limited.to_dict()["executor"]["power_limit_w"] == 60.0
    assert without.fingerprint() != limited.fingerprint()
    assert RunSpec.model_validate_json(json.dumps(limited.to_dict())) == limited
