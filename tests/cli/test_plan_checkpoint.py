"""`twinlens plan checkpoint`: how often to save, by hand, and one sentence for what cannot be answered."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from twinlens.cli.main import app
from twinlens.planning.checkpoint import Span, save_plan
from twinlens.theory.waiting.checkpoint import daly, goodput


def call(*words: str) -> Result:
    return CliRunner().invoke(app, ["plan", "checkpoint", *words])


def figures(*words: str) -> dict[str, dict[str, object]]:
    found = json.loads(call(*words, "--json").stdout)
    return {each["name"]: each for each in found["figures"]}


def test_a_best_interval_by_hand() -> None:
    """δ = 50 s and M = 10,000 s: Young 1000 s, Daly 966.94 s."""
    known = figures("--save", "50s", "--restart", "100s", "--mtbf", "10000s")
    assert known["save-interval"]["value"] == pytest.approx(966.9444, abs=1e-3)
    assert known["young-interval"]["value"] == pytest.approx(1000.0)
    assert known["goodput"]["value"] == pytest.approx(goodput(966.9444, 50, 100, 10_000), rel=1e-6)


def test_failures_of_one_device_are_divided_by_the_devices() -> None:
    known = figures("--save", "50s", "--device-mtbf", "10240000s", "--devices", "1024")
    assert known["young-interval"]["value"] == pytest.approx(1000.0)


def test_spans_give_a_band_that_holds_the_value() -> None:
    known = figures("--save", "40s..60s", "--mtbf", "2h..4h")["save-interval"]
    assert known["low"] == pytest.approx(daly(40, 7200))
    assert known["high"] == pytest.approx(daly(60, 14400))
    assert known["low"] < known["value"] < known["high"]  # type: ignore[operator]


def test_the_screen_says_whether_young_holds() -> None:
    assert "Young's √(2 δ M) would do" in " ".join(call("--save", "40s", "--mtbf", "50h").stdout.split())
    shown = " ".join(call("--save", "40s", "--mtbf", "10min").stdout.split())
    assert "Young's √(2 δ M) does not hold" in shown
    assert "restart" in shown


def test_the_best_is_better_than_half_and_twice() -> None:
    answer = save_plan(
        Span(9, 10, 11, "asked"), Span(5, 5, 5, "asked"), Span(900, 1000, 1100, "asked"), 2.0, 40.0, None
    )
    assert all(answer.kept.number >= each.number for each in answer.beside)
    assert answer.steps is not None
    assert answer.steps.number == round(answer.interval.number / 2.0)
    assert answer.kept_now is not None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--mtbf", "8h"), "the cost of a save is not known"),
        (("--save", "40s"), "give one time between failures"),
        (("--save", "40s", "--mtbf", "8h", "--device-mtbf", "9h"), "give one time between failures"),
        (("--save", "40s", "--device-mtbf", "9h"), "say how many there are"),
        (("--save", "60s..40s", "--mtbf", "8h"), "ends below its start"),
        (("--save", "40", "--mtbf", "8h"), "--save"),
    ],
)
def test_what_cannot_be_answered_is_one_sentence(words: tuple[str, ...], said: str) -> None:
    found = call(*words)
    assert found.exit_code == 2
    assert said in " ".join(found.stderr.split())
    assert "Traceback" not in found.stderr
