"""summary.json beside a run: derived, rebuilt when it is missing, of another version, or older than its rows."""

from __future__ import annotations

import contextlib
import json

from twinlens.record.run import Run
from twinlens.record.store import write_json
from twinlens.stats.run_summary import SUMMARY_SCHEMA, from_json, summarise, to_json
from twinlens.stats.summary.group import Summary
from twinlens.version import __version__


def summary_of(run: Run) -> Summary:
    """The summary of a run: as it lies on disk where that is whole, else computed and, if the run is over, written."""
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
        data = json.loads(path.read_text(encoding="utf-8"))
        if data.pop("twinlens") != __version__ or data["schema"] != SUMMARY_SCHEMA or data["state"] != run.state:
            return None
        return from_json(data)
    except (OSError, AttributeError, ValueError, KeyError, TypeError):
        return None
