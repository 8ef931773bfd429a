"""`twinlens compare --history`: what a metric did over time."""

from __future__ import annotations

import sys
from pathlib import Path

from twinlens.api.history import history
from twinlens.cli.screen import err, out, print_json, sentences
from twinlens.reporting.history_markdown import history_markdown
from twinlens.reporting.screen.history import history_screen
from twinlens.reporting.wording.finding import with_words
from twinlens.version import __version__


def run(paths: list[Path], metric: str | None, *, json: bool, markdown: bool, whole: bool, page: Path | None) -> None:
    with sentences():
        found = history(*paths, metric=metric)
        if json:
            plain = [each.to_json() for each in found]
            print_json(with_words({"schema": 1, "twinlens": __version__, "histories": plain}))
        elif markdown:
            sys.stdout.write(history_markdown(found))
        else:
            out().print(history_screen(found, whole=whole))
        if page is not None:
            from twinlens.reporting.html.history_page import write_history  # charts are heavy

            write_history(found, page)
            err().print(f"report: {page.resolve()}", soft_wrap=True)
