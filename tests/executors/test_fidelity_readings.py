"""Log probabilities and greedy answers as servers give them: read, told apart by hand-worked sums, or refused."""

from __future__ import annotations

import math
from typing import Any

import pytest
from logprob_samples import HALF, IDS, QUARTER, TABLES, choice

from twinlens.executors.fidelity.readings import (
    Answer,
    Scored,
    Unusable,
    from_completion,
    from_input_logprobs,
    from_pieces,
    from_prompt_logprobs,
)
from twinlens.executors.fidelity.served import of_answers, of_scored
from twinlens.record.executor.facts import Compared, FidelityRow
from twinlens.spec.protocol import Tolerance
from twinlens.stats.metrics.fidelity import fidelity, fidelity_gate


def test_prompt_logprobs_of_vllm_are_read_by_token_id() -> None:
    scored = Scored(IDS, ({1: HALF, 2: QUARTER}, {1: HALF, 2: QUARTER}))
    assert from_prompt_logprobs(choice(), None) == scored
    assert from_prompt_logprobs({"prompt_logprobs": TABLES}, IDS) == scored, "who sent ids need not be told them"


@pytest.mark.parametrize(
    ("tables", "why"),
    [
        ([], "no prompt_logprobs"),
        (TABLES[:2], "2 positions for a prompt of 3 tokens"),
        ([*TABLES, TABLES[1]], "4 positions for a prompt of 3 tokens"),
        ([None, None, TABLES[2]], "no log probabilities at a position"),
        ([None, TABLES[1], {"1": {"logprob": math.nan}, "2": {"logprob": HALF}}], "log probability of nan"),
        ([None, TABLES[1], {"2": {"logprob": -math.inf}}], "log probability of -inf"),
        ([None, TABLES[1], {"2": {"logprob": 3.0}}], "log probability of 3.0"),
        ([None, TABLES[1], {"2": {"logprob": "much"}}], "not numbers by token id"),
        ([None, TABLES[1], {"2": {"logprob": True}}], "not numbers by token id"),
        ([None, TABLES[1], {"two": {"logprob": HALF}}], "not numbers by token id"),
        ([None, TABLES[1], {"1": {"logprob": HALF}}], "leaves out the log probability of a token"),
        ([None, TABLES[1], {str(i): {"logprob": HALF} for i in range(3)}], "come to more than 1"),
    ],
)  # fmt: skip
def test_log_probabilities_that_none_can_be_are_refused_with_the_reason(tables: list[Any], why: str) -> None:
    with pytest.raises(Unusable, match=why):
        from_prompt_logprobs(choice(tables), IDS)


def test_prompt_logprobs_without_the_ids_of_a_text_cannot_be_placed() -> None:
    with pytest.raises(Unusable, match="no prompt_token_ids"):
        from_prompt_logprobs({"prompt_logprobs": TABLES}, None)


SGLANG: dict[str, Any] = {
    "id": "26223ea355df4c0ab45e5af04505ed67", "finish_reason": {"type": "length", "length": 6}, "prompt_tokens": 5,
    "input_token_logprobs": [
        [None, 6722, None], [-0.58203125, 315, None], [-3.53125, 9625, None], [-2.84375, 374, None],
    ],
    "input_top_logprobs": [
        None,
        [[-0.58203125, 315, None], [-2.140625, 3283, None], [-3.765625, 374, None]],
        [[-1.0390625, 279, None], [-3.53125, 9625, None], [-3.96875, 5616, None]],
        [[-2.09375, 13, None], [-2.34375, 58883, None], [-2.40625, 11, None]],
    ],
}  # fmt: skip
"""Recorded: sgl-project/sglang-jax, pull request 13, 2025-08-19; "the capital of France is" from its second token."""
SGLANG_IDS = (6722, 315, 9625, 374)


@pytest.mark.parametrize("asked", [None, SGLANG_IDS])
def test_input_logprobs_of_sglang_are_read_with_the_token_itself_where_it_is_not_among_the_top(
    asked: tuple[int, ...] | None,
) -> None:
    scored = from_input_logprobs(SGLANG, asked)
    assert scored.tokens == SGLANG_IDS
    assert scored.places == (
        {315: -0.58203125, 3283: -2.140625, 374: -3.765625},
        {279: -1.0390625, 9625: -3.53125, 5616: -3.96875},
        {13: -2.09375, 58883: -2.34375, 11: -2.40625, 374: -2.84375},
    )


