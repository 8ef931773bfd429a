"""The folder for what can be made again: model folders for servers, exports for engines."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def cache_folder() -> Path:
    """$TWINLENS_CACHE, or this system's place for what can be made again."""
    if chosen := os.environ.get("TWINLENS_CACHE"):
        return Path(chosen).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "twinlens"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").expanduser() / "twinlens"
