"""Findings in words."""

from __future__ import annotations

import pytest

from twinlens.record.finding import Finding
from twinlens.reporting.finding_text import SENTENCES, finding_text, short


def test_a_finding_is_one_plain_sentence() -> None:
    numbers = {"declared": "int8", "observed": "bf16", "evidence": "dtype of 3 of 4 tensors"}
    said = finding_text(Finding("precision-differs", "disqualifies", "weights", numbers))
    assert said == "weights was declared as int8 and ran as bf16 (dtype of 3 of 4 tensors)."


def test_an_unknown_code_gives_a_plain_general_sentence() -> None:
    said = finding_text(Finding("from-tomorrow", "disqualifies", "ttft_s_p99"))
    assert said == "A check found 'from-tomorrow' (TTFT p99): so the run is not ranked."


@pytest.mark.parametrize("code", SENTENCES)
def test_a_finding_without_its_numbers_can_still_be_read(code: str) -> None:
    for numbers in ({}, dict.fromkeys(("reason", "declared", "share", "reasons"))):
        said = finding_text(Finding(code, "warns", "", numbers))
        assert said.endswith(".")
        assert "None" not in said


def test_what_a_finding_quotes_cannot_do_harm() -> None:
    said = finding_text(Finding("guard-failed", "disqualifies", "caching", {"reason": "\x1b[2Jgone"}))
    assert "\x1b" not in said


def test_a_code_is_a_short_label() -> None:
    assert short("slo-missed") == "SLO missed"
    assert short("guard-failed") == "guard failed"