def test_the_first_token_of_sglang_may_be_null_where_its_id_was_sent() -> None:
    said = {**SGLANG, "input_token_logprobs": [None, *SGLANG["input_token_logprobs"][1:]]}
    assert from_input_logprobs(said, SGLANG_IDS) == from_input_logprobs(SGLANG, SGLANG_IDS)
    with pytest.raises(Unusable, match="not numbers by token id"):
        from_input_logprobs(said, None)


@pytest.mark.parametrize(
    ("tokens", "tops", "why"),
    [
        (None, [None], "no input_token_logprobs and input_top_logprobs"),
        ([[None, 7], [HALF, 1]], None, "no input_token_logprobs and input_top_logprobs"),
        ([[None, 7]], [None], "1 positions for a prompt of 2 tokens"),
        ([[None, 7], [HALF, 1]], [None], "at 1 positions for a prompt of 2 tokens"),
        ([[None, 7], [HALF, 2]], [None, []], "of other tokens than those of the prompt"),
        ([[None, 8], [HALF, 1]], [None, []], "of other tokens than those of the prompt"),
        ([[None, 7], [HALF]], [None, []], "not numbers by token id"),
        ([[None, 7], [None, 1]], [None, []], "not numbers by token id"),
        ([[None, 7], [HALF, 1]], [None, None], "no log probabilities at a position"),
        ([[None, 7], [HALF, 1]], [None, [[HALF, "x"]]], "not numbers by token id"),
        ([[None, 7], [HALF, 1]], [None, [[math.nan, 2]]], "log probability of nan"),
        ([[None, 7], [HALF, 1]], [None, [[HALF, 2], [HALF, 3]]], "come to more than 1"),
    ],
)  # fmt: skip
def test_input_logprobs_that_none_can_be_are_refused_with_the_reason(tokens: Any, tops: Any, why: str) -> None:
    with pytest.raises(Unusable, match=why):
        from_input_logprobs({"input_token_logprobs": tokens, "input_top_logprobs": tops}, (7, 1))


def test_two_readings_of_a_prompt_are_told_apart_by_hand_worked_sums() -> None:
    reference = Scored(IDS, ({1: HALF, 2: QUARTER}, {1: HALF, 2: QUARTER}))
    seen = Scored(IDS, ({1: math.log(0.4), 2: math.log(0.4)}, {1: QUARTER, 2: HALF}))
    row = of_scored(reference, seen)
    first = 0.5 * math.log(0.5 / 0.4) + 0.25 * math.log(0.25 / 0.4) + 0.25 * math.log(0.25 / 0.2)
    second = 0.5 * math.log(0.5 / 0.25) + 0.25 * math.log(0.25 / 0.5)
    assert (row.tokens, row.agreed) == (2, 1), "of two as likely the one of lower id is the first, as torch takes it"
    assert row.kl_top_nats == pytest.approx(first + second)
    assert row.kl_nats is None
    assert row.nll_nats == pytest.approx(-math.log(0.4) - HALF)
    assert row.reference_nll_nats == pytest.approx(-HALF - QUARTER)


def test_joined_outcomes_never_show_more_than_the_whole_divergence() -> None:
    whole = {0: (0.4, 0.3), 1: (0.3, 0.2), 2: (0.2, 0.4), 3: (0.1, 0.1)}
    kl = sum(p * math.log(p / q) for p, q in whole.values())
    for named in ([0], [0, 1], [0, 1, 2]):
        sides = [Scored((0, 0), ({i: math.log(whole[i][side]) for i in named},)) for side in (0, 1)]
        assert 0 <= (of_scored(*sides).kl_top_nats or 0) <= kl + 1e-12


def test_prompts_cut_into_other_tokens_are_not_compared() -> None:
    place = ({1: HALF}, {2: HALF})
    with pytest.raises(Unusable, match="other tokens"):
        of_scored(Scored((7, 1, 2), place), Scored((8, 1, 2), place))


def answer(*pieces: str, cut: bool = True) -> Answer:
    return from_pieces(["".join(pieces[: i + 1]) for i in range(len(pieces))], cut=cut, prompt_tokens=3)


