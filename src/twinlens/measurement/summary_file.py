"""summary.json beside a run: derived; not read when it is of another version, or older than its rows."""

from __future__ import annotations

import contextlib

from twinlens.record.run import Run
from twinlens.record.store import write_json
from twinlens.stats.run_summary import SUMMARY_SCHEMA, from_json, summarise, to_json
from twinlens.stats.summary.group import Summary
from twinlens.system.document import read_json
from twinlens.version import __version__

_MADE = "_summary"


def summary_of(run: Run) -> Summary:
    """The summary of a run: as it lies on disk where that is whole, else computed.

    Reading makes no file: a summary.json that is there and no longer whole is renewed, and where there is none (an
    archive, a run that was killed) none is written (decision 34).
    """
    stored = _stored(run)
    if stored is not None:
        return stored
    if (run.folder / "summary.json").exists():
        return store_summary(run)
    if _MADE not in vars(run):
        vars(run)[_MADE] = summarise(run)  # beside its cached rows, of which it is made
    made: Summary = vars(run)[_MADE]
    return made


def store_summary(run: Run) -> Summary:
    """The same, for whoever has measured the run: it is over, and its summary.json is written where it can be."""
    stored = _stored(run)
    if stored is not None:
        return stored
    summary = summarise(run)
    if run.state != "running":
        with contextlib.suppress(OSError):  # a folder that cannot be written (shared, read-only) can still be read
            write_json(run.folder / "summary.json", {"twinlens": __version__} | to_json(summary))
    return summary


def _stored(run: Run) -> Summary | None:
    path = run.folder / "summary.json"
    try:
        made_s = path.stat().st_mtime
        if any(made_s < file.stat().st_mtime for file in (run.folder / "run.json", *run.folder.glob("*.arrows"))):
            return None
        data = read_json(path)
        if data.pop("twinlens") != __version__ or data["schema"] != SUMMARY_SCHEMA or data["state"] != run.state:
            return None
        return from_json(data)
    except (OSError, AttributeError, ValueError, KeyError, TypeError):
        return None
