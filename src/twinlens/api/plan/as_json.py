"""An answer of planning as plain data, the same around every verb: schema, version, notes, and the arithmetic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from twinlens.record.codec import encode
from twinlens.record.finding import Finding
from twinlens.reporting.wording.finding import with_words
from twinlens.version import __version__


def as_json(why: Mapping[str, Any], notes: Sequence[Finding] = (), **more: Any) -> dict[str, Any]:
    """`why`: the arithmetic of an answer; its findings, and `notes`, get their sentences."""
    told = [encode(each) for each in notes]
    return dict(with_words({"schema": 1, "twinlens": __version__, "notes": told, **why, **more}))
