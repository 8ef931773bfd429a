"""`twinlens claim`: whether a figure in a sentence holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twinlens.api.judging.claim import claim
from twinlens.api.judging.claim_asked import Claim
from twinlens.cli.console import out
from twinlens.cli.screen import print_json, sentences
from twinlens.reporting.document.terminal import screen
from twinlens.reporting.judging.claim import claim_document


def run(name: str, given: Mapping[str, Any]) -> None:
    with sentences():
        asked = Claim.read(name, given)
        found = claim(" ".join(asked.words), **asked.model_dump(exclude={"words", "json_"}, exclude_none=True))
        if asked.json_:
            print_json(found.to_json())
        else:
            out().print(screen(claim_document(found.judged)))
