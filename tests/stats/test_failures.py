"""Requests that did not end well are counted by reason, and a run of little else is no finished run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from material import inference, spec_of
from twinlens.record.finding import Finding
from twinlens.record.request import Loss, Request
from twinlens.record.run import Run
from twinlens.record.store import create_run, end_run, open_rows, read_run
from twinlens.reporting.wording.finding import sentence_of
from twinlens.stats.finding.failures import failures, is_hopeless
from twinlens.stats.run_summary import summarise

OK = ("ok", None)
GONE = ("refused", "cannot connect: Connection refused")
BUSY = ("refused", "HTTP 503: overloaded")


def run_of(folder: Path, ends: Sequence[tuple[str, str | None]]) -> Run:
    """A run at 1 request/s, each answered or lost within 0.1 s, with these outcomes and reasons."""
    made = create_run(folder, spec_of(inference("fake", arrival={"kind": "constant"}, point={"rate_per_s": 1.0})))
    with open_rows(made, read_run(made).spec) as rows:
        for number, (outcome, error) in enumerate(ends):
            due = number * 10**9
            chunks = (due + 5 * 10**7, due + 10**8) if outcome == "ok" else ()
            rows.add(
                Request(number, due, due, chunks, (1,) * len(chunks), due + 10**8, 8, len(chunks), outcome,  # type: ignore[arg-type]
                        error=error, loss=_loss(error))
            )  # fmt: skip
    end_run(made, "finished")
    return read_run(made)


def _loss(error: str | None) -> Loss | None:
    if error is None or error.startswith("HTTP"):
        return None
    return "never open" if error.startswith("cannot connect") else "broken" if "broke" in error else "closed"


def test_a_run_of_before_losses_were_written_down_says_them_by_its_errors(tmp_path: Path) -> None:
    run = run_of(tmp_path, [("ok", None)] * 10 + [("refused", "cannot connect: Connection refused")] * 9)
    older = run.table.drop_columns(["loss"])
    path = run.folder / "requests.arrows"
    path.unlink()
    path.with_name(f"{path.name}.crc32").unlink(missing_ok=True)
    with pa.ipc.new_stream(path, older.schema) as out:
        out.write_table(older)
    again = read_run(run.folder)
    assert again.table.column("loss").null_count == len(again.table)
    assert found(again).code == "server-died"


def found(run: Run) -> Finding:
    (one,) = failures(run)
    return one


def test_a_run_in_which_all_ended_well_has_nothing_to_say(tmp_path: Path) -> None:
    assert list(failures(run_of(tmp_path, [OK] * 30))) == []


def test_a_server_that_dies_in_mid_run_is_said_to_be_gone_with_the_reason(tmp_path: Path) -> None:
    run = run_of(tmp_path, [OK] * 13 + [GONE] * 16)
    one = found(run)
    assert (one.code, one.severity) == ("server-died", "disqualifies")
    assert is_hopeless(one)
    assert sentence_of(one) == (
        "The server was gone after 12.1 s, 16 requests before the end. "
        "16 of 29 requests were refused: cannot connect: Connection refused."
    )
    assert not summarise(run).ranked


def test_a_server_that_comes_back_has_not_died(tmp_path: Path) -> None:
    assert found(run_of(tmp_path, [OK] * 10 + [GONE] * 10 + [OK] * 20)).code == "requests-failed"


def test_answers_that_are_all_cut_off_are_a_hopeless_run_and_say_how_long_they_were(tmp_path: Path) -> None:
    ends = [("cut_off", f"{2 + number % 2} of 8 tokens, finish_reason stop") for number in range(29)]
    one = found(run_of(tmp_path, ends))
    assert one.code == "mostly-failed"
    assert is_hopeless(one)
    assert sentence_of(one) == "29 of 29 requests were cut off: 2 of 8 tokens, finish_reason stop."


def test_a_third_of_refusals_warns_with_the_reasons_and_their_counts(tmp_path: Path) -> None:
    one = found(run_of(tmp_path, ([OK, OK, BUSY] * 9) + [("failed", "the server says: out of memory"), OK, OK]))
    assert (one.code, one.severity) == ("requests-failed", "warns")
    assert not is_hopeless(one)
    assert sentence_of(one) == (
        "10 of 30 requests were refused or failed: 9 × HTTP 503: overloaded; 1 × the server says: out of memory."
    )


@pytest.mark.parametrize(("lost", "hopeless"), [(16, False), (26, False), (27, True), (30, True)])
def test_only_nearly_nothing_is_hopeless(tmp_path: Path, lost: int, hopeless: bool) -> None:
    one = found(run_of(tmp_path, [BUSY] * lost + [OK] * (30 - lost)))
    assert one.code == "mostly-failed"
    assert is_hopeless(one) is hopeless


def test_reasons_with_other_statuses_are_other_reasons(tmp_path: Path) -> None:
    statuses = [("failed", f"HTTP {status}: status {status}") for status in range(200, 240)]
    one = found(run_of(tmp_path, [*statuses, *[("failed", "HTTP 500: at row 7"), ("failed", "HTTP 500: at row 8")]]))
    assert one.numbers["reasons"][0] == ["HTTP 500: at row 7", 2]
    assert [count for _, count in one.numbers["reasons"]] == [2, 1, 1, 1]
    assert sentence_of(one).endswith("; 37 × other reasons.")
