"""Every verb as people call it: data on stdout, words on stderr, JSON that parses, exit codes that mean something."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from material import command, fixed, inference, run_json, study_of, training, twinlens
from twinlens.cli.main import app
from twinlens.measurement.summary_file import summary_of
from twinlens.record.finding import Finding
from twinlens.record.store import find_runs
from twinlens.reporting.wording.finding import advice_of, sentence_of
from twinlens.spec.load import dump
from twinlens.stats.run_summary import to_json
from twinlens.version import __version__

VERBS = (
    "demo", "probe", "check", "measure", "new", "show", "diagnose", "compare", "report", "claim", "evidence", "plan",
    "explain", "list",
)  # fmt: skip


def call(*words: str | Path) -> Result:
    """A verb in this process: as quick as a function, stdout and stderr apart."""
    return CliRunner().invoke(app, [str(word) for word in words])


def loaded(*words: str) -> set[str]:
    """Top-level modules that a command line loads, seen by the interpreter itself."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *words], capture_output=True, text=True, check=True, timeout=60
    )
    names = re.findall(r"^import time: *\d+ \| *\d+ \| *([\w.]+)$", done.stderr, re.MULTILINE)
    return {name.split(".")[0] for name in names} | set(names)


HEAVY = {"numpy", "scipy", "torch", "transformers", "pyarrow", "pandas", "altair", "vl_convert", "jinja2", "psutil"}


def test_help_and_version_load_nothing_heavy() -> None:
    for word in ("--help", "--version"):
        seen = loaded("-m", "twinlens.cli.main", word)
        assert not seen & HEAVY, word
        assert not seen & {"pydantic", "rich.progress", "rich.table", "rich.markdown"}, word
        assert "typer" in seen


def test_importing_the_package_loads_nothing_but_itself() -> None:
    seen = loaded("-c", "import twinlens")
    assert not seen & (HEAVY | {"pydantic", "typer", "rich"})
    assert "twinlens.version" in seen


def test_listing_does_not_load_torch() -> None:
    for kind in ("models", "executors", "precisions", "runs"):
        assert not loaded("-m", "twinlens.cli.main", "list", kind) & {"torch", "transformers"}, kind


def test_help_names_every_verb_and_each_explains_itself() -> None:
    whole = call("--help")
    assert whole.exit_code == 0
    assert set(re.findall(r"^  (\w+) +[A-Z]", whole.stdout, re.MULTILINE)) == set(VERBS)
    for verb in VERBS:
        shown = call(verb, "--help")
        assert shown.exit_code == 0
        assert shown.stdout.startswith("Usage: ")
        assert shown.stderr == ""


def test_help_says_each_verb_in_a_whole_sentence_and_where_to_start() -> None:
    for word in ("-h", "--help"):
        shown = call(word).stdout
        assert "..." not in shown.partition("Start here")[2].replace("VERB ...", "")
        assert max(map(len, shown.splitlines())) <= 80
        assert shown.index("Start here:") < shown.index("Measure:") < shown.index("Options:")


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("bench", "'measure'"),
        ("diff", "'compare'"),
        ("shwo", "'show'"),
        ("help", "twinlens --help"),
        ("xyzzy", "known:"),
    ],
)
def test_a_verb_that_is_none_is_answered_with_one_that_is(word: str, says: str) -> None:
    wrong = call(word)
    assert (wrong.exit_code, wrong.stdout) == (2, "")
    assert f"there is no verb {word!r}" in wrong.stderr
    assert says in wrong.stderr


def test_words_of_other_tools_name_verbs_that_are_there_or_are_to_come() -> None:
    from twinlens.cli.help import _MEANT

    assert set(_MEANT.values()) <= {*VERBS, "new"}
    assert not set(_MEANT) & {*VERBS, "new"}


def test_explain_without_a_word_names_every_page() -> None:
    from twinlens.pages import KINDS, names

    shown = " ".join(call("explain").stdout.split())
    assert [name for kind in KINDS for name in names(kind) if name not in shown] == []


