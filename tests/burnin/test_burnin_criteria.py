"""Files of criteria: read strictly, refused in one sentence; windows on disk: a cut line is dropped."""

from __future__ import annotations

from pathlib import Path

import pytest

from burnin_telemetry import asked, telemetry
from twinlens.acceptance.criteria import KINDS, Criterion, criteria_of, read_criteria, written
from twinlens.acceptance.part import standing_of
from twinlens.acceptance.window import BurnIn, append, read_burnin, read_windows, write_head
from twinlens.errors import BadInput
from twinlens.record.estimate import Estimate


def test_the_shipped_criteria_judge_all_there_is_and_are_written_as_they_are_read() -> None:
    shipped = read_criteria()
    assert {each.what for each in shipped} == set(KINDS)
    assert criteria_of(written(shipped), "again") == shipped


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[temprature]\nlimit = 90", "nobody can judge 'temprature'; did you mean 'temperature'?"),
        ("[xid]\nlimit = -1\nunit = 'count'", "has the limit -1, which cannot be judged; it is at least 0"),
        ("[retention]\nlimit = 1.2\nunit = 'ratio'", "which cannot be judged; it is at least 0.01 and at most 1"),
        ("[drift]\nlimit = 0\nunit = 'per 10 h'", "has the limit 0, which cannot be judged"),
        ("[drift]\nlimit = 0.01\nunit = 'ratio'", "has the unit 'ratio'; it is judged in \"per 10 h\""),
        ("[xid]\nlimit = true\nunit = 'count'", "has the limit True, which is no number"),
        ("[xid]\nlimit = nan\nunit = 'count'", "has the limit nan, which is no number"),
        ("[xid]\nlimt = 0\nunit = 'count'", "has no 'limt'; did you mean 'limit'?"),
        ("[xid]\nlimit = 0\nunit = 'count'\notherwise = 'rejct'", "did you mean 'reject'?"),
        ("[xid]\nlimit = 0\nunit = 'count'\nexcept = ['x']", "has `except`, which only [throttled] has"),
        ("[throttled]\nlimit = 0\nunit = 'ratio'\nexcept = ['power cap']", "no device is slowed down for 'power cap'"),
        ("xid = 0", "[xid] is no table; it needs a limit and a unit"),
        ("", "has no criterion"),
        ("[xid", "cannot be read"),
    ],
)
def test_what_nobody_can_judge_is_refused_in_one_sentence(tmp_path: Path, text: str, says: str) -> None:
    (path := tmp_path / "accept.toml").write_text(text)
    with pytest.raises(BadInput) as refused:
        read_criteria(path)
    assert says in str(refused.value)
    assert (refused.value.code, refused.value.exit_code, "\n" in str(refused.value)) == ("TL261", 2, False)


def estimate(value: float, low: float, high: float) -> Estimate:
    return Estimate(value, "1", "a test", "derived", low, high, 0.95, 9)


@pytest.mark.parametrize(
    ("value", "stands"),
    [
        (estimate(0.98, 0.97, 0.99), "met"),
        (estimate(0.90, 0.89, 0.91), "not met"),
        (estimate(0.96, 0.94, 0.98), "met with a note"),  # ± 2 % where 5 % are allowed
        (estimate(0.96, 0.89, 1.03), "insufficient"),  # ± 7 %: too wide to tell
        (estimate(0.94, 0.92, 0.96), "insufficient"),
        (Estimate.absent("1", "too short"), "insufficient"),
    ],
)
def test_a_limit_inside_the_interval_is_a_note_or_not_known(value: Estimate, stands: str) -> None:
    assert standing_of(Criterion("retention", 0.95, "ratio", "quarantine"), value) == stands


def test_windows_come_back_as_they_were_and_a_cut_line_is_dropped(tmp_path: Path) -> None:
    windows = telemetry(0.05, devices=2)
    head = BurnIn(asked(0.05, 2), read_criteria(), "2026-11-27T20:00:00Z", {"model": "x"})
    write_head(tmp_path, head)
    for window in windows[:2]:
        append(tmp_path, window)
    with (tmp_path / "windows.jsonl").open("ab") as file:
        file.write(b'{"number": 3, "work')
    assert read_burnin(tmp_path) == (head, windows[:2])
    append(tmp_path, windows[2])
    assert read_windows(tmp_path) == windows[:3]


def test_a_folder_that_holds_no_burn_in_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"holds no burn-in: there is no burnin\.json") as refused:
        read_burnin(tmp_path)
    assert refused.value.code == "TL260"
    (tmp_path / "windows.jsonl").write_text('{"number": 1}\n')
    with pytest.raises(BadInput, match=r"windows\.jsonl, line 1, is no window of a burn-in"):
        read_windows(tmp_path)
