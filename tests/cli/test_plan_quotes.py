"""`twinlens plan quotes`: hand-worked money, axes that are not equivalent, one sentence for what is no quote."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from twinlens.cli.main import app
from twinlens.planning.quotes import cost_of, quotes_answer
from twinlens.spec.money import Quote

HOURS = """name = "hours"
per_device_hour = 2.50
devices = 8
tokens_per_s = 5000
counts = "output"
input_tokens = 1024
output_tokens = 256
utilisation = 0.5
precision = "fp8"
"""
TOKENS = 'name = "tokens"\nper_million_output = 0.60\nper_million_input = 0.10\nprecision = "bf16"\n'


def call(folder: Path, one: str, other: str, *words: str) -> Result:
    for name, text in (("A.toml", one), ("B.toml", other)):
        (folder / name).write_text(text, encoding="utf-8")
    return CliRunner().invoke(app, ["plan", "quotes", str(folder / "A.toml"), str(folder / "B.toml"), *words])


def test_hours_and_tokens_by_hand(tmp_path: Path) -> None:
    """8 × 2.50 × 10⁶ / (3600 × 5000 × 0.5) = 2.2222; 0.60 + 0.10 × 1024 / 256 = 1.0000: 0.45 times."""
    found = json.loads(call(tmp_path, HOURS, TOKENS, "--json").stdout)
    assert [each["cost"]["value"] for each in found["quotes"]] == ["2.2222", "1.0000"]
    assert found["ratio"]["value"] == pytest.approx(0.45, abs=1e-4)
    axes = {each["subject"] for each in found["unlike"]}
    assert axes == {"model", "precision", "context", "slo", "commitment_months", "date", "kind"}
    assert all(each["text"] for each in found["unlike"])


def test_a_throughput_of_all_tokens_is_mostly_of_prompts() -> None:
    """5,000 tokens/s in all at 1,024 in and 256 out are 1,000 of output: five times the money."""
    output = Quote(name="a", per_device_hour=Decimal(2), tokens_per_s=5000.0, counts="output")
    total = Quote(
        name="b", per_device_hour=Decimal(2), tokens_per_s=5000.0, counts="total", input_tokens=1024, output_tokens=256
    )
    assert cost_of(output, 1024, 256).value == Decimal("0.1111")
    assert cost_of(total, 1024, 256).value == Decimal("0.5556")


def test_a_screen_names_what_is_not_equivalent_and_what_is_left_out(tmp_path: Path) -> None:
    shown = call(tmp_path, HOURS, TOKENS, "--input", "2048")
    assert shown.exit_code == 0, shown.stderr
    assert len(shown.stdout.splitlines()) <= 24
    assert max(map(len, shown.stdout.splitlines())) <= 80
    assert "precision: fp8 against bf16" in shown.stdout
    assert "hours was quoted at 1,024 in, 256 out" in " ".join(shown.stdout.split())
    less = call(tmp_path, HOURS, 'name = "less"\nper_million_output = 1\n')
    assert "cannot be held against each other" in less.stdout
    assert "less leaves out per_million_input" in less.stdout
    other = call(tmp_path, TOKENS, TOKENS.replace("precision", 'currency = "EUR"\nprecision'))
    assert "currency: USD against EUR" in other.stdout


@given(st.integers(1, 10**6), st.integers(1, 10**5), st.decimals("0.01", "100", places=2))
def test_a_quote_against_itself_is_even_and_more_input_never_costs_less(put: int, out: int, price: Decimal) -> None:
    quote = Quote(name="a", per_million_output=price, per_million_input=price / 2, model="m")
    assert quotes_answer(quote, quote, put, out).ratio.value == 1
    assert cost_of(quote, put + 1, out).value >= cost_of(quote, put, out).value  # type: ignore[operator]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("name = 'a'\n", "one of the two"),
        (HOURS + "per_million_output = 1\n", "one of the two"),
        (HOURS.replace("2.50", "-2.50"), "per_device_hour"),
        (HOURS.replace("2.50", "nan"), "per_device_hour"),
        (HOURS.replace("0.5", "1.5"), "utilisation"),
        (HOURS + "sla = 'x'\n", "sla"),
        ("name = ", "cannot be read as TOML"),
    ],
)
def test_what_is_no_quote_is_one_sentence(tmp_path: Path, text: str, says: str) -> None:
    wrong = call(tmp_path, text, TOKENS)
    assert (wrong.exit_code, wrong.stdout) == (2, "")
    assert wrong.stderr.startswith("twinlens: ")
    assert says in " ".join(wrong.stderr.split())


@pytest.mark.parametrize(
    "words",
    [
        ("check", "--model", "8B", "--device", "H100"),
        ("method", "--model", "8B", "--device", "H100"),
        ("model", "--models", "8B,70B", "--device", "H100"),
    ],
)
def test_every_verb_of_planning_writes_its_answer_as_a_page(tmp_path: Path, words: tuple[str, ...]) -> None:
    told = CliRunner().invoke(app, ["plan", *words, "-o", str(tmp_path / "plan.html")])
    assert told.exit_code == 0
    assert f"<h1>Plan: {words[0]}</h1>" in (tmp_path / "plan.html").read_text(encoding="utf-8")