@pytest.mark.parametrize(
    ("seen", "tokens", "agreed"),
    [
        (answer(" one", " two", " red"), 3, 3),
        (answer("one", " two", " red"), 3, 3),  # a blank before an answer is the server's to keep or drop
        (answer(" one", " two", " rid"), 3, 2),
        (answer(" one", " tea", " red"), 2, 1),  # nothing after the first difference counts
        (answer(" six"), 1, 0),
        (answer(" one", " two"), 2, 2),  # its limit came first: what it would have said is not known
        (answer(" one", " two", cut=False), 3, 2),  # it ended, and the reference went on
        (answer(" one", " two", " red", " hat"), 3, 3),
        (answer(cut=False), 1, 0),
    ],
)  # fmt: skip
def test_answers_are_alike_up_to_the_token_at_which_they_part(seen: Answer, tokens: int, agreed: int) -> None:
    row = of_answers(answer(" one", " two", " red"), seen)
    assert (row.tokens, row.agreed) == (tokens, agreed)


def test_a_server_that_goes_on_where_its_reference_ended_parts_there() -> None:
    row = of_answers(answer(" one", " two", cut=False), answer(" one", " two", " red"))
    assert (row.tokens, row.agreed) == (3, 2)


def test_half_a_character_at_the_end_of_a_token_parts_nothing() -> None:
    whole = from_pieces(["a", "a\ufffd", "aé"], cut=True, prompt_tokens=1)
    assert of_answers(whole, Answer("aé", (2,), True)).agreed == 3


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({}, "no choices"), ([], "no choices"), ({"choices": [3]}, "no choices"),
        ({"choices": [{"text": None}]}, "no text"),
        ({"choices": [{"text": "x"}]}, "does not count the tokens"),
        ({"choices": [{"text": "x"}], "usage": {"completion_tokens": -1}}, "does not count the tokens"),
        ({"choices": [{"text": "x"}], "usage": {"completion_tokens": 10**9}}, "more than the 4 asked for"),
    ],
)  # fmt: skip
def test_an_answer_without_text_or_count_is_refused_with_the_reason(said: Any, why: str) -> None:
    with pytest.raises(Unusable, match=why):
        from_completion(said, 4)


def test_the_agreement_of_answers_counts_tokens_said_after_the_same_text() -> None:
    rows = [FidelityRow(10, 9, None, 0.0, 0.0), FidelityRow(30, 30, None, 0.0, 0.0)]
    metrics = fidelity(rows, Compared("answers", "the same weights in fp32", "x", instead="it gives none"))
    assert set(metrics) == {"answer_agreement"}
    share = metrics["answer_agreement"]
    assert share.value == 39 / 40
    assert share.low == pytest.approx(0.8684, abs=1e-4)  # Clopper and Pearson, 39 of 40
    assert share.high == pytest.approx(0.9994, abs=1e-4)
    assert "1 partings in 40 tokens" in share.method
    assert "it gives none" in share.method
    gate = fidelity_gate(metrics, Tolerance())
    assert gate is not None
    assert gate.go
    stricter = fidelity_gate(metrics, Tolerance(top1_agreement=0.98))
    assert stricter is not None
    assert [finding.subject for finding in stricter.broken] == ["answer_agreement"]


def test_a_divergence_of_top_tokens_above_the_limit_is_no_go_under_its_own_name() -> None:
    rows = [FidelityRow(10, 10, None, 5.0, 5.0, 1.0)] * 2
    metrics = fidelity(rows, Compared("log-probabilities", "fp32", "x"))
    assert metrics["kl_top_nats"].value == pytest.approx(0.1)
    assert "kl_nats" not in metrics, "a bound does not go under the name of the whole"
    gate = fidelity_gate(metrics, Tolerance())
    assert gate is not None
    assert [finding.subject for finding in gate.broken] == ["kl_top_nats"]


def test_what_was_not_compared_is_absent_with_its_reason_and_has_no_gate() -> None:
    metrics = fidelity((), Compared("none", reason="the folder is quantised by hqq"))
    assert metrics["top1_agreement"].value is None
    assert metrics["top1_agreement"].reason == "the folder is quantised by hqq"
    assert fidelity_gate(metrics, Tolerance()) is None
    assert fidelity(()) == {}
