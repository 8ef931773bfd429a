"""Verbs that make pages: one self-contained HTML file, a local site until Ctrl-C, and a static site of packs."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from twinlens.api.number import HOST, OUT, PORT, port_of
from twinlens.cli.screen import sentences
from twinlens.errors import BadInput
from twinlens.system.reading_process import beginning


def run(name: str, given: Mapping[str, Any]) -> None:
    with sentences():
        from twinlens.api.page_asked import Report
        from twinlens.api.report import report
        from twinlens.api.runs import read
        from twinlens.cli.screen import err

        asked = Report.read(name, given)
        runs = read(*asked.runs, skip_broken=True)
        report(runs, asked.file, all_=asked.all_, left_out=[f"A run is left out: {fault}." for fault in runs.faults])
        err().print(f"report: {asked.file.resolve()}", soft_wrap=True)
        if runs.faults:
            raise runs.fault


def browse(name: str, given: Mapping[str, Any]) -> None:
    """Its words are read as `Browse` reads them, but without the models of pydantic: a site is up at once."""
    with sentences(), ExitStack() as start:
        start.enter_context(beginning())
        folders, out, host = map(Path, given.get("folders", ())), Path(given.get("out", OUT)), given.get("host", HOST)
        port = port_of("port", given.get("port", PORT))
        try:
            from twinlens.web import server
        except ModuleNotFoundError as missing:
            if (missing.name or "").partition(".")[0] != "aiohttp":
                raise
            raise BadInput("browse needs aiohttp: pip install 'twinlens[web]'", code="TL268") from None

        def started(url: str) -> None:
            sys.stderr.write(f"Twinlens at {url} ; Ctrl-C ends it\n")
            sys.stderr.flush()
            start.close()
            if given.get("open_"):
                import webbrowser

                webbrowser.open(url)

        server.browse(folders, out, host=host, port=port, started=started)


def site(name: str, given: Mapping[str, Any]) -> None:
    with sentences():
        from twinlens.api.page_asked import Site
        from twinlens.cli.screen import err
        from twinlens.reporting.display import clean
        from twinlens.reporting.wording.finding import sentence_of
        from twinlens.web.published.site import site as made_of

        asked = Site.read(name, given)
        made = made_of(*asked.packs, to=asked.to, signers=asked.signers)
        for pack in made.refused:
            why = sentence_of(pack.checked.findings[0])
            err().print(f"refused: {clean(pack.name, 80)}: {why}", soft_wrap=True, markup=False)
        counts = f"{len(made.shown)} packs, {len(made.refused)} refused, {made.pages} pages"
        err().print(f"site: {made.folder.resolve() / 'index.html'} ({counts})", soft_wrap=True, markup=False)
