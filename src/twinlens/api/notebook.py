"""Values show themselves in a notebook: what shows which type, loaded when the first of them is shown."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twinlens.record.run import Run


def register() -> None:
    """Tell IPython. Does nothing where no session runs, and loads nothing that is heavy."""
    ipython: Any = sys.modules.get("IPython")
    session = ipython.get_ipython() if ipython is not None else None
    if session is not None:
        html = session.display_formatter.formatters["text/html"]
        html.for_type_by_name("twinlens.record.run", "Run", _run)


def _run(run: Run) -> str:
    from twinlens.measurement.summary_file import summary_of
    from twinlens.reporting.notebook import run_html

    return run_html(run, summary_of(run))
