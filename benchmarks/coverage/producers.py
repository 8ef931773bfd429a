"""Functions of the program that give a number its bounds: found in its source, so that none is left out."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "twinlens"
_MAKERS = ("Estimate", "Figure", "replace", "Band")


def producers(root: Path = SOURCE) -> set[str]:
    """Functions that call `Estimate`, `Figure`, `Band` or `replace` with bounds, as "stats/estimator/rate.py:rate"."""
    return {
        f"{file.relative_to(root).as_posix()}:{name}"
        for file in sorted(root.rglob("*.py"))
        for name in _of_file(ast.parse(file.read_text(encoding="utf-8")))
    }


def _of_file(tree: ast.AST, inside: str = "") -> Iterator[str]:
    for node in ast.iter_child_nodes(tree):
        named = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if isinstance(node, ast.Call) and _has_bounds(node):
            yield inside
        yield from _of_file(node, node.name if named else inside)


def _has_bounds(call: ast.Call) -> bool:
    """Whether a call sets a bound to something that is not None: the fifth argument of an `Estimate`, or by name; of a
    band, which is nothing but bounds, in any way, and where it is made of a plain tuple too."""
    if any(isinstance(each, ast.Name) and each.id == "Band" for each in (call.func, *call.args[:1])):
        return True
    made = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if made not in _MAKERS:
        return False
    set_ = [each.value for each in call.keywords if each.arg in ("low", "high")]
    set_ += call.args[4:6] if made == "Estimate" else []
    return any(not (isinstance(each, ast.Constant) and each.value is None) for each in set_)
