"""How many rows a run has: as many as asked for, unless they are so slow that it gives up; and what is said of that."""

from __future__ import annotations

from pathlib import Path

import pytest

from material import measured, training
from twinlens.measurement.drive.training import give_up_s
from twinlens.pages import find
from twinlens.reporting.wording.finding import clause_of
from twinlens.spec.protocol import Protocol
from twinlens.stats.run_summary import summarise
from twinlens.stats.steady.levels import SteadyRule

PAGE = next(line for line in find("protocol").text.splitlines() if line.startswith("| `min_rows`"))


@pytest.mark.parametrize(("step_s", "rows"), [(0.1, 30), (5.0, 4)])
def test_a_run_has_its_least_rows_or_ends_after_three_durations_and_ten_seconds(
    tmp_path: Path, step_s: float, rows: int
) -> None:
    """Steps of 5 s in a run of 2 s: the fourth is the first that ends after 3 × 2 s + 10 s."""
    run = measured(tmp_path, training("fake", options={"step_s": step_s}, protocol={"duration_s": 2.0, "min_rows": 30}))
    assert run.table.num_rows == rows
    summary = summarise(run)
    assert not summary.ranked or rows >= SteadyRule().min_rows
    if rows < SteadyRule().min_rows:
        assert f"at least {SteadyRule().min_rows} are needed" in clause_of(summary.verdict.reason)


def test_the_cap_and_the_rows_of_the_steady_test_are_those_that_are_told() -> None:
    assert give_up_s(60.0) == 3 * 60.0 + 10.0
    words = "for up to three durations and ten seconds"
    assert words in PAGE
    assert words in str(Protocol.model_fields["min_rows"].description).replace("waited for up", "for up")
    assert f"the steady test needs {SteadyRule().min_rows}" in PAGE
    assert f"| {Protocol().min_rows} |" in PAGE
