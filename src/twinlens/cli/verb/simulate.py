"""`twinlens simulate`: a spec in virtual time, told as a screen, as data or as a page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twinlens.cli.screen import err, out, print_json, sentences


def run(name: str, given: Mapping[str, Any]) -> None:
    with sentences():
        from twinlens.api.questions import Simulate
        from twinlens.api.simulating.simulate import simulate

        asked = Simulate.read(name, given)
        words = {field: word for field, word in given.items() if field not in ("spec", "all_", "json_", "file")}
        found = simulate(asked.spec, **words)
        if asked.file is not None:
            found.write_html(asked.file)
        if asked.json_:
            print_json(found.to_json())
        else:
            out().print(found.screen(why=asked.all_))
        if found.folder is not None:
            err().print(f"runs: {found.folder}", soft_wrap=True)
