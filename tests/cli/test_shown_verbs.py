"""`show`, `report` and `probe`: data on stdout, words on stderr, and JSON as it is on disk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from material import inference, spec_of, twinlens
from twinlens.cli.main import app
from twinlens.measurement.summary_file import summary_of
from twinlens.record.store import create_run, end_run, find_runs
from twinlens.stats.run_summary import to_json


def call(*words: str | Path) -> Result:
    """A verb in this process: as quick as a function, stdout and stderr apart."""
    return CliRunner().invoke(app, [str(word) for word in words])


def test_a_terminal_without_our_letters_gets_the_nearest_ones(measured_runs: Path) -> None:
    shown = twinlens("show", measured_runs, PYTHONIOENCODING="ascii")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.isascii()
    assert "\n+ fp32 " in shown.stdout  # the check mark of a ranked point
    assert "?" not in shown.stdout
    run = find_runs(measured_runs)[0].folder
    data = twinlens("show", run, "--json", PYTHONIOENCODING="ascii").stdout
    assert json.loads(data)["metrics"] == json.loads((run / "summary.json").read_text())["metrics"]


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


def test_a_failed_run_says_why_on_its_own_and_among_others(tmp_path: Path) -> None:
    why = "the server needs an extra that is not here: pip install 'twinlens[serve]'"
    for _ in range(2):
        folder = create_run(tmp_path, spec_of(inference("fake")))
        end_run(folder, "failed", why)
    for place in (folder, tmp_path):
        assert why in " ".join(call("show", place).stdout.split())
