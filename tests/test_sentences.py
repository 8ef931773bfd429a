"""Conclusions are data: no code of ours takes apart, or looks into, a sentence that our own modules made."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import twinlens

SOURCE = Path(twinlens.__file__).parent
OF_SENTENCES = {
    "reason",
    "reasons",
    "note",
    "notes",
    "sentence",
    "error",
    "fault",
    "method",
    "why",
    "lacks",
    "said",
    "clause",
    "described",
    "words",
}
"""What our sentences are called, as a name or as an attribute."""
TAKES_APART = {"partition", "rpartition", "replace", "split", "rsplit", "startswith", "endswith", "find", "index"}
TAKES_APART |= {"removeprefix", "removesuffix", "rstrip", "lstrip", "strip"}

READS_OTHERS = {
    "api/judging/claims_of_page.py": "where sentences of a pasted page end",
    "api/simulating/settings.py": "policies of batching, as a user names them",
    "cli/plain_letters.py": "bytes in a file name that are no letters",
    "cli/screen.py": "letters that a terminal does not show, in JSON",
    "cli/console.py": "spaces at the end of printed lines",
    "measurement/drive/hopeless.py": "errors of servers, alike but for their numbers, are one",
    "measurement/machine/host.py": "files of the operating system",
    "measurement/machine/software.py": "environment variables and wheels",
    "measurement/preflight/idle_gpu.py": "version.py of torch",
    "reporting/chart/figure.py": "SVG",
    "reporting/display.py": "characters that Markdown reads as marks",
    "stats/finding/failures.py": "errors of servers, alike but for their numbers, are one",
}
"""Where regular expressions may stand beside statistics, measuring and reporting, and what they read."""
LOOKS_AT_OTHERS = {
    (
        "reporting/run/figures.py",
        "partition",
    ): "the first clause of a reason, which a run keeps as text",
    ("measurement/session.py", "can't allocate memory"): "an error of torch",
    ("stats/finding/failures.py", "startswith"): "rows of before losses were a column of their own",
    ("reporting/document/html.py", "replace"): "tags of a page, to open all folds at once",
    ("spec/load.py", "split"): "an error of the TOML reader",
    ("web/ask/found.py", "partition"): "an id of an address, with the point that was typed after it",
    ("web/runs/notes.py", "strip"): "a note that a person wrote",
    ("web/published/packs.py", "replace"): "the place of a build, where an error says it",
    ("executors/torch/ceiling/timing.py", "strip"): "an error of torch",
    ("executors/torch/model/build.py", "attention implementation"): "an error of transformers",
}
"""The places that look into words of others, or of our older versions."""


@pytest.fixture(scope="module")
def modules() -> dict[str, ast.Module]:
    """Every module of ours, parsed: while these tests run and not while all are collected."""
    files = sorted(SOURCE.rglob("*.py"))
    return {str(path.relative_to(SOURCE)): ast.parse(path.read_text(encoding="utf-8")) for path in files}


@pytest.fixture(scope="module")
def taken_apart(modules: dict[str, ast.Module]) -> set[tuple[str, str]]:
    by_name = {(name, how) for name, tree in modules.items() for how in _taken_apart(tree)}
    makers, rooms = _makers(modules), ("reporting/", "api/", "cli/")
    shown = {name: tree for name, tree in modules.items() if name.startswith(rooms)}
    return by_name | {(name, how) for name, tree in shown.items() for how in _made_apart(tree, makers)}


@pytest.fixture(scope="module")
def looked_into(modules: dict[str, ast.Module]) -> set[tuple[str, str]]:
    return {(name, words) for name, tree in modules.items() for words in _looked_into(tree)}


def _named(node: ast.expr) -> str:
    """The last name of an expression: "reason" of `one.verdict.reason`, of `reason[0]` and of `str(reason)`."""
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Subscript):
        return _named(node.value)
    if isinstance(node, ast.BoolOp):
        return _named(node.values[0])
    is_text = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "str" and node.args
    return _named(node.args[0]) if is_text else ""  # type: ignore[attr-defined]


def _taken_apart(tree: ast.AST) -> Iterator[str]:
    """Methods that take a text apart, called on what is named as a sentence is."""
    for node in ast.walk(tree):
        method = node.func if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None
        if method and method.attr in TAKES_APART and _named(method.value) in OF_SENTENCES:
            yield method.attr


FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
OF_STRANGERS = {"clean", "clean_end"}
"""Functions that give a text of somebody else back."""


def _makers(modules: dict[str, ast.Module]) -> set[str]:
    """The functions of reporting that give a text: no caller takes apart what they give."""
    ours = [node for name, tree in modules.items() if name.startswith("reporting/") for node in ast.walk(tree)]
    texts = [node for node in ours if isinstance(node, FUNCTION) and ast.dump(node.returns or ast.Pass()) == _STR]
    return {node.name for node in texts} - OF_STRANGERS


_STR = ast.dump(ast.parse("str", mode="eval").body)


def _called(node: ast.AST) -> str:
    return _named(node.func) if isinstance(node, ast.Call) else ""


def _made_apart(tree: ast.AST, makers: set[str]) -> Iterator[str]:
    """Ways in which a text that a function of ours, or an f-string, made is taken apart, by that call or by its name.

    Spaces at the ends, line breaks, and the first letter are layout.
    """
    for function in (node for node in ast.walk(tree) if isinstance(node, FUNCTION)):
        nodes = list(ast.walk(function))
        named = [(each.targets[0], each.value) for each in nodes if isinstance(each, ast.Assign)]
        named += [(each.target, each.value) for each in nodes if isinstance(each, ast.NamedExpr)]
        made = {name.id for name, value in named if isinstance(name, ast.Name) and _called(value) in makers}
        for node in nodes:
            if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
                ends = {ast.dump(end) for end in (node.slice.lower, node.slice.upper) if end is not None}
                if _is_made(node.value, made, makers) and ends != {ast.dump(ast.Constant(1))}:
                    yield "slice"
            method = node.func if isinstance(node, ast.Call) else None
            if not isinstance(method, ast.Attribute) or method.attr not in TAKES_APART or _is_layout(method.attr, node):
                continue
            if _is_made(method.value, made, makers):
                yield method.attr


def _is_made(node: ast.expr, made: set[str], makers: set[str]) -> bool:
    is_named = isinstance(node, ast.Name) and node.id in made
    return is_named or isinstance(node, ast.JoinedStr) or _called(node) in makers


def _is_layout(method: str, node: ast.AST) -> bool:
    """`strip()` of spaces, `replace` of a space by a line break."""
    given = [each.value if isinstance(each, ast.Constant) else "?" for each in getattr(node, "args", ())]
    return method in ("strip", "lstrip", "rstrip", "replace") and all(str(each).isspace() for each in given)


def _looked_into(tree: ast.AST) -> Iterator[str]:
    """Words of two or more that are looked for in, or compared with, what is named as a sentence is."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Compare):
            continue
        sides = [node.left, *node.comparators]
        words = [side.value for side in sides if isinstance(side, ast.Constant) and isinstance(side.value, str)]
        if any(_named(side) in OF_SENTENCES for side in sides):
            yield from (word for word in words if len(word.split()) > 1)


