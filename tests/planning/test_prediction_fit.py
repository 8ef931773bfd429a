"""Fitting, bands and memory: known constants are found again, and bands hold what they say."""

from __future__ import annotations

import math

import numpy as np
import pytest

from twinlens.planning.prediction.band import band_of, bands, factors, kinds_of, quantile, widening
from twinlens.planning.prediction.calibrate import fit
from twinlens.planning.prediction.constant import Constants, Prior

PRIORS = {"fixed": Prior(1.0, 1.0), "each": Prior(0.1, 1.0)}


def _law(sizes: np.ndarray, logs: np.ndarray) -> np.ndarray:
    return np.exp(logs[:, 0]) + np.exp(logs[:, 1]) * sizes


def test_constants_that_made_the_data_are_found_again_and_factors_go_to_their_group() -> None:
    sizes = np.tile(np.geomspace(1, 1000, 40), 2)
    groups = [("engine:a",)] * 40 + [("engine:b",)] * 40
    truth = np.where(np.arange(80) < 40, 1.0, 2.0) * (3.0 + 0.05 * sizes)
    found = fit(lambda logs: _law(sizes, logs), truth, groups, PRIORS, spread={"engine": 0.5}, noise=0.02)
    said = _law(sizes, found.logs(groups, list(PRIORS)))
    assert np.max(np.abs(said / truth - 1)) < 0.03
    ratio = [math.exp(found.factors["engine:b"][name] - found.factors["engine:a"][name]) for name in PRIORS]
    assert ratio == pytest.approx([2.0, 2.0], rel=0.1)


def test_a_group_that_nobody_measured_gets_the_value_of_all() -> None:
    known = Constants({"fixed": 0.0, "each": 1.0}, {"engine:a": {"fixed": 0.5}})
    assert known.logs([("engine:zz",)], ["each", "fixed"]).tolist() == [[1.0, 0.0]]
    assert known.at(("engine:a",)).fixed == pytest.approx(math.exp(0.5))


def test_one_wild_row_moves_the_constants_little() -> None:
    sizes = np.geomspace(1, 1000, 60)
    truth = 3.0 + 0.05 * sizes
    wild = truth.copy()
    wild[30] *= 50
    found = fit(lambda logs: _law(sizes, logs), wild, [()] * 60, PRIORS, spread={}, noise=0.05)
    assert np.median(np.abs(_law(sizes, found.logs([()] * 60, list(PRIORS))) / truth - 1)) < 0.05


def test_the_conformal_quantile_counts_the_next_one_in() -> None:
    assert quantile(range(1, 100), 0.9) == 90
    assert quantile(range(1, 10), 0.9) == 9
    assert math.isinf(quantile(range(1, 9), 0.9))


def test_a_band_is_never_narrower_than_identical_systems_differ() -> None:
    low, high = factors([0.0] * 200, 0.06)
    assert (low, high) == pytest.approx((1 / 1.06, 1.06))


def test_bands_cover_what_they_were_made_of_and_few_rows_make_none() -> None:
    logs = np.random.default_rng(1).normal(0.1, 0.3, 2000)
    table = bands([float(each) for each in logs], [("tpot",)] * 1990 + [("rare",)] * 10, [0.06] * 2000)
    assert "rare" not in table
    # measured = predicted · exp(−log), so it lies in the band where exp(−log) does.
    inside = (np.exp(-logs) >= table["tpot"]["low"]) & (np.exp(-logs) <= table["tpot"]["high"])
    assert 0.88 < inside.mean() < 0.92


def test_the_closest_kind_of_a_band_comes_first() -> None:
    assert kinds_of("tpot", device=False, engine=True, model=True)[0] == "tpot: unseen device"
    assert kinds_of("tpot", device=True, engine=True, model=True) == ("tpot: seen", "tpot")


def test_a_band_from_few_groups_that_err_together_is_wider() -> None:
    apart = [0.01 * i for i in range(-100, 101) if i]
    together = ["low"] * 100 + ["high"] * 100  # each group errs to its own side
    mixed = [str(i % 4) for i in range(200)]
    alone = factors(apart, 0.0)
    assert math.log(factors(apart, 0.0, groups=together)[1]) > 3 * math.log(alone[1])
    assert factors(apart, 0.0, groups=mixed) == pytest.approx(alone, rel=1e-2)
    assert factors(apart, 0.0, groups=[str(i) for i in range(200)]) == pytest.approx(alone, rel=2e-2)
    # All error is shared by two groups: Student's t with one degree of freedom at 95 %, 6.314 over 1.645.
    assert widening([0.1] * 4, ["a", "a", "b", "b"]) == pytest.approx(6.314 / 1.645, rel=1e-3)


def test_a_question_with_much_noise_moves_constants_less() -> None:
    sizes, truth = np.ones(20), np.concatenate([np.full(10, 2.0), np.full(10, 4.0)])

    def found(noise: np.ndarray) -> float:
        one = {"fixed": Prior(1.0, 1.0)}
        known = fit(lambda logs: np.exp(logs[:, 0]) * sizes, truth, [()] * 20, one, spread={}, noise=noise)
        return math.exp(known.base["fixed"])

    assert found(np.array([0.05] * 10 + [0.5] * 10)) < 2.3 < found(np.array([0.5] * 10 + [0.05] * 10))


def test_several_unseen_things_get_the_widest_of_their_bands() -> None:
    table = {
        "tpot: unseen device": {"low": 0.6, "high": 1.4, "rows": 90},
        "tpot: unseen engine": {"low": 0.5, "high": 1.3, "rows": 80},
        "tpot: unseen model": {"low": 0.7, "high": 1.6, "rows": 70},
        "tpot": {"low": 0.8, "high": 1.2, "rows": 200},
    }
    nothing = band_of(table, kinds_of("tpot", device=False, engine=False, model=False))
    assert (nothing.low, nothing.high, nothing.rows) == (0.5, 1.6, 70)
    assert nothing.kind == "tpot: unseen device and engine and model"
    device = band_of(table, kinds_of("tpot", device=False, engine=True, model=True))
    assert (device.low, device.high, device.rows) == (0.6, 1.4, 90)
