"""Records that can be handed on: the home folder of whoever measured is written `~` in what a run says of its stack."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def as_tilde(value: Any, home: Path | None = None) -> Any:
    """The same JSON value with this user's home folder written `~` in every string of it."""
    whole = str(home or Path.home()).rstrip("/")
    return _replaced(value, f"{whole}/", "~/") if whole else value  # without a home of its own: nothing to hide


def from_tilde(value: Any, home: Path | None = None) -> Any:
    """The inverse of `as_tilde`, on the machine where it was written."""
    whole = str(home or Path.home()).rstrip("/")
    return _replaced(value, "~/", f"{whole}/") if whole else value


def _replaced(value: Any, old: str, new: str) -> Any:
    if isinstance(value, str):
        return value.replace(old, new)
    if isinstance(value, dict):
        return {key: _replaced(item, old, new) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_replaced(item, old, new) for item in value]
    return value
