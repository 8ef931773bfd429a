"""summary.json beside a run: derived, and read only where it is sealed and of these very rows (`seal.py`)."""

from __future__ import annotations

import contextlib

from twinlens.measurement.seal import digest_of, is_sealed, seal_of
from twinlens.record.run import Run
from twinlens.record.store import write_json
from twinlens.stats.run_summary import from_json, summarise, to_json
from twinlens.stats.summary.group import Summary
from twinlens.system.document import read_json
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
