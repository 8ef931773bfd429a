"""Findings in words."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module

import pytest

from each import each
from twinlens.pages import codes, find, own_page, wordings
from twinlens.record.finding import Finding, in_words
from twinlens.reporting.wording.finding import advice_of, clause_of, sentence_of, short

CODES = codes()


def test_a_finding_is_one_plain_sentence() -> None:
    numbers = {"declared": "int8", "observed": "bf16", "evidence": "dtype of 3 of 4 tensors"}
    sentence = sentence_of(Finding("precision-differs", "disqualifies", "weights", numbers))
    assert sentence == "weights was declared as int8 and ran as bf16 (dtype of 3 of 4 tensors)."


def test_an_unknown_code_gives_a_plain_general_sentence() -> None:
    sentence = sentence_of(Finding("from-tomorrow", "disqualifies", "ttft_s_p99"))
    assert sentence == "A check found 'from-tomorrow' (TTFT p99): so the run is not valid."
    assert advice_of(Finding("from-tomorrow", "warns")) == ""


@each(CODES)
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


def test_advice_is_whole_sentences() -> None:
    for code in CODES:
        advice = advice_of(Finding(code, "warns"))
        assert advice == "" or (advice.endswith(".") and not advice[0].islower()), code
        assert "`" not in advice


SAY_IT_THEMSELVES = ("pack-", "claim-")
GOOD_TO_KNOW = {
    "compiled-first",
    "data-from-files",
    "exported",
    "fake-executor",
    "from-weights",
    "gradients-exchanged-once",
    "length-forbidden",
    "length-forced",
    "length-free",
    "memory-as-predicted",
    "no-kernel-stamps",
    "one-answer",
    "one-process-equal",
    "rank-killed",
    "read-from-log",
    "replayed",
    "resumed-equal",
    "young-does-not-hold",
    "young-holds",
}


@each([code for code in CODES if any(text.kind == "sentence" for text in wordings(code))])
def test_what_warns_or_disqualifies_has_something_to_try(code: str) -> None:
    """But for packs and claims, whose sentences say it themselves."""
    needs_none = code in GOOD_TO_KNOW or code.startswith(SAY_IT_THEMSELVES)
    assert (advice_of(Finding(code, "warns")) != "") is not needs_none


def test_the_advice_of_a_finding_is_what_its_page_says_to_do() -> None:
    page = own_page("retaken")
    assert page is not None
    assert "## What to do\n\nNothing, or `protocol.retakes = 0` to see the machine as it is.\n" in page.text
    assert advice_of(Finding("retaken", "warns")) == "Nothing, or protocol.retakes = 0 to see the machine as it is."
    assert advice_of(Finding("cause", "notes", "quota")) == "Give the container more processor time."
    assert advice_of(Finding("from-weights", "notes")) == ""  # "Nothing."


@each(CODES)
def test_a_head_of_a_page_names_functions_that_there_are_and_says_each_text_once(code: str) -> None:
    texts = wordings(code)
    assert {text.kind for text in texts} <= {"sentence", "clause", "advice"}
    assert len({(text.kind, text.where) for text in texts}) == len(texts)
    assert texts[-1].text
    for module, name in (call.rsplit(".", 1) for text in texts for call in re.findall(r"\{=([a-z_.]+)\}", text.text)):
        assert callable(getattr(import_module(f"twinlens.reporting.wording.{module}"), name))


def test_a_page_has_the_texts_of_its_own_code_and_none_of_another_page() -> None:
    """Own pages are asked first, so that one sentence reads one file."""
    for code in CODES:
        page = own_page(code)
        assert page is None or page.name == find(code).name == code


def test_one_sentence_loads_one_page_and_no_words_of_others() -> None:
    script = (
        "import sys; from twinlens import pages; from twinlens.record.finding import Finding;"
        "from twinlens.reporting.wording.finding import sentence_of;"
        "print(sentence_of(Finding('not-calibrated', 'warns')));"
        "assert not pages._heads.cache_info().misses;"
        "print(*sorted(name.split('.')[-1] for name in sys.modules if name.startswith('twinlens.reporting.wording.')))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1] == "finding number template"


def test_a_template_leaves_out_what_is_not_known() -> None:
    late = {"late_s": 0.02, "quantile": 0.99, "most_share": 0.05}
    assert sentence_of(Finding("sent-late", "disqualifies", "", late)).startswith(
        "Requests were sent late (p99 20.0 ms):"
    )
    known = sentence_of(Finding("sent-late", "disqualifies", "", late | {"clock_bound_s": 0.001}))
    assert known.startswith("Requests were sent late (p99 20.0 ms, and clocks known to 1.00 ms):")


def test_numbers_that_look_like_a_template_are_shown_as_they_stand() -> None:
    numbers = {"declared": "{observed}", "observed": "[bf16]", "evidence": "{"}
    sentence = sentence_of(Finding("precision-differs", "disqualifies", "{subject}", numbers))
    assert sentence == "{subject} was declared as {observed} and ran as [bf16] ({)."


@pytest.mark.parametrize("code", ["../errors/TL200", "", "a/b", "\x00", "x" * 5000])
def test_a_code_is_never_a_path(code: str) -> None:
    assert wordings(code) == ()
    assert own_page(code) is None


@pytest.mark.parametrize(("low", "says"), [(0.942, "94.2–100 %"), (0.00942, "0.942 % to 100 %"), (0.0, "0–100 %")])
def test_both_ends_of_a_share_are_in_per_cent(low: float, says: str) -> None:
    numbers = {"share": 0.821, "quantile": 0.95, "limit_s": 0.5, "low": low, "high": 1.0}
    sentence = sentence_of(Finding("slo-unclear", "disqualifies", "ttft_s", numbers))
    assert f"82.1% of requests keep TTFT ≤ 500 ms (95 % interval {says}), and 95% must" in sentence


@pytest.mark.parametrize(("after", "says"), [(0.8e9, "(-20%)"), (90e9, "(90 times as much)")])
def test_a_ceiling_that_moved_far_is_told_as_a_factor(after: float, says: str) -> None:
    numbers = {"before": 1e9, "after": after, "change": after / 1e9 - 1, "unit": "FLOP/s"}
    assert says in sentence_of(Finding("ceiling-moved", "warns", "matrix_flop_per_s", numbers))
