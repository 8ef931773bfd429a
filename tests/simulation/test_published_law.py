"""Another simulator's published law, plugged into our engine as one function, gives its published means."""

from __future__ import annotations

import pytest
from benchmarks.simulator.published import CASES, law_of, rows

QUICK = [case for case in CASES if case.id in {"20260217-162547", "62", "64"}]


def test_its_law_of_a_step_is_what_its_formula_gives_by_hand() -> None:
    """Llama 2 7B on one H100: 12.95 GB of weights and 512 KiB of cache a token, at 3.35 TB/s, times its corrections."""
    law = law_of(CASES[0].model, 1)
    weights_us, layers_us, step_us = 1.36252915 * 12_952_010_752 / 3.35e6, 32 * 32.09546717, 126.024825
    assert law.seconds(0, 0) == pytest.approx(1e-6 * (weights_us + layers_us + step_us), rel=1e-9)
    assert law.seconds(0, 1) - law.seconds(0, 0) == pytest.approx(1e-6 * 1.94710771 * 524_288 / 3.35e6, rel=1e-6)
    whole = law.seconds(0, 0, 0, 100 * 101 / 2) - law.seconds(0, 0)
    assert whole == pytest.approx(0.152128 * 32 * 4 * 4096 * 100 * (100 + 100 / 2) / 989.5e12, rel=0.02)


def test_a_published_law_gives_its_published_means_within_a_tenth() -> None:
    for row in rows(QUICK, share=0.1):
        assert max(map(abs, row.errors)) < 0.1, (row.case.id, row.errors)
