"""Findings in words."""

from __future__ import annotations

import pytest

from twinlens.record.finding import Finding, in_words
from twinlens.reporting.wording import comparison, pack
from twinlens.reporting.wording.advice import ADVICE
from twinlens.reporting.wording.finding import CLAUSES, SENTENCES, advice_of, clause_of, sentence_of, short

CODES = sorted({*SENTENCES, *CLAUSES})


def test_a_finding_is_one_plain_sentence() -> None:
    numbers = {"declared": "int8", "observed": "bf16", "evidence": "dtype of 3 of 4 tensors"}
    sentence = sentence_of(Finding("precision-differs", "disqualifies", "weights", numbers))
    assert sentence == "weights was declared as int8 and ran as bf16 (dtype of 3 of 4 tensors)."


def test_an_unknown_code_gives_a_plain_general_sentence() -> None:
    sentence = sentence_of(Finding("from-tomorrow", "disqualifies", "ttft_s_p99"))
    assert sentence == "A check found 'from-tomorrow' (TTFT p99): so the run is not valid."
    assert advice_of(Finding("from-tomorrow", "warns")) == ""


@pytest.mark.parametrize("code", CODES)
def test_a_finding_without_its_numbers_can_still_be_read(code: str) -> None:
    for numbers in ({}, dict.fromkeys(("reason", "declared", "share", "reasons"))):
        finding = Finding(code, "warns", "", numbers)
        assert sentence_of(finding).endswith((".", "?", "!"))
        assert clause_of(finding)
        assert "None" not in sentence_of(finding) + clause_of(finding)


def test_a_clause_is_the_sentence_without_its_stop() -> None:
    finding = Finding("failing", "disqualifies", "", {"failed": 3, "requests": 9})
    assert clause_of(finding) == "3 of 9 requests failed or were cut short"
    assert sentence_of(finding) == "3 of 9 requests failed or were cut short."


def test_a_finding_rests_on_others_and_says_them() -> None:
    lost = Finding("client-lost", "disqualifies", "client 1", {"how": "was killed", "after_s": 2.0, "requests": 7})
    limit = Finding("client-limit", "disqualifies", because=(lost,))
    assert clause_of(limit) == "Client 1 was killed 2.0 s into the run: 7 requests of its part failed"
    lead = "The client was at its limit, so its delays cannot be separated from the server's: "
    assert sentence_of(limit).startswith(f"{lead}Client 1")


def test_what_somebody_else_said_is_shown_as_it_stands() -> None:
    assert sentence_of(in_words("client 1 was killed")) == "Client 1 was killed."
    assert clause_of(in_words("even 2 requests/s is beyond the SLO")) == "even 2 requests/s is beyond the SLO"


def test_what_a_finding_quotes_cannot_do_harm() -> None:
    reason = in_words("\x1b[2Jgone")
    sentence = sentence_of(Finding("guard-failed", "disqualifies", "caching", because=(reason,)))
    assert sentence == "The guard 'caching' failed: [2Jgone."


def test_a_code_is_a_short_label() -> None:
    assert short("slo-missed") == "SLO missed"
    assert short("guard-failed") == "guard failed"


def test_advice_is_one_sentence_and_for_codes_that_there_are() -> None:
    assert set(ADVICE) <= set(CODES)
    for advice in ADVICE.values():
        assert advice.endswith(".")
        assert advice[0].isupper()


@pytest.mark.parametrize("code", sorted(SENTENCES.keys() - comparison.SENTENCES.keys() - pack.SENTENCES.keys()))
def test_what_warns_or_disqualifies_has_something_to_try(code: str) -> None:
    """But for comparisons and packs, whose sentences say it themselves."""
    good_to_know = {
        "adapter-cost",
        "compiled-first",
        "data-from-files",
        "one-answer",
        "rank-killed",
        "resumed-equal",
        "young-does-not-hold",
        "young-holds",
        "exported",
        "as-shipped",
        "fake-executor",
        "replayed",
        "read-from-log",
        "length-free",
        "length-forbidden",
        "length-forced",
        "communication-exposed",
        "exchange-hidden",
        "from-weights",
        "gradients-exchanged-once",
        "memory-as-predicted",
        "one-process-equal",
        "passes-without-gradient",
        "scaling-efficiency",
    }
    assert (code in ADVICE) is (code not in good_to_know | {"no-kernel-stamps", "claim-compared", "entry-not-ranked"})


@pytest.mark.parametrize(("low", "says"), [(0.942, "94.2–100 %"), (0.00942, "0.942 % to 100 %"), (0.0, "0–100 %")])
def test_both_ends_of_a_share_are_in_per_cent(low: float, says: str) -> None:
    numbers = {"share": 0.821, "quantile": 0.95, "limit_s": 0.5, "low": low, "high": 1.0}
    sentence = sentence_of(Finding("slo-unclear", "disqualifies", "ttft_s", numbers))
    assert f"82.1% of requests keep TTFT ≤ 500 ms (95 % interval {says}), and 95% must" in sentence


@pytest.mark.parametrize(("after", "says"), [(0.8e9, "(-20%)"), (90e9, "(90 times as much)")])
def test_a_ceiling_that_moved_far_is_told_as_a_factor(after: float, says: str) -> None:
    numbers = {"before": 1e9, "after": after, "change": after / 1e9 - 1, "unit": "FLOP/s"}
    assert says in sentence_of(Finding("ceiling-moved", "warns", "matrix_flop_per_s", numbers))
