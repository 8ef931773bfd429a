"""Findings as data."""

from __future__ import annotations

import json

import numpy as np
import pytest

from twinlens.record.codec import decode, encode
from twinlens.record.finding import Finding, worst_first


def test_a_finding_survives_json_with_numbers_of_any_kind() -> None:
    numbers = {"share": np.float64(0.25), "rows": np.int64(3), "loss": float("nan"), "each": (1.0, float("inf"))}
    finding = Finding("mostly-failed", "disqualifies", "failed_share", numbers)
    text = json.dumps(encode(finding), allow_nan=False)
    assert decode(Finding, json.loads(text)) == finding
    assert finding.numbers == {"share": 0.25, "rows": 3, "loss": None, "each": [1.0, None]}


def test_a_severity_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="disqualifies, warns or notes"):
        Finding("x", "fatal")  # type: ignore[arg-type]


def test_findings_stand_gravest_first_and_once() -> None:
    note, warning, grave = Finding("a", "notes"), Finding("b", "warns"), Finding("c", "disqualifies")
    assert worst_first([note, warning, grave, note]) == (grave, warning, note)