def test_a_terminal_without_our_letters_gets_the_nearest_ones(measured_runs: Path) -> None:
    shown = twinlens("show", measured_runs, PYTHONIOENCODING="ascii")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.isascii()
    assert "\n+ fp32 " in shown.stdout  # the check mark of a ranked point
    assert "?" not in shown.stdout
    run = find_runs(measured_runs)[0].folder
    data = twinlens("show", run, "--json", PYTHONIOENCODING="ascii").stdout
    assert json.loads(data)["metrics"] == json.loads((run / "summary.json").read_text())["metrics"]


def test_the_version_is_the_packages_own() -> None:
    assert call("--version").stdout == f"twinlens {__version__}\n"


def test_no_verb_shows_help_and_a_wrong_one_is_an_error() -> None:
    assert "Start here:" in call().output
    wrong = call("mesure")
    assert wrong.exit_code == 2
    assert wrong.stdout == ""
    assert "there is no verb 'mesure'; did you mean 'measure'?" in wrong.stderr


@pytest.mark.parametrize(
    "kind", ["kinds", "models", "precisions", "executors", "metrics", "devices", "examples", "fields", "runs"]
)
def test_list_prints_a_table_and_the_same_as_json(kind: str, measured_runs: Path) -> None:
    shown, data = call("list", kind, "--out", measured_runs), call("list", kind, "--out", measured_runs, "--json")
    assert (shown.exit_code, shown.stderr, data.stderr) == (0, "", "")
    rows = json.loads(data.stdout)
    assert rows
    for row in rows:
        first = str(next(iter(row.values())))
        assert first[:20] in shown.stdout, "the first column is never cut away"


def test_list_schema_prints_the_json_schema_of_a_spec_itself() -> None:
    shown = call("list", "schema")
    assert shown.exit_code == 0
    assert json.loads(shown.stdout)["$schema"].startswith("https://json-schema.org/")


def test_list_without_a_kind_names_the_kinds_and_a_wrong_one_the_nearest(tmp_path: Path) -> None:
    assert "precisions" in call("list").stdout
    wrong = call("list", "modles")
    assert (wrong.exit_code, wrong.stdout) == (2, "")
    assert "did you mean 'models'?" in wrong.stderr
    assert call("list", "runs", "--out", tmp_path).stdout == "no runs here\n"


def test_list_runs_shows_unfinished_and_unreadable_ones(tmp_path: Path) -> None:
    from material import spec_of
    from twinlens.record.store import create_run

    create_run(tmp_path, spec_of(training("fake")))
    broken = create_run(tmp_path, spec_of(training("fake")))
    (broken / "run.json").write_text("{")
    rows = json.loads(call("list", "runs", "--out", tmp_path, "--json").stdout)
    assert sorted(row["state"] for row in rows) == ["unfinished", "unreadable"]


def test_check_prints_the_spec_and_what_theory_says_and_touches_nothing(spec: Path) -> None:
    before = sorted(spec.parent.rglob("*"))
    shown, data = call("check", spec), call("check", spec, "--json")
    assert (shown.exit_code, shown.stderr) == (0, "")
    assert 'model = "tiny"' in shown.stdout
    assert "step_flop" in shown.stdout
    found = json.loads(data.stdout)
    assert found["runs"] == 1
    assert found["study"]["workload"]["model"] == "tiny"
    assert found["points"][0]["theory"]["parameters"]["value"] == 1016448
    assert sorted(spec.parent.rglob("*")) == before


def test_check_resolves_settings_and_sweeps(spec: Path) -> None:
    words = ("check", spec, "--set", "workload.global_batch=8", "--at", "precision=fp32,bf16", "--at", "microbatch=4,8")
    data = json.loads(call(*words, "--json").stdout)
    assert data["study"]["workload"]["global_batch"] == 8
    assert [(p["point"]["precision"], p["point"]["microbatch"]) for p in data["points"]] == [
        ("fp32", 4), ("fp32", 8), ("bf16", 4), ("bf16", 8),
    ]  # fmt: skip
    assert data["runs"] == 4


