"""An answer of planning as it was asked to be told: a screen, or JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

_OF_TELLING = ("why", "json", "output", "page", "all_")


def words_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a verb as keywords of its function in `api/plan`, which have the same names: all but how to tell.

    `options`: the `locals()` of a verb in its first line.
    """
    return {name: value for name, value in options.items() if name not in _OF_TELLING}


def tell(found: Any, screen: Callable[[], Any], *, json: bool) -> None:
    """Print `screen()`, or the JSON of what was found."""
    from twinlens.cli.screen import out, print_json

    if json:
        print_json(found.to_json())
    else:
        out().print(screen())
