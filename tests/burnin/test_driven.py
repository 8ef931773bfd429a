"""Workloads take turns until the time is used, and what they computed is compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NoReturn

import pytest
from tests.burnin.driving import SOUND, decode, driven, folder_of, means, refuse_unsound, training

import twinlens as tl
from twinlens.acceptance.driving.counters import Reading
from twinlens.acceptance.driving.drive import Means
from twinlens.acceptance.driving.journal import read_lines
from twinlens.acceptance.window import read_burnin
from twinlens.api.measuring import burnin as verb
from twinlens.errors import BadInput
from twinlens.measurement import session
from twinlens.spec.study import RunSpec


def test_workloads_alternate_until_the_time_is_used(tmp_path: Path) -> None:
    found = driven(tmp_path)
    windows = refuse_unsound(tmp_path)
    assert [each.workload for each in windows] == 2 * (3 * ["training"] + 3 * ["decode"])
    assert sum(each.seconds for each in windows) == 120
    assert found.stopped == ""
    assert len(found.windows) == 12


def test_a_rate_is_that_of_the_law_and_losses_repeat(tmp_path: Path) -> None:
    driven(tmp_path, training(step_s=0.5))
    windows = refuse_unsound(tmp_path)
    assert all(each.rate_per_s == pytest.approx(2.0, rel=1e-6) for each in windows)
    firsts = [each.checks for each in windows if each.begin_s == min(w.begin_s for w in windows if w.turn == each.turn)]
    assert len(firsts) == 4
    assert all(each == firsts[0] for each in firsts)
    assert set(firsts[0]) == {"loss of the first step", "loss of steps 1 to 8"}


def test_a_step_longer_than_a_window_is_no_jump_of_the_rate(tmp_path: Path) -> None:
    driven(tmp_path, training(step_s=7.0), for_="140s", turn="70s")
    windows = refuse_unsound(tmp_path)
    assert all(each.rate_per_s == pytest.approx(1 / 7, rel=1e-6) for each in windows)


def test_products_stand_before_and_after_the_work_of_a_turn(tmp_path: Path) -> None:
    wrong = {"cpu": {"product fp32": "fedcba9876543210"}}
    driven(tmp_path, by=means([SOUND, SOUND, wrong, SOUND]))
    told = [(w.number, d.checks["product fp32"]) for w in refuse_unsound(tmp_path) for d in w.devices if d.checks]
    sound, other = SOUND["cpu"]["product fp32"], wrong["cpu"]["product fp32"]
    assert told == [(1, sound), (3, sound), (6, other), (9, sound), (12, sound)]


def test_a_product_that_differs_within_one_window_is_told_as_both(tmp_path: Path) -> None:
    wrong = {"cpu": {"product fp32": "fedcba9876543210"}}
    driven(tmp_path, training(), for_="30s", turn="30s", window="30s", by=means([SOUND, wrong]))
    (window,) = refuse_unsound(tmp_path)
    assert window.devices[0].checks["product fp32"] == "0123456789abcdef, then fedcba9876543210"


def test_counters_and_their_reasons_come_with_every_window(tmp_path: Path) -> None:
    totals = iter(range(1000))

    def read() -> tuple[Reading, ...]:
        return (Reading("cpu", {"ecc_corrected": next(totals)}, {"ecc_uncorrected": "refused"}, temperature_c=61.0),)

    driven(tmp_path, by=means(counters=read))
    windows = refuse_unsound(tmp_path)
    read_at = [each.devices[0].counters["ecc_corrected"] for each in windows]
    assert read_at == sorted(read_at)
    assert len({*read_at}) == 4
    assert {each.devices[0].missing["ecc_uncorrected"] for each in windows} == {"refused"}
    assert {each.devices[0].temperature_c for each in windows} == {61.0}


def test_a_rest_says_how_far_devices_cooled(tmp_path: Path) -> None:
    hot = iter(range(90, 0, -1))
    at_rest = means(counters=lambda: (Reading("cpu", temperature_c=float(next(hot))),))
    driven(tmp_path, rest="20s", by=at_rest)
    rests = [each for each in read_lines(folder_of(tmp_path) / "journal.jsonl") if each["what"] == "rest"]
    assert len(rests) == 3
    assert all(each["seconds"] == 20 and len(each["cooled_c"]["cpu"]) == 5 for each in rests)
    assert all(each["cooled_c"]["cpu"] == sorted(each["cooled_c"]["cpu"], reverse=True) for each in rests)


def test_a_workload_that_fails_again_and_again_is_left_out_and_named(tmp_path: Path) -> None:
    found = driven(tmp_path, training(fail_at=0), decode())
    windows = refuse_unsound(tmp_path)
    failed = [each for each in windows if each.outcome == "failed"]
    assert [each.workload for each in failed] == 3 * ["training"]
    assert "fails at row 0" in failed[0].why
    assert sum(each.seconds for each in windows) == 120
    assert found.stopped == ""


def test_a_burn_in_whose_workloads_all_fail_ends_and_says_why(tmp_path: Path) -> None:
    found = driven(tmp_path, training(fail_at=0))
    assert found.stopped == "every workload failed 3 times one after another"


def test_a_device_that_is_gone_after_a_while_is_a_failure_and_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = session.refuse_what_cannot_run, iter(range(100))

    def gone(spec: RunSpec) -> None:
        if next(calls) == 1:
            raise BadInput("there is no device cuda:0", code="TL208")
        real(spec)

    monkeypatch.setattr(session, "refuse_what_cannot_run", gone)
    driven(tmp_path, training())
    windows = refuse_unsound(tmp_path)
    assert [each.why for each in windows if each.outcome == "failed"] == ["there is no device cuda:0"]
    assert sum(each.seconds for each in windows) == 120


def test_products_that_cannot_be_worked_out_are_a_failure(tmp_path: Path) -> None:
    given = iter([(SOUND, ""), (SOUND, ""), ({}, "the products failed: an illegal memory access")])
    by = Means(lambda: next(given, (SOUND, "")), means().counters)
    driven(tmp_path, by=by)
    (failed,) = [each for each in refuse_unsound(tmp_path) if each.outcome == "failed"]
    assert (failed.turn, failed.why) == (2, "the products failed: an illegal memory access")


def test_candidates_that_would_be_smaller_now_go_on_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = iter([0.1, 0.2])
    monkeypatch.setattr(verb, "candidates", lambda gpus: (training(step_s=next(sizes)),))

    def interrupted() -> NoReturn:
        raise KeyboardInterrupt

    words = {"for_": "60s", "turn": "30s", "window": "10s", "rest": "0s", "out": tmp_path, "watch": None}
    tl.burnin(means=Means(interrupted, means().counters), **words)
    found = tl.burnin(means=means(), **words)
    assert all(each.rate_per_s == pytest.approx(10.0) for each in found.windows)
    assert len(found.windows) == 6


def test_a_turn_that_fails_half_way_keeps_its_whole_windows(tmp_path: Path) -> None:
    driven(tmp_path, training(fail_at=250), for_="40s", turn="40s")
    windows = refuse_unsound(tmp_path)
    assert [(each.turn, each.outcome) for each in windows] == [
        (1, "ok"),
        (1, "ok"),
        (1, "failed"),
        (2, "ok"),
        (2, "ok"),
    ]


def test_the_last_turn_is_as_long_as_what_is_left(tmp_path: Path) -> None:
    driven(tmp_path, training(), for_="50s")
    assert [each.turn for each in refuse_unsound(tmp_path)] == [1, 1, 1, 2, 2]


def test_what_was_asked_is_on_disk_before_the_first_window(tmp_path: Path) -> None:
    driven(tmp_path)
    head, _ = read_burnin(folder_of(tmp_path))
    assert head.asked.workloads == ("training", "decode")
    assert head.asked.for_s == 120
    assert head.asked.counters == {"cpu": {"ecc_corrected": 0}}
    assert len(head.specs) == 2
    verdict = json.loads((folder_of(tmp_path) / "verdict.json").read_text())
    assert verdict["is_whole"]


def test_asked_again_when_it_is_over_it_begins_another(tmp_path: Path) -> None:
    driven(tmp_path)
    driven(tmp_path)
    assert len([*tmp_path.glob("*_burnin_*")]) == 2


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ({"for_": "0s"}, "above 0"),
        ({"for_": "0"}, "48h"),
        ({"for_": "5 fortnights"}, "48h"),
        ({"window": "40s"}, "longer than a turn"),
        ({"turn": "10m"}, "longer than --for"),
        ({"criteria": "none.toml"}, "none.toml"),
        ({"since": "nowhere"}, "nowhere"),
    ],
)
def test_what_cannot_be_asked_is_refused_before_any_work(tmp_path: Path, words: dict[str, str], sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        driven(tmp_path, **words)
    assert not [*tmp_path.iterdir()]


def test_a_spec_of_several_points_or_a_search_is_refused(tmp_path: Path) -> None:
    swept = training().model_copy(update={"sweep": {"precision": ("fp32", "bf16")}})
    with pytest.raises(BadInput, match="training has 2 points"):
        driven(tmp_path, swept)
    with pytest.raises(BadInput, match="is a search over rate_per_s"):
        driven(tmp_path, "search")  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="two specs are named 'training'"):
        driven(tmp_path, training(), training(step_s=0.2))
    assert not [*tmp_path.iterdir()]


def test_the_folder_of_another_burn_in_is_refused(tmp_path: Path) -> None:
    driven(tmp_path)
    with pytest.raises(BadInput, match="holds another burn-in"):
        driven(folder_of(tmp_path), training("other"))
