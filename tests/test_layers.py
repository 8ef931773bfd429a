"""The arrows of the house inside its layers; those between layers are import-linter's, in the test command."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "twinlens"


@pytest.fixture(scope="module")
def trees() -> dict[Path, ast.Module]:
    """Every module of ours, parsed once."""
    return {file: ast.parse(file.read_text(encoding="utf-8")) for file in FILES}


@pytest.fixture(scope="module")
def imported(trees: dict[Path, ast.Module]) -> dict[Path, set[str]]:
    """Top-level names that each file imports anywhere, inside functions too."""
    return {file: imports(tree) for file, tree in trees.items()}


@pytest.fixture(scope="module")
def uses(trees: dict[Path, ast.Module]) -> dict[str, set[str]]:
    """Modules of ours that each of them imports."""
    return {name: modules_used(trees[file]) - {name} for name, file in MODULES.items()}


def imports(tree: ast.Module) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.split(".")[0])
    return found


FILES = sorted(SOURCE.rglob("*.py"))
MODULES = {
    ".".join(file.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__"): file for file in FILES
}


def modules_used(tree: ast.Module) -> set[str]:
    """Modules of ours that a file imports, inside functions too; not what only a type checker sees."""
    found, todo = set(), [tree.body]
    while todo:
        for node in todo.pop():
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                continue
            if isinstance(node, ast.ImportFrom) and node.module:
                whole = {f"{node.module}.{alias.name}" for alias in node.names}
                found |= {name if name in MODULES else node.module for name in whole}
            todo.append(list(ast.iter_child_nodes(node)))
    return found & set(MODULES)


def test_no_modules_import_each_other_in_a_circle(uses: dict[str, set[str]]) -> None:
    left = dict(uses)
    while free := {name for name, others in left.items() if not others & set(left)}:
        left = {name: others for name, others in left.items() if name not in free}
    assert left.keys() == set(), "each of these leads back to itself, or to one that does"


def test_no_two_rooms_of_one_folder_import_each_other(uses: dict[str, set[str]]) -> None:
    arrows = set()
    for name, others in uses.items():
        for other in others:
            here, there = (MODULES[one].parent.relative_to(SOURCE).parts for one in (name, other))
            shared = next((i for i, (a, b) in enumerate(zip(here, there, strict=False)) if a != b), None)
            if shared is not None:
                arrows.add((here[: shared + 1], there[: shared + 1]))
    assert len(arrows) > 50
    assert [pair for pair in arrows if pair[::-1] in arrows] == []


def test_torch_stands_only_in_files_that_are_about_it(imported: dict[Path, set[str]]) -> None:
    heavy = {"torch", "transformers", "safetensors", "torchao"}
    found = [str(file.relative_to(SOURCE)) for file in FILES if imported[file] & heavy]
    assert found
    makes_weights_of_others = [
        "llama_cpp/gguf.py",
        "onnxruntime/export.py",
        "openvino/convert.py",
        "quantise/compress.py",
        "tensorrt/classifier.py",
    ]
    elsewhere = sorted(name for name in found if not name.startswith("executors/torch/"))
    assert elsewhere == [f"executors/{name}" for name in makes_weights_of_others]


def test_pure_layers_read_no_clock_no_environment_and_no_global_chance(imported: dict[Path, set[str]]) -> None:
    impure = {"time", "os", "subprocess", "threading", "socket", "secrets", "psutil", "platform"}
    allowed = {
        "record/arrow.py": {"time"},
        "record/store.py": {"os", "secrets"},
    }
    for file in FILES:
        name = str(file.relative_to(SOURCE))
        if name.split("/")[0] in ("spec", "record", "schedule", "stats", "theory", "diagnosis", "planning"):
            assert imported[file] & impure <= allowed.get(name, set()), name


_COMMANDS = ("launch/watchdog.py", "launch/balancer.py", "system/limit_keeper.py", "work/keeper.py",
             "web/playground/serve.py")  # fmt: skip
"""With a worker: the keepers of a power limit, of a job and of its server, and the guard and the balancer of servers.
"""


def test_only_the_command_line_prints_exits_and_reads_its_arguments(trees: dict[Path, ast.Module]) -> None:
    for file in FILES:
        own = any(map(file.match, _COMMANDS))
        if "cli" in file.parts or file.name == "worker.py" or own:
            continue
        for node in ast.walk(trees[file]):
            assert not (isinstance(node, ast.Name) and node.id in ("print", "exit", "quit")), file
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "sys":
                assert node.attr not in ("exit", "argv", "stdout", "stderr"), file


def test_nothing_unpickles_or_evaluates(trees: dict[Path, ast.Module], imported: dict[Path, set[str]]) -> None:
    for file in FILES:
        assert not imported[file] & {"pickle", "marshal", "shelve", "dill", "joblib"}, file
        for node in ast.walk(trees[file]):
            assert not (isinstance(node, ast.Name) and node.id in ("eval", "exec")), file


LINES_AS_THEY_ARRIVE = {
    "network/answer/fast_path.py", "network/null_server.py",
    "executors/launch/startup.py", "executors/launch/process.py", "proof/small_server.py",
    "executors/fidelity/served.py", "schedule/trace_file.py",
}  # fmt: skip
"""Files that understand what a server, a trace or a log says, each within bounds of its own."""
OF_OUR_OWN_PROCESSES = {
    "executors/onnxruntime/trace.py", "executors/onnxruntime/export.py", "executors/openvino/convert.py",
    "executors/quantise/compress.py", "executors/tensorrt/inspect.py",
    "executors/torch/model/folder.py", "executors/torch/parallel/worker.py", "executors/torch/parallel/ranks.py",
    "executors/torch/for_others.py", "executors/launch/interpreter.py",
    "executors/launch/balancer.py", "measurement/machine/software.py", "measurement/study.py",
    "measurement/turns/conductor.py", "measurement/turns/worker_turn.py", "testing/evidence.py",
}  # fmt: skip


def test_files_from_outside_are_parsed_in_one_place(trees: dict[Path, ast.Module]) -> None:
    """One loader (`system/document.py`) bounds depth, digits and bytes; no other file reads JSON or TOML itself."""
    parses = {("json", "loads"), ("json", "load"), ("tomllib", "loads"), ("tomllib", "load")}
    found = {
        str(file.relative_to(SOURCE))
        for file in FILES
        for node in ast.walk(trees[file])
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        if (node.value.id, node.attr) in parses
    }
    ours = {"pages/verbs.py"}  # a file of the package itself
    assert found - LINES_AS_THEY_ARRIVE - OF_OUR_OWN_PROCESSES - ours == {"system/document.py"}


def test_no_file_is_named_after_nothing() -> None:
    vague = ("utils", "helpers", "common", "misc", "core", "base", "manager", "handler", "factory", "mixin")
    assert [file for file in FILES if any(word in file.stem.split("_") for word in vague)] == []
