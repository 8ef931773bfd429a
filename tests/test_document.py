"""JSON and TOML from outside: bounded in depth, digits and bytes, from regular files, and never waited for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from twinlens.system.document import (
    MOST_DEPTH,
    Unreadable,
    json_of,
    read_bytes,
    read_json,
    read_toml,
    toml_of,
    toml_value,
)

BEYOND = {
    "60,000 brackets": ("[" * 60_000, "nested deeper than 100 levels"),
    "a level too many, closed": ("[" * (MOST_DEPTH + 1) + "]" * (MOST_DEPTH + 1), "nested deeper than 100 levels"),
    "5,000 digits": ("9" * 5_000, "a number of more than 100 digits"),
    "a digit too many": ("1" + "0" * 100, "a number of more than 100 digits"),
    "half a character": ('["\\ud800"]', "half a character"),
}


@pytest.mark.parametrize("what", BEYOND)
def test_json_beyond_a_bound_is_refused_by_its_name(what: str) -> None:
    text, why = BEYOND[what]
    with pytest.raises(Unreadable, match=why):
        json_of(text)


@pytest.mark.parametrize("what", [name for name in BEYOND if name != "half a character"])
def test_toml_beyond_a_bound_is_refused_by_its_name(what: str) -> None:
    text, why = BEYOND[what]
    with pytest.raises(Unreadable, match=why):
        toml_of(f"value = {text}")
    with pytest.raises(Unreadable, match=why):
        toml_value(text)


def test_dotted_keys_are_levels_too() -> None:
    with pytest.raises(Unreadable, match="nested deeper"):
        toml_of(".".join(["a"] * (MOST_DEPTH + 1)) + " = 1")


def test_what_is_at_a_bound_is_read() -> None:
    assert json_of("[" * MOST_DEPTH + "]" * MOST_DEPTH)
    assert json_of("9" * 100) == 10**100 - 1
    assert json_of('"\\ud83d\\ude00"') == "😀"
    assert toml_value("bf16") == "bf16"
    assert toml_value("[1, 2]") == [1, 2]


def test_a_pipe_a_device_and_a_folder_are_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(OSError, match="no regular file"):
            read_json(path)
    with pytest.raises(IsADirectoryError):
        read_toml(tmp_path)


def test_a_file_that_is_too_large_is_refused_before_it_is_read_whole(tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(2**40)  # a terabyte of nothing
    with pytest.raises(Unreadable, match="larger than 64 MiB"):
        read_bytes(tmp_path / "large")
