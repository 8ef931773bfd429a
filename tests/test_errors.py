"""Every error is one sentence with a code, a page and an exit code."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import twinlens
from twinlens.errors import BadInput, ExecutorFailed, GateFailed, Interrupted, TwinlensError, nearest
from twinlens.pages import find

SOURCE = Path(twinlens.__file__).parent


def codes() -> set[str]:
    """Every code that the source can raise."""
    return {code for file in SOURCE.rglob("*.py") for code in re.findall(r'"(TL\d{3})"', file.read_text())}


@pytest.mark.parametrize("code", sorted(codes()))
def test_every_code_that_is_raised_has_a_page(code: str) -> None:
    assert find(code).name == code


@pytest.mark.parametrize(
    ("kind", "code", "exit_code"),
    [(BadInput, "TL200", 2), (ExecutorFailed, "TL300", 3), (Interrupted, "TL130", 130), (GateFailed, "TL100", 1)],
)
def test_an_error_carries_its_sentence_its_code_and_its_exit(
    kind: type[TwinlensError], code: str, exit_code: int
) -> None:
    error = kind("what is wrong")
    assert (str(error), error.code, error.exit_code) == ("what is wrong", code, exit_code)
    assert kind("x", code="TL299").code == "TL299"
    assert isinstance(error, TwinlensError)


def test_no_error_is_raised_without_a_sentence() -> None:
    names = {"BadInput", "ExecutorFailed", "Interrupted", "GateFailed"}
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names:
                assert node.args, (file, node.lineno)


@pytest.mark.parametrize(
    ("word", "says"),
    [("tinny", "did you mean 'tiny'?"), ("zzz", "known: small, tiny"), ("", "known: small, tiny")],
)
def test_the_nearest_word_is_named_or_all_of_them(word: str, says: str) -> None:
    assert nearest(word, ["tiny", "small"]) == says


@given(st.text(max_size=8), st.lists(st.text(min_size=1, max_size=8), max_size=30, unique=True))
def test_what_is_named_is_always_something_known(word: str, known: list[str]) -> None:
    clause = nearest(word, known)
    if word in known:
        assert clause == f"did you mean {word!r}?"
    assert clause.startswith(("did you mean ", "known: "))
    if len(known) > 12 and clause.startswith("known: "):
        assert clause.endswith(f"and {len(known) - 12} more")
