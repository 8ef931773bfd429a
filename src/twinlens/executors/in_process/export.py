"""The export of a model to another engine's format: made in a temporary folder, renamed when whole, then cached."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twinlens.errors import ExecutorFailed
from twinlens.system.document import read_json
from twinlens.system.home_folder import cache_folder
from twinlens.system.log import telling_line
from twinlens.system.page_cache import size_below

_NOTE = "twinlens-export.json"


@dataclass(frozen=True, slots=True)
class Export:
    """`seconds`: what making it took, once; `size_bytes`: of its files."""

    path: Path
    seconds: float
    size_bytes: int


def exported(engine: str, identity: str, make: Callable[[Path], None]) -> Export:
    """The cached export, or a new one that `make` writes into an empty folder. `identity`: all that decides its bytes.

    A folder under its own name is whole: one that a kill left half-made has another name and is never read.
    Raises ExecutorFailed (TL302) where making it fails.
    """
    place = cache_folder() / "exports" / engine / identity

    def noted(fresh: Path) -> None:
        begin_s = time.perf_counter()
        make(fresh)
        seconds = time.perf_counter() - begin_s
        note = {"seconds": seconds, "size_bytes": size_below(fresh)}
        (fresh / _NOTE).write_text(json.dumps(note), encoding="utf-8")

    if not (place / _NOTE).exists():
        made_whole(place, noted)
    note = read_json(place / _NOTE)
    return Export(place, float(note["seconds"]), int(note["size_bytes"]))


def made_whole(place: Path, make: Callable[[Path], None], what: str = "export") -> None:
    """Have `make` fill a temporary folder, which becomes `place` once it is whole. Raises ExecutorFailed (TL302)."""
    place.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f".{place.name}.", dir=place.parent))
    try:
        make(fresh)
        if not place.exists():
            fresh.rename(place)
    except OSError as wrong:
        if not place.exists():  # another study may have been quicker
            raise ExecutorFailed(f"the {what} {place} cannot be made: {wrong}", code="TL302") from None
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def run_apart(
    arguments: Sequence[str],
    failed: str,
    order: Mapping[str, Any] | None = None,
    makes: Path | None = None,
    timeout_s: float | None = None,
) -> None:
    """Run another Python with these arguments and `order`, as JSON, on its input.

    Raises ExecutorFailed (TL302), `failed` and the process's own line, where it fails or `makes` is not there then, and
    TimeoutExpired.
    """
    given = None if order is None else json.dumps(order)
    command = [sys.executable, *arguments]
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False, timeout=timeout_s)
    if done.returncode or (makes is not None and not makes.exists()):
        raise ExecutorFailed(f"{failed}: {telling_line(done.stderr)}", code="TL302")
