"""The package in docs/writing-an-executor.md, installed word for word and run by the suite that ships in the wheel."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "writing-an-executor.md"
FILE = re.compile(r"```\w+\n# ([\w.]+)\n(.*?)```", re.DOTALL)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The files of the page, and the metadata that an installer makes of its pyproject.toml."""
    files = dict(FILE.findall(PAGE.read_text(encoding="utf-8")))
    assert set(files) == {"my_runtime.py", "my_executor.py", "pyproject.toml", "test_my_executor.py"}
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    project = tomllib.loads(files["pyproject.toml"])["project"]
    info = tmp_path / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    groups = [
        "\n".join([f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())])
        for group, entries in project["entry-points"].items()
    ]
    (info / "entry_points.txt").write_text("\n".join(groups) + "\n")
    return tmp_path


def run(package: Path, *words: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(package), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, *words], cwd=package, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True
    )


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
