"""The verbs that look things up: this machine, what is available on it, and what a word means."""

from __future__ import annotations

import builtins
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twinlens.measurement.machine.probe import Probe


def probe(device: str = "auto") -> Probe:
    """Who is this machine: captured facts and measured ceilings. Raises BadInput for a device that is not here."""
    from twinlens.measurement.machine import probe as machine

    return machine.probe(device)


def list(kind: str = "kinds", out: str | Path = "runs") -> builtins.list[dict[str, Any]]:
    """What `twinlens list KIND` prints, as rows: models, precisions, executors, metrics, devices, examples, runs.

    Raises BadInput (TL204) with the nearest kind.
    """
    from twinlens.reporting.available import rows_of

    return rows_of(kind, Path(out))


def explain(word: str | None = None) -> str:
    """The page of a metric, label, finding, error or term, as Markdown; without a word the list of all pages.

    Raises BadInput with the nearest word.
    """
    from twinlens.pages import find, index

    return index() if word is None else find(word).text
