"""docs/results/what-binds.md says of the published runs what the diagnosis says of them today."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from benchmarks.published import published

import twinlens as tl

RESULTS = Path(__file__).parents[2] / "docs" / "results"
PAGE = (RESULTS / "what-binds.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| (20\S+) \| (training|decode) (\S+) \| ([^|]+) \| (\S+) \| (\S+) \| (\S+) \|$", re.MULTILINE)
ROWS = ROW.findall(PAGE)


def verdicts(folder: str, lens: str, precision: str) -> list[Any]:
    runs = [
        run
        for run in tl.read(published() / folder)
        if run.spec.name == f"demo-{lens}" and run.spec.point.precision == precision
    ]
    return [found.verdict for found in tl.diagnose(runs)]


def spread(found: list[Any], name: str) -> str:
    shares = [100 * each.numbers[name] for each in found]
    return f"{min(shares):.0f}–{max(shares):.0f}"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: " ".join(row[:3]))
def test_every_row_is_what_the_runs_say(row: tuple[str, ...]) -> None:
    folder, phase, precision, told, *shares = row
    found = verdicts(folder, "training" if phase == "training" else "inference", precision)
    counted = ", ".join(f"{count} {code}" for code, count in Counter(each.code for each in found).most_common())
    assert counted == told
    assert {each.subject for each in found} == {"step" if phase == "training" else "decode"}
    assert [spread(found, name) for name in ("compute_share", "bandwidth_share", "stream_share")] == shares


def test_the_page_has_both_lenses_of_both_days() -> None:
    assert len(ROWS) == 9
    assert {row[1] for row in ROWS} == {"training", "decode"}


def test_the_conclusion_is_that_of_the_runs() -> None:
    """Training in fp32 is compute-bound in every run; decode in fp32 is kernel-bound in most, at the threshold."""
    for folder in ("2026-11-20-epyc-2core", "2026-11-22-neighbour-epyc-2core"):
        assert {each.code for each in verdicts(folder, "training", "fp32")} == {"compute-bound"}
        decoded = verdicts(folder, "inference", "fp32")
        assert Counter(each.code for each in decoded).most_common(1)[0][0] == "kernel-bound"
        assert all(each.numbers["bandwidth_share"] > 0.55 for each in decoded)
        below = [each for each in decoded if each.code == "below-ceilings"]
        assert all(each.numbers["confidence"] == "low" for each in below)
    shown = (RESULTS / "2026-11-22-neighbour-epyc-2core" / "shown.txt").read_text(encoding="utf-8")
    assert re.search(r"bf16 / fp32 +1\.13× +decode[^\n]* +1\.09–1\.17×", shown), "the ratio that the page gives"
