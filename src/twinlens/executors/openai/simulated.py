"""A server that says of itself that it is simulated, and what its simulation stands on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twinlens.network.discovery import Discovery
from twinlens.record.codec import decode
from twinlens.record.foreign_text import in_one_line
from twinlens.record.sections import Simulated


def simulation_behind(discovery: Discovery) -> Simulated | None:
    """The simulation that answers, by its header or by its entry in `/models`; None of a server that says nothing."""
    said = _entry(discovery.about).get("simulated")
    if said is None and not discovery.simulated:
        return None
    try:
        return decode(Simulated, said)
    except ValueError:
        return Simulated(
            "quoted", in_one_line(f"the server says no more than {discovery.simulated!r}", 120), "none", {}
        )


def _entry(about: Mapping[str, Any]) -> Mapping[str, Any]:
    listed = about.get("/models")
    entries = listed.get("data") if isinstance(listed, Mapping) else None
    first = entries[0] if isinstance(entries, list) and entries else None
    return first if isinstance(first, Mapping) else {}
