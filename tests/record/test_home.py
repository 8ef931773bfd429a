"""What a run says of its stack names nobody's home folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlens.system.home_folder import as_tilde, from_tilde

HOME = Path("/home/ada")


def test_the_home_folder_is_written_as_a_tilde_wherever_it_stands() -> None:
    said = {"argv": ["/home/ada/v/bin/python", "--model=/home/ada/m"], "other": "/home/adam/m", "n": 3, "none": None}
    kept = {"argv": ["~/v/bin/python", "--model=~/m"], "other": "/home/adam/m", "n": 3, "none": None}
    assert as_tilde(said, HOME) == kept
    assert from_tilde(kept, HOME) == said


@pytest.mark.parametrize("other", ["/mnt/home/ada/x", "/home/ada.old/x", "/home/ada-b/x", "../home/ada/x"])
def test_a_path_that_only_holds_the_same_words_stays(other: str) -> None:
    assert as_tilde(other, HOME) == other


def test_the_home_folder_by_itself_is_hidden_too() -> None:
    assert as_tilde(["/home/ada", "HOME=/home/ada"], HOME) == ["~", "HOME=~"]


def test_a_home_that_is_the_root_hides_nothing() -> None:
    assert as_tilde("/etc/x", Path("/")) == "/etc/x"


@given(st.lists(st.sampled_from(["/home/ada/x", "--log=/home/ada/y z", "/opt/x", "", "~x"])))
def test_what_was_written_can_be_used_again(words: list[str]) -> None:
    kept = as_tilde(words, HOME)
    assert "/home/ada" not in json.dumps(kept)
    assert from_tilde(kept, HOME) == words
