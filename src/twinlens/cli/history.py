"""`twinlens compare --history`: what a metric did over time."""

from __future__ import annotations

import sys
from pathlib import Path

from twinlens.api.history import history
from twinlens.cli.screen import err, out, print_json, sentences
from twinlens.reporting.comparing.history import history_document
from twinlens.reporting.document.markdown import markdown as in_markdown
from twinlens.reporting.document.terminal import screen
from twinlens.reporting.wording.finding import with_words
from twinlens.version import __version__


def run(paths: list[Path], metric: str | None, *, json: bool, markdown: bool, whole: bool, page: Path | None) -> None:
    with sentences():
        found = history(*paths, metric=metric)
        document = history_document(found)
        if json:
            plain = [each.to_json() for each in found]
            print_json(with_words({"schema": 1, "twinlens": __version__, "histories": plain}))
        elif markdown:
            sys.stdout.write(in_markdown(document, head=False))
        else:
            out().print(screen(document, whole=whole))
        if page is not None:
            from twinlens.reporting.document.html import write  # charts are heavy

            write(document, page)
            err().print(f"report: {page.resolve()}", soft_wrap=True)
