"""Which points answer a question: fields by role, limits by their interval, and the run that is missing."""

from __future__ import annotations

from typing import Any

import pytest
from benchmarks.published import published

from sides import side
from twinlens.api.judging.answers import answers
from twinlens.comparison.answering import (
    Question,
    candidates,
    path_of,
    question_of,
    question_of_spec,
    setting,
    settings_for,
)
from twinlens.errors import BadInput
from twinlens.record.estimate import Estimate
from twinlens.spec.load import load


def held(question: str, **parts: Any) -> Any:
    (found,) = candidates(question_of(question), [side("one", **parts)])
    return found


def test_a_point_that_is_as_asked_answers() -> None:
    found = held("lens=inference,batch=1,executor=fake,model=tiny,input_tokens=16,device=M")
    assert (found.standing, found.unlike) == ("answers", ())


@pytest.mark.parametrize(
    ("question", "path", "role", "standing"),
    [
        ("lens=training,batch=9,model=x", "lens", "M", "no answer"),
        ("model=other", "workload.model", "M", "no answer"),
        ("input_tokens=99", "workload.input_tokens", "M", "no answer"),
        ("precision=bf16", "point.precision", "V", "in part"),
        ("batch=8", "point.batch", "V", "in part"),
        ("executor=vllm", "executor.kind", "V", "in part"),
        ("device=H100", "device", "V", "in part"),
        ("prompts=trace", "workload.prompts", "Q", "in part"),
    ],
)
def test_a_field_that_differs_has_its_role(question: str, path: str, role: str, standing: str) -> None:
    found = held(question)
    assert found.standing == standing
    assert [(each.path, each.role) for each in found.unlike] == [(path, role)], "of another lens nothing else is said"


def test_what_must_match_is_farther_than_what_may_vary() -> None:
    known = [
        side("other", model="small"),
        side("same", point={"batch": 4}),
        side("narrow", asked=["point.precision=bf16"]),
    ]
    found = candidates(question_of("model=tiny,precision=fp32,batch=4"), known)
    assert [each.side.name for each in found] == ["same", "narrow", "other"]


@pytest.mark.parametrize(
    ("low", "value", "high", "ruling", "standing"),
    [
        (0.1, 0.2, 0.3, "within", "answers"),
        (0.6, 0.7, 0.8, "beyond", "answers"),
        (0.4, 0.45, 0.6, "undecided", "in part"),
        (None, 0.2, None, "within", "answers"),
        (None, None, None, "not measured", "in part"),
    ],
)
def test_a_limit_is_judged_by_the_interval(
    low: float | None, value: float | None, high: float | None, ruling: str, standing: str
) -> None:
    one = side("one", {"ttft_s_p99": (0.2,)})
    estimate = (
        Estimate.absent("s", "too few") if value is None
        else Estimate(value, "s", "by hand", "measured", low=low, high=high, level=None if low is None else 0.95)
    )  # fmt: skip
    one.group.metrics["ttft_s_p99"] = estimate
    (found,) = candidates(question_of("slo.ttft_s=0.5"), [one])
    assert ([each.ruling for each in found.limits], found.standing) == ([ruling], standing)


def test_a_point_that_is_not_ranked_answers_in_part() -> None:
    assert held("model=tiny", state="interrupted").standing == "in part"


def test_settings_turn_the_nearest_point_into_what_was_asked() -> None:
    found = held("precision=bf16,input_tokens=99,device=H100,batch=2")
    assert settings_for(found) == (
        "workload.input_tokens={kind = \"fixed\", value = 99}", "point.precision=bf16", "point.batch=2",
    )  # fmt: skip
    assert setting("workload.model", "a b; rm -rf /") == 'workload.model="a b; rm -rf /"'


def test_every_short_name_is_a_path_and_a_spec_asks_what_it_says() -> None:
    assert path_of("rate_per_s") == "point.rate_per_s"
    assert path_of("seq_len") == "workload.seq_len"
    assert path_of("slo.ttft_s") == "workload.slo.ttft_s"
    spec = side("one").runs[0].spec
    (found,) = candidates(question_of_spec(spec), [side("one")])
    assert found.standing == "answers"
    assert question_of("slo.tpot_s=0.1,slo.quantile=0.9") == Question({}, {"tpot_s": 0.1}, 0.9)


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("", "ask for what"), ("precision", "fields with values"), ("ratepers=3", "did you mean 'rate_per_s'"),
        ("precision=bf17", "did you mean 'bf16'"), ("lens=serving", "known: collective, inference, training"),
        ("rate_per_s=-1", "above 0"), ("batch=1,batch=2", "asked twice"), ("slo.ttft_s=x", "no SLO"),
        ("slo.quantile=0.9", "at least one limit"), ("rate_per_s=NaN", "NaN must be a number above 0"),
        ("rate_per_s=nan", "nan must be a number above 0"), ("batch=-Infinity", "must be a number above 0"),
        ("rate_per_s=inf", "inf must be a number above 0"), ("slo.ttft_s=nan", "no SLO"), ("slo.ttft_s=inf", "no SLO"),
        ("slo.ttft_s=-1", "no SLO"),
    ],
)  # fmt: skip
def test_a_question_that_cannot_be_read_is_one_sentence(question: str, said: str) -> None:
    with pytest.raises(BadInput, match=said) as caught:
        question_of(question)
    assert caught.value.code == "TL242"


def test_a_run_that_took_turns_can_be_measured_again_alone() -> None:
    study = published() / "2026-11-22-neighbour-epyc-2core"
    (found,) = answers(study, to="lens=inference,precision=bf16")
    assert found.lacks == ""
    assert found.missing is not None
    again = load(found.missing.start, found.missing.settings)
    assert (again.protocol.pairing, len(again.points())) == ("none", 1)
