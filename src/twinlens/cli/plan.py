"""`twinlens plan VERB`: its question is asked, and its answer is told as a screen, as data or as a page."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from twinlens.system.numpy_threads import load_numpy


def run(name: str, given: Mapping[str, Any]) -> None:
    """Ask the verb of this name what was given on the command line."""
    load_numpy()
    from twinlens.cli.screen import out, print_json, sentences
    from twinlens.errors import BadInput

    verb = name.partition(" ")[2]
    module = import_module(f"twinlens.api.plan.{verb}")
    known = module.VERB.fields()
    with sentences():
        if given.get("no_page"):
            raise BadInput(
                "this verb answers with one table and has no page; --json gives it as data (plan fit, capacity, "
                "choose, cost and roi have one)",
                code="TL231",
            )
        words = {field: word for field, word in given.items() if field in known}
        found = getattr(module, verb)(*words.pop("runs", ()), **words)
        if given.get("page"):
            from twinlens.reporting.html.plan_page import write_plan

            write_plan(found.page(), given["page"])
        how = {"why": True} if given.get("why") else {}
        if given.get("constants"):
            found.write(given["constants"])
            how = {"written": given["constants"]}
        if given.get("json"):
            print_json(found.to_json())
        else:
            out().print(found.screen(**how))
