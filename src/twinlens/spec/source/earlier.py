"""Specs that earlier versions wrote into records, as this one has them. A spec file is not changed: it is told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MOVED = {f"executor.{name}": f"executor.options.{name}" for name in ("graph", "attention", "layout")}
"""Fields that have another place now."""
_UNSET = {"graph": ("auto",), "attention": ("sdpa",), "layout": ("auto",)}
_EAGER_UNASKED = ("torch", "fake", "replay", "openai-http")


def modern(recorded: Mapping[str, Any]) -> dict[str, Any]:
    """The spec in a record, with each setting where it stands now; those that nobody had set are left out."""
    data = dict(recorded)
    if isinstance(old := data.get("executor"), Mapping):
        data["executor"] = _executor(old)
    if isinstance(sweep := data.get("sweep"), Mapping):
        data["sweep"] = {MOVED.get(path, path): values for path, values in sweep.items()}
    return data


def _executor(old: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in old.items() if name not in _UNSET}
    unset: dict[str, tuple[str, ...]] = dict(_UNSET)
    if old.get("kind", "torch") in _EAGER_UNASKED:
        unset["graph"] = ("auto", "eager")
    moved = {name: old[name] for name in _UNSET if name in old and old[name] not in unset[name]}
    return kept | ({"options": {**kept.get("options", {}), **moved}} if moved else {})
