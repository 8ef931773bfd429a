"""`twinlens claim`: whether a figure in a sentence holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from twinlens.api.claim import claim
from twinlens.cli.screen import out, print_json, sentences
from twinlens.reporting.document.terminal import screen
from twinlens.reporting.judging.claim import claim_document


def run(words: Sequence[str], fields: Mapping[str, str | None], json: bool) -> None:
    with sentences():
        found = claim(" ".join(words), **fields)
        if json:
            print_json(found.to_json())
        else:
            out().print(screen(claim_document(found.judged)))
