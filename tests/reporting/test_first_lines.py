"""What stands before any table is short: the verdict, what disqualifies, then a few warnings."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from report_material import Pair, first_text, inference_run
from twinlens.record.finding import Finding
from twinlens.reporting.text.first_lines import finding_lines
from twinlens.reporting.text.fitted import LINES
from twinlens.stats.summary.group import group


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return inference_run(Path(tmp_path_factory.mktemp("one")), "fp32")


def lines_of(pair: Pair, disqualifying: int, warnings: int) -> list[str]:
    found = [Finding(f"grave-{number}", "disqualifies") for number in range(disqualifying)]
    found += [Finding(f"odd-{number}", "warns") for number in range(warnings)]
    groups = group([replace(pair[1], findings=tuple(reversed(found)))])
    return first_text(groups).splitlines()


@pytest.mark.parametrize(("disqualifying", "warnings"), [(0, 0), (1, 1), (1, 9), (8, 2), (0, 9), (12, 12)])
def test_the_gravest_stand_first_and_as_many_as_a_screen_has_room_for(
    pair: Pair, disqualifying: int, warnings: int
) -> None:
    lines = lines_of(pair, disqualifying, warnings)
    assert lines[0].startswith("The one point is not valid" if disqualifying else "The one point is valid")
    marks = "".join(line[0] for line in lines if re.match("[✗!] Inference, ", line))
    every = "✗" * disqualifying + "!" * warnings
    assert marks == every[: len(marks)]
    assert len(lines) <= LINES
    assert bool(disqualifying + warnings) <= bool(marks)
    assert any(re.match(r"… \d+ more line", line) for line in lines) or marks == every


def test_a_finding_of_several_repeats_is_one_line_that_says_in_how_many(pair: Pair) -> None:
    finding = Finding("precision-differs", "disqualifies", "weights",
                    {"declared": "fp32", "observed": "bf16", "evidence": "dtype"})  # fmt: skip
    runs = [
        replace(pair[1], repeat=number, run=f"r{number}", findings=(finding,) * (number > 0)) for number in range(3)
    ]
    (line,) = finding_lines(group(runs))
    assert line.text == "weights was declared as fp32 and ran as bf16 (dtype) (in 2 of 3 runs)."
