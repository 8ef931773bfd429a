"""`twinlens plan VERB`: its question is asked, and its answer is told as a screen, as data or as a page."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from importlib import import_module
from typing import Any


def run(name: str, given: Mapping[str, Any]) -> None:
    """Ask the verb of this name what was given on the command line."""
    from twinlens.cli.console import out
    from twinlens.cli.screen import print_json, sentences
    from twinlens.reporting.document.terminal import screen
    from twinlens.system.processes import one_blas_thread

    verb = name.partition(" ")[2]
    with one_blas_thread():  # not every plan needs numpy
        module = import_module(f"twinlens.api.plan.{verb}")
    known = module.VERB.fields()
    with sentences():
        words = {field: word for field, word in given.items() if field in known}
        found = getattr(module, verb)(*words.pop("runs", ()), **words)
        document = found.document
        if given.get("constants"):
            found.write(given["constants"])
            document = partial(found.document, given["constants"])
        if given.get("page"):
            found.write_html(given["page"])
        if given.get("json"):
            print_json(found.to_json())
        else:
            out().print(screen(document(), whole=bool(given.get("why"))))
