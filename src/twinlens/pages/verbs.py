"""The verbs and their options: read from `verbs.json`, which is made of their questions, and loads none of them.

The command line, its help and the pages of options are all made from this table.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]


@lru_cache(maxsize=1)
def verbs() -> dict[str, Row]:
    """Every verb by its name: summary, head, example, the module that runs it, and its options."""
    return dict(json.loads(Path(__file__).with_name("verbs.json").read_text(encoding="utf-8")))


@dataclass(frozen=True, slots=True)
class VerbOption:
    """One option or argument of verbs that say it alike: its name without dashes, and the verbs that have it."""

    name: str
    row: Row
    verbs: tuple[str, ...]

    @property
    def written(self) -> str:
        """As it is written after a verb: `--users COUNT`, `-o, --output FILE`."""
        names = ", ".join(self.row.get("names", ()))
        return f"{names} {self.row.get('metavar', '')}".strip()


@lru_cache(maxsize=1)
def verb_options() -> tuple[VerbOption, ...]:
    """Every option and argument, in the order of the verbs; what several say alike stands once."""
    found: dict[tuple[str, str, str], VerbOption] = {}
    for verb, row in verbs().items():
        for option in row.get("options", ()):
            if option.get("hidden"):
                continue
            name = next((each for each in option.get("names", ()) if each.startswith("--")), option["field"])
            key = name.removeprefix("--"), option.get("metavar", ""), option["help"]
            known = found.get(key)
            found[key] = VerbOption(key[0], option, (*(known.verbs if known else ()), verb))
    return tuple(found.values())
