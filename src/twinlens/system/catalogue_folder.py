"""The folder of a user's own devices, links, models and prices."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "TWINLENS_CATALOGUE"


def catalogue_folder(asked: str | Path | None = None) -> Path | None:
    """What was asked for, else TWINLENS_CATALOGUE, else `twinlens` in the user's config folder if it is there."""
    named = asked or os.environ.get(VARIABLE)
    if named:
        return Path(named).expanduser()
    config = os.environ.get("XDG_CONFIG_HOME")
    usual = (Path(config) if config else Path("~/.config").expanduser()) / "twinlens"
    return usual if usual.is_dir() else None
