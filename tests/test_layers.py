"""The arrows of the house, in the test command too."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "twinlens"


def test_arrows_point_one_way() -> None:
    pytest.importorskip("importlinter", reason="needs the dev extra")
    done = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command as lint; lint()", "--no-cache"],
        cwd=ROOT, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "arrows point one way KEPT" in done.stdout
    assert "1 kept, 0 broken" in done.stdout


def imports(file: Path) -> set[str]:
    """Top-level names that a file imports anywhere, inside functions too."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.split(".")[0])
    return found


FILES = sorted(SOURCE.rglob("*.py"))


def test_torch_stands_only_in_files_that_are_about_it() -> None:
    heavy = {"torch", "transformers", "safetensors", "torchao"}
    found = [str(file.relative_to(SOURCE)) for file in FILES if imports(file) & heavy]
    assert found
    assert [name for name in found if not name.startswith("executors/torch/")] == []


def test_pure_layers_read_no_clock_no_environment_and_no_global_chance() -> None:
    impure = {"time", "os", "subprocess", "threading", "socket", "secrets", "psutil", "platform"}
    allowed = {
        "record/store.py": {"os", "secrets"},
        "record/arrow.py": {"time"},
        "record/process.py": {"os", "platform"},
    }
    for file in FILES:
        name = str(file.relative_to(SOURCE))
        if name.split("/")[0] in ("spec", "record", "schedule", "stats", "theory"):
            assert imports(file) & impure <= allowed.get(name, set()), name


def test_only_the_command_line_prints_exits_and_reads_its_arguments() -> None:
    for file in FILES:
        # A worker and the guard of a launched server are commands of their own.
        if file.parent.name == "cli" or file.name == "worker.py" or file.match("launch/watchdog.py"):
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            assert not (isinstance(node, ast.Name) and node.id in ("print", "exit", "quit")), file
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "sys":
                assert node.attr not in ("exit", "argv", "stdout", "stderr"), file


def test_nothing_unpickles_or_evaluates() -> None:
    for file in FILES:
        assert not imports(file) & {"pickle", "marshal", "shelve", "dill", "joblib"}, file
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            assert not (isinstance(node, ast.Name) and node.id in ("eval", "exec")), file


def test_no_file_is_named_after_nothing() -> None:
    vague = ("utils", "helpers", "common", "misc", "core", "base", "manager", "handler", "factory", "mixin")
    assert [file for file in FILES if any(word in file.stem.split("_") for word in vague)] == []
