"""`twinlens probe` and `twinlens burnin`: this machine, its ceilings, and whether to accept it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from twinlens.api.questions import Probe as Asked
from twinlens.api.reference import probe
from twinlens.cli.console import out
from twinlens.cli.screen import err, print_json, sentences
from twinlens.errors import Interrupted
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


# `twinlens burnin`: a machine tested by turns for hours, and its verdict as a screen, as data or as a page.


def burnt_in(name: str, given: Mapping[str, Any]) -> None:
    with sentences():
        from twinlens.acceptance.driving.drive import INTERRUPTED
        from twinlens.api.measuring.burnin import burnin
        from twinlens.api.measuring.burnin_asked import Burnin
        from twinlens.cli.progress import progress

        asked = Burnin.read(name, given)
        words = {field: word for field, word in given.items() if field not in _TOLD}
        found = burnin(*asked.specs, watch=progress(asked.quiet), **words)
        if asked.file is not None:
            found.write_html(asked.file)
        if asked.json_:
            print_json(found.to_json())
        else:
            out().print(found.screen(why=asked.all_))
        sys.stdout.flush()
        folder = asked.out if asked.out.name == found.folder else asked.out / found.folder
        err().print(f"burn-in: {folder}", soft_wrap=True)
        if found.stopped == INTERRUPTED:
            raise Interrupted(f"cut short; judged with what is there, and kept in {folder}: run it again to go on")


_TOLD = ("specs", "all_", "json_", "quiet", "file")
