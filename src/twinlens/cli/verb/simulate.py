"""`twinlens simulate`: a spec in virtual time, told as a screen, as data or as a page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from twinlens.cli.console import out
from twinlens.cli.screen import err, print_json, sentences
from twinlens.units import SECONDS, show

if TYPE_CHECKING:
    from twinlens.simulation.server.entry import Told


def run(name: str, given: Mapping[str, Any]) -> None:
    if given.get("serve"):
        _serve(name, given)
        return
    with sentences():
        from twinlens.api.questions import SIMULATE, Simulate
        from twinlens.api.simulating.simulate import simulate

        asked = Simulate.read(name, given, *SIMULATE.questions)
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


def _serve(name: str, given: Mapping[str, Any]) -> None:
    with sentences():
        from twinlens.api.questions import SIMULATE, SimulateServed
        from twinlens.api.simulating.serve import serve

        asked = SimulateServed.read(name, given, *SIMULATE.questions)
        told = serve(asked, lambda url: err().print(_started(url, asked.speed), soft_wrap=True))
        err().print(_ended(told), soft_wrap=True)


def _started(url: str, speed: float) -> str:
    return f"SIMULATED, at {url}; {speed:g} simulated s in each s of the clock; Ctrl-C ends it"


def _ended(told: Told) -> str:
    """How many tokens it wrote, and how late."""
    if told.mean_lag_s is None or told.most_lag_s is None:
        return "simulated: no token was written"
    mean, most = show(told.mean_lag_s, SECONDS), show(told.most_lag_s, SECONDS)
    waited = f"; up to {told.most_waiting:,} requests waited for a place" if told.most_waiting else ""
    waited += f", {told.waiting:,} of them still at the end" if told.waiting else ""
    written = f"simulated: {told.writes:,} tokens were written"
    return f"{written}, {mean} later than due on average, {most} at most{waited}"
