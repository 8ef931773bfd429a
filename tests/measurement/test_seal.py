"""A summary on disk is believed where this user's program made it of these very rows, and nowhere else."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import twinlens.measurement.summary_file as summary_file
from material import for_rows, measured, training
from twinlens.errors import BadInput
from twinlens.measurement.summary_file import digest_of, store_summary, summary_of
from twinlens.record.run import Run
from twinlens.record.store import read_run
from twinlens.stats.summary.group import Summary


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TWINLENS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    found = measured(tmp_path / "runs", training("fake", protocol=for_rows(60)))
    store_summary(found)
    return found


@pytest.fixture
def recomputed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The runs whose summaries were computed from rows since."""
    names: list[str] = []
    real = summary_file.summarise

    def counted(run: Run) -> Summary:
        names.append(run.id)
        return real(run)

    monkeypatch.setattr(summary_file, "summarise", counted)
    return names


def edited(run: Run, change: Callable[[dict[str, Any]], None]) -> None:
    """summary.json changed, with the times it had before."""
    path = run.folder / "summary.json"
    before = path.stat()
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 10**9))


def forge(data: dict[str, Any]) -> None:
    data["metrics"]["training_tokens_per_s"] |= {"value": 999_999.0, "low": 999_998.0, "high": 1e6}


def test_a_summary_is_computed_once_and_read_from_then_on(run: Run, recomputed: list[str]) -> None:
    assert summary_of(read_run(run.folder)) == summary_of(read_run(run.folder))
    assert recomputed == []


@pytest.mark.parametrize("with_digest", [False, True])
def test_an_edited_figure_is_never_shown(run: Run, recomputed: list[str], with_digest: bool) -> None:
    true = summary_of(read_run(run.folder)).metrics["training_tokens_per_s"]

    def change(data: dict[str, Any]) -> None:
        forge(data)
        if with_digest:  # a forger knows how digests are made, and has no key
            data["of"] = digest_of(run)
            data["seal"] = hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()

    edited(run, change)
    assert summary_of(read_run(run.folder)).metrics["training_tokens_per_s"] == true
    assert recomputed == [run.id]
    assert summary_of(read_run(run.folder)).metrics["training_tokens_per_s"] == true
    assert recomputed == [run.id], "it was renewed, and is believed again"


def test_rows_edited_with_their_times_kept_are_read_again(run: Run) -> None:
    rows = run.folder / "steps.arrows"
    before, data = rows.stat(), rows.read_bytes()
    rows.write_bytes(data[:-9] + bytes([data[-9] ^ 1]) + data[-8:])
    os.utime(rows, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (rows.stat().st_size, rows.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    with pytest.raises(BadInput, match="is damaged"):
        summary_of(read_run(run.folder))


@pytest.mark.parametrize("name", ["run.json", "telemetry.arrows"])
def test_a_change_of_what_else_it_was_made_of_makes_it_again(run: Run, recomputed: list[str], name: str) -> None:
    if name == "run.json":
        (run.folder / name).write_bytes((run.folder / name).read_bytes() + b"\n")
    else:
        for path in run.folder.glob(f"{name}*"):
            path.unlink()
    summary_of(read_run(run.folder))
    assert recomputed == [run.id]


def test_a_summary_of_another_run_or_another_user_is_not_believed(
    run: Run, recomputed: list[str], own_cache: Path, tmp_path: Path
) -> None:
    other = measured(tmp_path / "runs", training("fake", protocol=for_rows(80)))
    shutil.copy(run.folder / "summary.json", other.folder / "summary.json")
    assert summary_of(read_run(other.folder)).rows == 80
    assert recomputed == [other.id]
    (own_cache / "summary-key").unlink()  # somebody else's folder
    summary_of(read_run(run.folder))
    assert recomputed == [other.id, run.id]


def test_the_key_is_its_owners_only_and_without_one_every_summary_is_made_again(
    run: Run, recomputed: list[str], own_cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert (own_cache / "summary-key").stat().st_mode & 0o777 == 0o600
    (tmp_path / "a file").write_text("")
    monkeypatch.setenv("TWINLENS_CACHE", str(tmp_path / "a file"))
    summary_of(read_run(run.folder))
    summary_of(read_run(run.folder))
    assert recomputed == [run.id, run.id]
