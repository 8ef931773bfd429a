"""The export of a model to another engine's format: made in a temporary folder, renamed when whole, then cached."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from twinlens.errors import ExecutorFailed
from twinlens.system.document import read_json
from twinlens.system.home_folder import cache_folder

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
    if not (place / _NOTE).exists():
        _make(place, make)
    note = read_json(place / _NOTE)
    return Export(place, float(note["seconds"]), int(note["size_bytes"]))


def _make(place: Path, make: Callable[[Path], None]) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f".{place.name}.", dir=place.parent))
    try:
        begin_s = time.perf_counter()
        make(fresh)
        seconds = time.perf_counter() - begin_s
        size = sum(file.stat().st_size for file in fresh.rglob("*") if file.is_file())
        note = {key: value for key, value in asdict(Export(place, seconds, size)).items() if key != "path"}
        (fresh / _NOTE).write_text(json.dumps(note), encoding="utf-8")
        if not place.exists():
            fresh.rename(place)
    except OSError as wrong:
        if not place.exists():  # another study may have been quicker
            raise ExecutorFailed(f"the export {place} cannot be made: {wrong}", code="TL302") from None
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
