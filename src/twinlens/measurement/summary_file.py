"""summary.json beside a run: derived, and read only where it is sealed and of these very rows."""

from __future__ import annotations

import contextlib
import hashlib
from functools import lru_cache
from pathlib import Path

from twinlens.measurement.seal import is_sealed, seal_of
from twinlens.record.run import Run
from twinlens.record.store import write_json
from twinlens.stats.run_summary import SUMMARY_SCHEMA, from_json, summarise, to_json
from twinlens.stats.summary.group import Summary
from twinlens.system.document import read_json, refuse_irregular
from twinlens.version import __version__

_MADE = "_summary"


def summary_of(run: Run) -> Summary:
    """The summary of a run: as it lies on disk where that is whole, else computed.

    Reading makes no file: a summary.json that is there and no longer whole is renewed, and where there is none (an
    archive, a run that was killed) none is written (decision 34).
    """
    if _MADE not in vars(run):
        is_kept = (run.folder / "summary.json").exists()
        vars(run)[_MADE] = store_summary(run) if is_kept else summarise(run)
    made: Summary = vars(run)[_MADE]
    return made


def store_summary(run: Run) -> Summary:
    """The same, for whoever has measured the run: it is over, and its summary.json is written where it can be."""
    stored = _stored(run)
    if stored is not None:
        return stored
    try:
        digest = digest_of(run)  # before the rows are read: of rows that come meanwhile it is no digest
    except OSError:
        return summarise(run)
    summary = summarise(run)
    if run.state != "running":
        content = {"twinlens": __version__, "of": digest} | to_json(summary)
        with contextlib.suppress(OSError):  # a folder that cannot be written (shared, read-only) can still be read
            write_json(run.folder / "summary.json", content | {"seal": seal_of(content)})
    return summary


def _stored(run: Run) -> Summary | None:
    try:
        data = read_json(run.folder / "summary.json")
        if not is_sealed(data, data.pop("seal")) or data.pop("of") != digest_of(run) or data["state"] != run.state:
            return None
        del data["twinlens"]
        return from_json(data)
    except (OSError, AttributeError, ValueError, KeyError, TypeError):
        return None


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


@lru_cache(maxsize=1)
def _program() -> str:
    """The version of the metrics: that of the package, and its sources as they lie here, for who works on them."""
    package = Path(__file__).parents[1]
    sources = sorted(path for name in _METRICS for path in (package / name).rglob("*.py"))
    stats = [(path, path.stat()) for path in sources]
    lines = [f"{path.relative_to(package)} {each.st_size} {each.st_mtime_ns}" for path, each in stats]
    return "\n".join([__version__, str(SUMMARY_SCHEMA), *lines])