def test_what_is_set_replaces_a_sweep_over_it(tmp_path: Path) -> None:
    file = tmp_path / "swept.toml"
    file.write_text(dump(study_of(training("fake", sweep={"precision": ["fp32", "bf16"]}))))
    assert json.loads(call("check", file, "--json").stdout)["runs"] == 2
    assert json.loads(call("check", file, "--set", "point.precision=bf16", "--json").stdout)["runs"] == 1


@pytest.mark.parametrize("lens", [training, inference])
def test_measure_runs_shows_and_keeps_what_it_came_to(tmp_path: Path, lens: Any) -> None:
    file = tmp_path / "small.toml"
    file.write_text(dump(study_of(lens("fake"))))
    done = call("measure", file, "--out", tmp_path / "out", "-q")
    assert done.exit_code == 0
    (run,) = find_runs(tmp_path / "out")
    row = "steps" if run.lens == "training" else "requests"
    assert f"{run.lens}: " in done.stdout
    assert f"{run.table.num_rows} {row}" in " ".join(done.stdout.split())
    assert done.stderr.strip() == f"runs: {run.folder.parent}"
    assert {path.name for path in run.folder.iterdir()} >= {"run.json", "summary.json", "telemetry.arrows"}


def test_measure_json_is_what_is_on_disk_with_the_words_of_its_findings(tmp_path: Path, spec: Path) -> None:
    done = call("measure", spec, "--out", tmp_path / "out", "--json", "-q")
    (run,) = find_runs(tmp_path / "out")
    printed, stored = json.loads(done.stdout), json.loads((run.folder / "summary.json").read_text())
    assert printed.pop("next").startswith(("Measure", "--set", "Show", "Stop", "Pin"))
    assert {"fake-executor"} <= {finding["code"] for finding in printed["findings"]}
    for finding in [*printed["findings"], printed["verdict"]["reason"]]:
        words = Finding.from_json(finding)
        assert (finding.pop("text"), finding.pop("advice")) == (sentence_of(words), advice_of(words))
    assert printed == stored
    assert done.stderr == ""


def test_measure_tells_its_progress_on_stderr_only(tmp_path: Path, spec: Path) -> None:
    done = call("measure", spec, "--out", tmp_path / "out", "--json")
    json.loads(done.stdout)
    assert "1/1 fp32" in done.stderr


