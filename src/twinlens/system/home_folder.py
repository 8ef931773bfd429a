"""Folders of this user: the home, written `~` in records that are handed on, and the cache of what can be remade."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

_BEFORE, _AFTER = r"(?<![\w./~-])", r"(?=/|$)"  # a path begins here, and this part of it ends here


def as_tilde(value: Any, home: Path | None = None) -> Any:
    """The same JSON value with this user's home folder written `~` wherever a path in one of its strings begins so."""
    whole = str(home or Path.home()).rstrip("/")
    return (
        _replaced(value, re.compile(_BEFORE + re.escape(whole) + _AFTER), "~") if whole else value
    )  # "/" hides nothing


def from_tilde(value: Any, home: Path | None = None) -> Any:
    """The inverse of `as_tilde`, on the machine where it was written."""
    whole = str(home or Path.home()).rstrip("/")
    return _replaced(value, re.compile(f"{_BEFORE}~{_AFTER}"), whole) if whole else value


def _replaced(value: Any, old: re.Pattern[str], new: str) -> Any:
    if isinstance(value, str):
        return old.sub(lambda _: new, value)  # a function: a backslash in a folder's name is no escape
    if isinstance(value, dict):
        return {key: _replaced(item, old, new) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_replaced(item, old, new) for item in value]
    return value


def cache_folder() -> Path:
    """$TWINLENS_CACHE, or this system's place for what can be made again."""
    if chosen := os.environ.get("TWINLENS_CACHE"):
        return Path(chosen).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "twinlens"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").expanduser() / "twinlens"


# The folder of a user's own devices, links, models and prices.

VARIABLE = "TWINLENS_CATALOGUE"


def catalogue_folder(asked: str | Path | None = None) -> Path | None:
    """What was asked for, else TWINLENS_CATALOGUE, else `twinlens` in the user's config folder if it is there."""
    named = asked or os.environ.get(VARIABLE)
    if named:
        return Path(named).expanduser()
    config = os.environ.get("XDG_CONFIG_HOME")
    usual = (Path(config) if config else Path("~/.config").expanduser()) / "twinlens"
    return usual if usual.is_dir() else None
