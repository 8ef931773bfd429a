"""`twinlens plan roi` as people call it: one screen, "never" where it is so, one sentence for what cannot be."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from twinlens.cli.main import app

CARD = ("--buy", "37500 USD", "--rent", "3 USD/h", "--energy", "0.12 USD/kWh", "--power", "1365W")


def call(*words: str) -> Result:
    return CliRunner().invoke(app, ["plan", "roi", *words])


def test_buy_or_rent_on_one_screen() -> None:
    shown = call(*CARD, "--fixed", "250 USD/month", "--hours", "8")
    assert shown.exit_code == 0
    lines = shown.stdout.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    whole = " ".join(shown.stdout.split())
    assert whole.startswith("Renting is cheaper by $21,655 over 36 months, with 33 % of the hours used.")
    assert "from month 85.2" in whole
    assert len(call(*CARD, "--hours", "8", "--why").stdout.splitlines()) > len(lines)


def test_a_device_is_bought_and_rented_at_the_prices_of_the_catalogue() -> None:
    shown = call("--device", "H100", "--energy", "0.12 USD/kWh", "--host", "1.5", "--discount", "8%")
    assert shown.exit_code == 0
    assert len(shown.stdout.splitlines()) <= 24
    whole = " ".join(shown.stdout.split())
    for words in ("2026-06-14", "2026-08-19", "no reserved: the catalogue has no current price"):
        assert words in whole


def test_the_page_names_each_figure_in_plain_words(tmp_path: Path) -> None:
    page = tmp_path / "plan.html"
    assert call(*CARD, "--reserved", "2 USD/h", "--months", "12", "-o", str(page)).exit_code == 0
    text = " ".join(page.read_text(encoding="utf-8").split())
    for words in (
        "cost of buying over 12 months", "cost of renting over 12 months", "month from which buying beats renting",
        "share of hours from which buying beats renting over 12 months",
        "share of hours up to which buying beats reserving over 12 months", "rent at which buying pays in 12 months",
    ):  # fmt: skip
        assert words in text
    assert not re.search(r">\s*(buy|rent|reserved|months|share) [a-z]* ?(12|rent|reserved)\s*[<:]", text)


def test_never_is_said() -> None:
    shown = call(*CARD[:5], "9 USD/kWh", *CARD[6:])
    assert "Buying pays against renting never." in " ".join(shown.stdout.split())


def test_json_has_the_tornado_and_the_frontier() -> None:
    found = json.loads(call(*CARD, "--json").stdout)
    assert found["tornado"][0]["name"] in ("buy", "rent")
    assert len(found["frontier"]["rows"]) == len(found["frontier"]["shares"])


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        (("--rent", "2190 USD/month"), "2190 USD per month is 3 USD per hour", "TL234"),
        (("--fixed", "3 USD/h"), "is per hour, and this price is per month", "TL234"),
        (("--warranty", "75 USD/month"), "75 USD per month is 900 USD per year", "TL234"),
        (("--rent", "3 EUR/h"), "mixed", "TL234"),
        (("--rent", "-3 USD/h"), "negative", "TL234"),
        (("--hours", "25"), "at most 24", "TL231"),
        (("--hours", "0"), "above 0", "TL231"),
        (("--busy", "33"), "is it in per cent", "TL231"),
        (("--months", "12,nan"), "is no number", "TL231"),
        (("--months", "0"), "above 0", "TL231"),
        (("--months", "1.5"), "whole months", "TL231"),
        (("--discount", "8"), "is it in per cent", "TL231"),
        (("--finance", "6%"), "--finance-months", "TL231"),
        (("--api", "0.01 USD/request"), "how fast is it", "TL231"),
    ],
)
def test_what_cannot_be_is_one_sentence(words: tuple[str, str], said: str, code: str) -> None:
    wrong = call(*CARD, f"{words[0]}={words[1]}")
    assert (wrong.exit_code, wrong.stdout) == (2, "")
    assert said in " ".join(wrong.stderr.split())
    assert code in wrong.stderr


def test_buying_is_held_against_something() -> None:
    alone = call("--buy", "37500 USD", "--energy", "0.12 USD/kWh", "--power", "700W")
    assert alone.exit_code == 2
    assert "give --rent '3 USD/h', --reserved or --api" in " ".join(alone.stderr.split())
