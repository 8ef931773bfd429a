"""What a spec says of a search, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from material import inference, study_of, training
from twinlens.api.measuring.spec_asked import as_settings
from twinlens.errors import BadInput
from twinlens.spec.load import dump, parse
from twinlens.spec.slo import Search
from twinlens.spec.study import Study

SERVED = {"arrival": {"kind": "poisson"}, "slo": {"ttft_s": 0.5}}


def study(*settings: str, **parts: object) -> Study:
    return study_of(inference("fake", **(SERVED | parts)), *settings)


def test_search_in_place_of_values_is_its_short_form() -> None:
    assert as_settings(["rate_per_s=search"]) == ['search.over="rate_per_s"']
    read_study = study(*as_settings(["rate_per_s=search"]), "search.start=4")
    assert read_study.search == Search(start=4.0)
    assert [run.point.rate_per_s for run in read_study.runs()] == [4.0]


def test_a_search_is_made_at_each_point_of_the_sweep_and_has_no_repeats() -> None:
    read_study = study("search.start=2", sweep={"precision": ["fp32", "bf16"]}, protocol={"repeats": 3})
    assert [(run.point.precision, run.point.rate_per_s, run.repeat) for run in read_study.runs()] == [
        ("fp32", 2.0, 0),
        ("bf16", 2.0, 0),
    ]


def test_a_trial_has_the_value_and_a_seed_for_each_time_it_was_tried() -> None:
    read_study = study("search.start=2")
    first, again, other = (read_study.trial({}, value, before) for value, before in ((8.0, 0), (8.0, 1), (9.0, 0)))
    assert (first.point.rate_per_s, first.repeat, again.repeat) == (8.0, 0, 1)
    assert len({spec.prompt_seed() for spec in (first, again, other)}) == 3
    assert len({spec.fingerprint() for spec in (first, again, other)}) == 3


def test_what_is_asked_last_replaces_what_it_contradicts() -> None:
    swept = {"rate_per_s": [1, 2]}
    assert study('search.over="rate_per_s"', sweep=swept).sweep == {}
    assert study('search.over="rate_per_s"', "point.rate_per_s=3").search is None
    assert study('search.over="rate_per_s"', "sweep.rate_per_s=[1, 2]").search is None
    assert study("search.start=2").at(rate_per_s=3.0).search is None


def test_a_study_with_a_search_is_read_back_as_it_was_written(tmp_path) -> None:
    import tomllib

    read_study = study("search.start=2", "search.budget_s=60")
    assert parse(tomllib.loads(dump(read_study))) == read_study


LOCKSTEP = {"kind": "lockstep"}


@pytest.mark.parametrize(
    ("data", "settings", "words"),
    [
        (inference("fake", arrival={"kind": "poisson"}), ["search.start=2"], "needs an SLO"),
        (training("fake"), ["search.start=2"], "needs an SLO"),
        (inference("fake", slo={"ttft_s": 1}, arrival=LOCKSTEP), ["search.start=2"], "means nothing to lockstep"),
        (inference("fake", **SERVED), ['search.over="concurrency"', "workload.arrival.kind=poisson"], "need a rate"),
        (inference("fake", **SERVED), ['search.over="batch"'], "search.over"),
        (inference("fake", **SERVED), ["search.width=0.001"], "search.width"),
        (inference("fake", **SERVED), ["search.start=9", "search.most=4"], "not between least"),
        (inference("fake", **SERVED), ["search.strat=9"], "did you mean 'start'"),
        (inference("fake", **SERVED), ["search.budget_s=5", "protocol.duration_s=60"], "ends before one run does"),
        (inference("fake", **SERVED, sweep={"rate_per_s": [1]}) | {"search": {}}, [], "both swept and searched"),
        (inference("fake", **SERVED, point={"rate_per_s": 1}) | {"search": {}}, [], "where it is searched"),
    ],
)  # fmt: skip
def test_a_search_that_cannot_be_made_is_refused_in_one_sentence(data: dict, settings: list, words: str) -> None:
    with pytest.raises(BadInput, match=words) as caught:
        study_of(data, *settings)
    assert caught.value.code == "TL202"


@given(st.floats(1e-2, 1e5), st.sampled_from(["rate_per_s", "concurrency"]))
def test_values_have_three_digits_or_are_whole_and_stay_near(value: float, over: str) -> None:
    search = Search(over=over)
    rounded = search.rounded(value)
    assert rounded == search.rounded(rounded)
    if over == "concurrency":
        assert rounded >= 1
        assert rounded == int(rounded)
    else:
        assert float(f"{rounded:.3g}") == rounded
        assert rounded == pytest.approx(value, rel=0.005)


def test_bounds_hold_for_rounded_values_too() -> None:
    search = Search(start=3.0, least=2.0, most=4.004)
    assert search.rounded(9.0) == 4.0
    assert search.rounded(0.1) == 2.0
    with pytest.raises(ValidationError):
        Search(start=1.0, least=2.0)