def test_measure_as_a_process_of_its_own_uses_fresh_processes(tmp_path: Path) -> None:
    file = tmp_path / "isolated.toml"
    file.write_text(dump(study_of(training("fake", protocol={"isolate": True}))))
    done = twinlens("measure", file, "--out", "out", "-q", "--json", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["state"] == "finished"
    (run,) = find_runs(tmp_path / "out")
    assert run_json(run)["pid"] != os.getpid()
    assert (run.folder / "log.txt").exists()


def test_a_failing_run_is_exit_3_after_everything_else_was_shown(tmp_path: Path, spec: Path) -> None:
    words = ("--set", "executor.options={fail_at=3}", "--at", "precision=fp32,bf16", "--json", "-q")
    done = call("measure", spec, "--out", tmp_path / "out", *words)
    assert done.exit_code == 3
    assert [load["state"] for load in json.loads(done.stdout)] == ["failed", "failed"]
    assert len(done.stderr.strip().splitlines()) == 1
    assert "fails at row 3" in done.stderr
    assert "(and 1 more)" in done.stderr


def test_a_gate_fails_with_1_and_says_why(tmp_path: Path, spec: Path) -> None:
    good = ("--set", "protocol.min_rows=100", "--set", "protocol.duration_s=10")
    assert call("measure", spec, "--out", tmp_path / "a", "-q", "--gate", *good).exit_code == 0
    done = call(
        "measure", spec, "--out", tmp_path / "b", "-q", "--gate", *good, "--set", "executor.options={drift=9.0}"
    )
    assert done.exit_code == 1
    assert "is not steady: drift" in done.stderr
    missed = call(
        "measure", spec, "--out", tmp_path / "c", "-q", "--gate", *good, "--set", "workload.until={loss_nats=0.1}"
    )
    assert missed.exit_code == 1
    assert "the target loss of 0.1000 nats was not reached" in missed.stderr.lower()


def test_fresh_begins_anew(tmp_path: Path, spec: Path) -> None:
    out = tmp_path / "out"
    assert call("measure", spec, "--out", out, "-q", "--set", "executor.options={fail_at=1}").exit_code == 3
    assert len(list(out.glob("*/study.json"))) == 1
    again = call("measure", spec, "--out", out, "--set", "executor.options={fail_at=1}")
    assert "resuming" in again.stderr
    assert len(list(out.glob("*/study.json"))) == 1
    call("measure", spec, "--out", out, "-q", "--fresh", "--set", "executor.options={fail_at=1}")
    assert len(list(out.glob("*/study.json"))) == 2


def test_show_prints_one_run_or_many_and_json_as_in_the_summary(measured_runs: Path) -> None:
    runs = find_runs(measured_runs)
    for run in runs:
        shown, data = call("show", run.folder), call("show", run.folder, "--json")
        assert (shown.exit_code, shown.stderr) == (0, "")
        assert json.loads(data.stdout)["metrics"] == json.loads(json.dumps(to_json(summary_of(run))))["metrics"]
    whole = call("show", measured_runs)
    assert "bf16" in whole.stdout
    assert len(json.loads(call("show", measured_runs, "--json").stdout)) == len(runs) == 5


def test_show_says_the_same_without_a_summary_on_disk_and_writes_none(measured_runs: Path) -> None:
    run = find_runs(measured_runs)[0]
    first = call("show", run.folder, "--json").stdout
    (run.folder / "summary.json").unlink()
    assert call("show", run.folder, "--json").stdout == first
    assert not (run.folder / "summary.json").exists()


def test_show_fits_eighty_columns(measured_runs: Path) -> None:
    assert max(len(line) for line in call("show", measured_runs).stdout.splitlines()) <= 80


def test_report_writes_one_file_and_says_where(measured_runs: Path, tmp_path: Path) -> None:
    file = tmp_path / "new" / "report.html"
    file.parent.mkdir()
    done = call("report", measured_runs, "-o", file)
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr.strip() == f"report: {file}"
    assert file.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert [path.name for path in file.parent.iterdir()] == ["report.html"]


def test_a_report_that_cannot_be_written_is_one_sentence(measured_runs: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = call("report", measured_runs, "-o", tmp_path / "file" / "report.html")
    assert done.exit_code == 2
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("word", ["mfu", "drift", "TL211", "operating point"])
def test_explain_prints_the_page(word: str) -> None:
    done = call("explain", word)
    assert (done.exit_code, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) > 3


def test_explain_of_an_unknown_word_names_the_nearest() -> None:
    done = call("explain", "retension")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "retention" in done.stderr


@pytest.mark.torch
def test_probe_says_who_the_machine_is_and_how_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    ceiling = pytest.importorskip("twinlens.executors.torch.ceiling.rates")
    found = ceiling.Ceiling("read", "", "", 1, ceiling.copy_bytes_per_s("cpu", 1, ceiling.pattern(2**22, "cpu")))
    monkeypatch.setattr(ceiling, "all_ceilings", lambda device: (found,))  # all of them take ten seconds
    shown, data = call("probe", "--device", "cpu", "-q"), call("probe", "--device", "cpu", "--json")
    assert (shown.exit_code, shown.stderr, data.stderr) == (0, "", "")
    assert "Measured ceilings" in shown.stdout
    whole = json.loads(data.stdout)
    assert whole["hash"][:16] in shown.stdout
    assert whole["ceilings"][0]["unit"] == "bytes/s"
    assert whole["executor"]["software.framework.version"]["capture"] == "observed"


def test_probe_of_a_device_that_is_not_here_is_bad_input() -> None:
    pytest.importorskip("torch", reason="needs the torch extra")
    done = call("probe", "--device", "cuda:99", "-q")
    assert done.exit_code == 2
    assert "CUDA devices" in done.stderr


def on_the_fake(study: dict[str, Any]) -> dict[str, Any]:
    """The same where there is no torch whose options could be set, and no server that could be made to stand still."""
    return study | {"executor": {"kind": "fake"}, "protocol": study["protocol"] | {"stall": None}}


def test_the_demo_leaves_a_core_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    from twinlens.api import demo

    monkeypatch.setattr(demo, "usable_cores", lambda: 8)
    threads = {study.name: study.executor.threads for study in demo.demo_studies()}
    assert threads == {"demo-training": 7, "demo-inference": 7, "demo-quality": 7, "demo-serving": 1}


def test_demo_measures_both_lenses_and_writes_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bundled studies, on the fake executor: what is measured for real is held in tests/executors."""
    from twinlens.api import demo

    quick = ("protocol.repeats=1",)
    studies = tuple(
        study_of(
            on_the_fake(study.to_dict()),
            *quick,
            *(() if study.protocol.pairing == "slices" else ("protocol.isolate=false",)),  # turns need processes
        )
        for study in demo.demo_studies()
    )
    assert [study.protocol.pairing for study in studies] == ["slices", "slices", "none", "none"]
    assert [study.lens for study in studies] == ["training", "inference", "training", "inference"]
    monkeypatch.setattr(demo, "demo_studies", lambda: studies)
    out = tmp_path / "runs"
    done = call("demo", "--out", out, "-q")
    assert done.exit_code == 0, done.stderr
    assert done.stdout.index("training") < done.stdout.index("inference")
    (report,) = out.glob("*.html")
    assert done.stderr.strip() == f"report: {report}"
    assert len(find_runs(out)) == sum(len(study.runs()) for study in studies) == 8
    again = call("demo", "--out", tmp_path / "again", "-q", "--json")
    assert again.exit_code == 0, again.stderr
    data = json.loads(again.stdout)
    assert len(data["runs"]) == 8
    rates = [one for one in data["paired"] if one["metric"] != "decode_tokens_per_s"]
    against = [(one["lens"], one["point"]["precision"]) for one in rates]
    assert against == [("training", "bf16"), ("inference", "bf16"), ("inference", "int8-weight")]
    assert "ratios from paired slices" in done.stdout


def test_a_reader_that_goes_away_is_no_error(measured_runs: Path) -> None:
    line = " ".join([*command("list", "metrics", "--json"), "| head -1; echo ${PIPESTATUS[0]}"])
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == ["[", "0"]
    assert done.stderr == ""


@pytest.mark.parametrize("json_too", [[], ["--json"]])
def test_a_reader_that_goes_away_changes_no_exit_code(spec: Path, tmp_path: Path, json_too: list[str]) -> None:
    gate = ("measure", spec, "--gate", "-q", "--out", tmp_path / "out", "--set", "protocol.min_rows=2")
    for words, code in ((("check", spec), "0"), (gate, "1")):
        line = " ".join([*command(*words, *json_too), "| true; echo ${PIPESTATUS[0]}"])
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=120)
        assert done.stdout.strip() == code, done.stderr
        assert "Broken pipe" not in done.stderr


def test_inference_settings_reach_the_run(tmp_path: Path) -> None:
    file = tmp_path / "serve.toml"
    file.write_text(dump(study_of(inference("fake", output_tokens=fixed(2)))))
    done = call("measure", file, "--out", tmp_path / "out", "--at", "batch=1,4", "--json", "-q")
    assert sorted(load["point"]["batch"] for load in json.loads(done.stdout)) == [1, 4]
