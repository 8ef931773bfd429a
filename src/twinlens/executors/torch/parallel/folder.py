"""The folder of a world of ranks, for its socket and its logs; those that dead worlds left are removed first."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path

import psutil

from twinlens.system.document import read_json
from twinlens.system.processes import is_alive

_PREFIX, _OWNER = "twinlens-ranks-", "owner.json"


def owned_folder() -> Path:
    """A new folder that this process owns."""
    _remove_orphans()
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    owner = {"pid": os.getpid(), "born_s": psutil.Process().create_time()}
    (folder / _OWNER).write_text(json.dumps(owner), encoding="utf-8")
    return folder


def _remove_orphans() -> None:
    """Folders whose owner was killed; one whose owner is not known may be in use, and stays."""
    for owner in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/{_OWNER}"):
        try:
            known = read_json(owner)
            is_orphan = not is_alive(int(known["pid"]), float(known["born_s"]))
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if is_orphan:
            shutil.rmtree(owner.parent, ignore_errors=True)
