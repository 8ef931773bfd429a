"""The package in docs/writing-an-executor.md, installed word for word and run by the suite that ships in the wheel."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import documented_package
import pytest
from documented_package import installed, written


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The files of the page, installed beside the folder that they are in."""
    folder = tmp_path / "package"
    assert written("writing-an-executor.md", folder) == {
        "my_runtime.py",
        "my_executor.py",
        "pyproject.toml",
        "test_my_executor.py",
    }
    installed(folder, tmp_path / "site")
    return folder


def run(package: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return documented_package.run(package.parent / "site", package, *words)


def test_the_documented_executor_passes_the_suite(package: Path) -> None:
    done = run(package, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_my_executor.py")
    assert done.returncode == 0, done.stdout
    assert int(re.findall(r"(\d+) passed", done.stdout)[0]) >= 10


def test_the_documented_executor_is_measured_in_a_conversation(package: Path) -> None:
    spec = """
        [executor]
        kind = "my-runtime"
        options = { pace_s = 0.002 }
        [workload]
        kind = "inference"
        model = "tiny"
        input_tokens = { kind = "fixed", value = 8 }
        output_tokens = { kind = "fixed", value = 4 }
        arrival = { kind = "closed" }
        sessions = { turns = { kind = "fixed", value = 2 }, think_s = 0.001 }
        [point]
        concurrency = 2
        [protocol]
        duration_s = 0.3
        repeats = 1
        min_rows = 4
        steady_s = 0
        extend = 0
        isolate = false
    """
    (package / "mine.toml").write_text(spec)
    done = run(package, "-m", "twinlens", "measure", "mine.toml", "--out", "runs")
    assert done.returncode == 0, done.stderr
    check = (
        "import twinlens as tl; rows = tl.read('runs')[0].table.to_pylist(); "
        "assert {row['turn'] for row in rows} == {0, 1} and all(row['asked_tokens'] == 4 for row in rows), rows"
    )
    assert run(package, "-c", check).returncode == 0


def test_a_row_without_its_session_does_not_pass_the_suite(package: Path) -> None:
    """The mistake that this page itself once made."""
    path = package / "my_executor.py"
    text = path.read_text()
    wrong = text.replace(
        "                scheduled,\n                sent_ns",
        "                dataclasses.replace(scheduled, session=None),\n                sent_ns",
    )
    assert wrong != text
    path.write_text(wrong.replace("import time\n", "import dataclasses\nimport time\n", 1))
    done = run(package, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_my_executor.py")
    assert done.returncode == 1
    assert "FAILED" in done.stdout
    assert "its_session_its_turn" in done.stdout
