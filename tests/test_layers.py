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
MODULES = {
    ".".join(file.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__"): file for file in FILES
}


def modules_used(file: Path) -> set[str]:
    """Modules of ours that a file imports, inside functions too; not what only a type checker sees."""
    found, todo = set(), [ast.parse(file.read_text(encoding="utf-8")).body]
    while todo:
        for node in todo.pop():
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                continue
            if isinstance(node, ast.ImportFrom) and node.module:
                whole = {f"{node.module}.{alias.name}" for alias in node.names}
                found |= {name if name in MODULES else node.module for name in whole}
            todo.append(list(ast.iter_child_nodes(node)))
    return found & set(MODULES)


USES = {name: modules_used(file) - {name} for name, file in MODULES.items()}


def test_no_modules_import_each_other_in_a_circle() -> None:
    left = dict(USES)
    while free := {name for name, uses in left.items() if not uses & set(left)}:
        left = {name: uses for name, uses in left.items() if name not in free}
    assert left.keys() == set(), "each of these leads back to itself, or to one that does"


def test_no_two_rooms_of_one_folder_import_each_other() -> None:
    arrows = set()
    for name, uses in USES.items():
        for other in uses:
            here, there = (MODULES[one].parent.relative_to(SOURCE).parts for one in (name, other))
            shared = next((i for i, (a, b) in enumerate(zip(here, there, strict=False)) if a != b), None)
            if shared is not None:
                arrows.add((here[: shared + 1], there[: shared + 1]))
    assert len(arrows) > 50
    assert [pair for pair in arrows if pair[::-1] in arrows] == []


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
        if name.split("/")[0] in ("spec", "record", "schedule", "stats", "theory", "diagnosis", "planning"):
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
