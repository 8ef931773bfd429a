"""The ledger: rows that a kill cannot break, and the standing that they fold to."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twinlens.errors import BadInput
from twinlens.tuning.ledger import (
    FILE,
    Begun,
    Decided,
    Entry,
    Ledger,
    Left,
    Margin,
    Phase,
    Proposed,
    Round,
    Started,
    fold,
    read_ledger,
)

ROWS: tuple[Entry, ...] = (
    Begun("abc", "1.0", "2026-01-01T000000Z"),
    Proposed(0, {}, "default"),
    Proposed(1, {"max_sequences": 8, "chunked_prefill": True}, "random"),
    Started(0, "run-0", 2.0, 2.0),
    Started(1, "run-1", 3.0, 3.0, {"max_sequences": 8}),
    Round(0, 0, 100.0, 0.5, "run-0"),
    Round(1, 0, None, 0.5, "run-1", "nothing was steady"),
    Decided(0, 0),
    Round(0, 1, 101.0, 0.5, "run-0"),
    Round(1, 1, 99.0, 0.5, "run-1"),
    Decided(1, 1, (Left(1, "not better", "", -0.02, 2, (Margin("ttft_s_p90", 0.5, 0.4, 0.3, 0.5, True),)),)),
    Phase("simplify", "every candidate was tried"),
    Phase("over", "every candidate was tried"),
)


def test_rows_come_back_as_they_were_written(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    for row in ROWS:
        ledger.add(row)
    assert read_ledger(tmp_path) == ROWS
    assert ledger.standing == fold(ROWS) == Ledger(tmp_path).standing


def test_the_standing_counts_what_was_spent_and_who_races() -> None:
    standing = fold(ROWS)
    assert standing.spent_s == pytest.approx(2 + 3 + 4 * 0.5)
    assert (standing.racing, standing.decided, standing.phase) == ((0,), 2, "over")
    assert standing.trials[1].absent == (0,)
    assert standing.trials[1].values == {1: 99.0}
    assert standing.trials[1].observed == {"max_sequences": 8}


def test_what_is_left_out_costs_no_trial_and_what_fails_does() -> None:
    rows = (Proposed(0, {}, "default"), Proposed(1, {"a": 1}, "random"), Left(1, "left out", "it does not fit"),
            Proposed(2, {"a": 2}, "random"), Left(2, "failed to start", "no"))  # fmt: skip
    assert fold(rows).counted == 2


def test_a_leader_that_fails_leads_no_longer() -> None:
    rows = (Proposed(0, {}, "default"), Proposed(1, {"a": 1}, "random"), Decided(0, 1), Left(1, "failed", "it died"))
    assert fold(rows).leader == 0


@settings(max_examples=40)
@given(st.integers(0, 2000))
def test_a_ledger_cut_anywhere_keeps_its_whole_rows_and_goes_on(cut: int) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for row in ROWS:
            Ledger(folder).add(row)
        path = folder / FILE
        whole = path.read_bytes()
        cut = min(cut, len(whole))
        path.write_bytes(whole[:cut])
        kept = whole[:cut].count(b"\n")
        ledger = Ledger(folder)
        assert ledger.standing == fold(ROWS[:kept])
        for row in ROWS[kept:]:
            ledger.add(row)
        assert path.read_bytes() == whole


def test_a_full_disk_leaves_no_half_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(tmp_path)
    ledger.add(ROWS[0])
    before = ledger.path.read_bytes()

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        ledger.add(ROWS[1])
    assert ledger.path.read_bytes() == before
    assert ledger.standing == fold(ROWS[:1])


@pytest.mark.parametrize("line", [b'{"event": "begun"}\n', b'{"event": "nonsense"}\n', b"[]\n", b"\xff\xfe\n"])
def test_a_row_that_is_whole_and_no_row_is_one_sentence(tmp_path: Path, line: bytes) -> None:
    (tmp_path / FILE).write_bytes(line)
    with pytest.raises(BadInput, match="line 1 of"):
        Ledger(tmp_path)


def test_a_folder_without_a_ledger_is_no_tuning(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="is not a tuning"):
        read_ledger(tmp_path)
