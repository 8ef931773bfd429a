"""`twinlens probe`: the machine as it says of itself, and its measured ceilings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twinlens.api.questions import Probe as Asked
from twinlens.api.reference import probe
from twinlens.cli.screen import err, out, print_json, sentences
from twinlens.reporting.document.terminal import screen
from twinlens.reporting.judging.probe import probe_document


def run(name: str, given: Mapping[str, Any]) -> None:
    with sentences():
        asked = Asked.read(name, given)
        if not asked.quiet and not asked.json_:
            exchanges = ", and exchanges between processes, a minute" if asked.collectives else ""
            err().print(f"measuring ceilings, ten seconds on a processor and half a minute on a GPU{exchanges} …")
        probed = probe(asked.device, collectives=asked.collectives, ranks=asked.ranks)
        if asked.json_:
            print_json(probed.to_json())
            return
        out().print(screen(probe_document(probed), whole=True))
