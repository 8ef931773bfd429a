"""`twinlens browse`: a local site, until Ctrl-C."""

from __future__ import annotations

import webbrowser
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from twinlens.api.page_asked import Browse
from twinlens.cli.screen import err, sentences
from twinlens.errors import BadInput


def run(name: str, given: Mapping[str, Any]) -> None:
    with sentences():
        asked = Browse.read(name, given)
        try:
            from twinlens.web.server import browse
        except ModuleNotFoundError as missing:
            if (missing.name or "").partition(".")[0] != "aiohttp":
                raise
            raise BadInput("browse needs aiohttp: pip install 'twinlens[web]'", code="TL268") from None

        def started(url: str) -> None:
            err().print(f"Twinlens at {url} ; Ctrl-C ends it", soft_wrap=True)
            if asked.open_:
                webbrowser.open(url)

        browse([Path(each) for each in asked.folders], asked.out, host=asked.host, port=asked.port, started=started)
