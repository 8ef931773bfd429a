"""Seals: a summary is believed where this user's own program made it, from the very bytes that lie beside it.

The key is made once and lies in the user's cache. Whoever edits a summary, or brings one along, has no such key: what
they say is computed again from the rows.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
import tempfile
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from twinlens.record.run import Run
from twinlens.stats.run_summary import SUMMARY_SCHEMA
from twinlens.system.document import read_bytes, refuse_irregular
from twinlens.system.home_folder import cache_folder
from twinlens.version import __version__

_KEY_BYTES = 32
_METRICS = ("stats", "record", "theory", "spec")
"""Folders of this package that decide a figure."""


def digest_of(run: Run) -> str:
    """The digest of everything a summary is made of: run.json, every file of rows, and the program. Raises OSError.

    A gigabyte of rows takes a second; recomputing their summary takes ten and more.
    """
    whole = hashlib.blake2b(_program().encode(), digest_size=16)
    for path in sorted((run.folder / "run.json", *run.folder.glob("*.arrows*"))):
        refuse_irregular(path)
        with path.open("rb") as file:
            whole.update(path.name.encode() + b"\0" + hashlib.file_digest(file, "blake2b").digest())
    return whole.hexdigest()


def seal_of(summary: Mapping[str, Any]) -> str | None:
    """The seal on the content of a summary.json; None where this user has no key and none can be kept."""
    try:
        key = _key()
    except (OSError, ValueError):
        return None
    content = json.dumps(summary, sort_keys=True).encode()
    return hmac.new(key, content, "sha256").hexdigest() if len(key) == _KEY_BYTES else None


def is_sealed(summary: Mapping[str, Any], seal: object) -> bool:
    """Whether `seal` is the one that this user's program puts on this content."""
    right = seal_of(summary)
    return right is not None and isinstance(seal, str) and hmac.compare_digest(right.encode(), seal.encode())


def _key() -> bytes:
    path = cache_folder() / "summary-key"
    with contextlib.suppress(FileNotFoundError):
        return read_bytes(path, _KEY_BYTES)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent) as fresh:  # for its owner only
        fresh.write(secrets.token_bytes(_KEY_BYTES))
        fresh.flush()
        with contextlib.suppress(FileExistsError):  # another process was first
            os.link(fresh.name, path)
    return read_bytes(path, _KEY_BYTES)


@lru_cache(maxsize=1)
def _program() -> str:
    """The version of the metrics: that of the package, and its sources as they lie here, for who works on them."""
    package = Path(__file__).parents[1]
    sources = sorted(path for name in _METRICS for path in (package / name).rglob("*.py"))
    stats = [(path, path.stat()) for path in sources]
    lines = [f"{path.relative_to(package)} {each.st_size} {each.st_mtime_ns}" for path, each in stats]
    return "\n".join([__version__, str(SUMMARY_SCHEMA), *lines])