def _imports_re(tree: ast.AST) -> bool:
    return any(
        isinstance(node, ast.Import) and any(name.name == "re" for name in node.names) for node in ast.walk(tree)
    )


def test_the_rule_sees_what_it_is_meant_to_see() -> None:
    bad = """
        reason.partition("; no interval: ")
        done.reason.replace("requests/s", unit)
        (error or "").startswith("cannot connect")
        "in use" in str(error)
        "not clear of 0" in ratio.method
    """
    tree = ast.parse("\n".join(line.strip() for line in bad.splitlines()))
    assert sorted(_taken_apart(tree)) == ["partition", "replace", "startswith"]
    assert list(_looked_into(tree)) == ["in use", "not clear of 0"]


def test_the_rule_follows_a_text_from_the_function_that_made_it() -> None:
    tree = ast.parse("""
def bad(estimate, group):
    shown = bounds(estimate)
    kinds_of(group).split(", ")
    shown.removesuffix(" tokens/s")
    f"{shown} of it".partition(" ")
    return shown[:-1], shown[:1].upper() + shown[1:], shown.strip(), head.split("-"), shown.replace(" ", "\\n")
""")
    assert sorted(_made_apart(tree, {"bounds", "kinds_of"})) == ["partition", "removesuffix", "slice", "split"]


@pytest.mark.parametrize("room", ["stats", "measurement", "reporting", "api", "cli"])
def test_regular_expressions_read_only_what_others_wrote(room: str, modules: dict[str, ast.Module]) -> None:
    users = {name for name, tree in modules.items() if name.split("/")[0] == room and _imports_re(tree)}
    assert users == {name for name in READS_OTHERS if name.split("/")[0] == room}


def test_no_sentence_of_ours_is_taken_apart(taken_apart: set[tuple[str, str]]) -> None:
    assert taken_apart <= set(LOOKS_AT_OTHERS)


def test_no_words_are_looked_for_in_a_sentence_of_ours(looked_into: set[tuple[str, str]]) -> None:
    assert looked_into <= set(LOOKS_AT_OTHERS)


def test_no_exception_is_listed_that_there_is_not(
    taken_apart: set[tuple[str, str]], looked_into: set[tuple[str, str]]
) -> None:
    assert set(LOOKS_AT_OTHERS) <= taken_apart | looked_into


def test_sections_of_a_run_are_read_by_their_types_outside_record(modules: dict[str, ast.Module]) -> None:
    for name, tree in modules.items():
        attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        assert "raw" not in attributes or name.startswith(("executors/", "record/")), name
