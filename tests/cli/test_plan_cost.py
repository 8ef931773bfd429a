"""`twinlens plan cost` as people call it: one screen, prices with their dates, one sentence for what cannot be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks.published import published
from click.testing import CliRunner, Result

from twinlens.cli.main import app

SERVED = ("--throughput", "4 requests/s")
EVERYTHING = (
    "--buy", "37500 USD", "--device", "H100", "--energy", "0.10 USD/kWh", "--host", "1.5", "--pue", "1.3",
    "--life", "4 years", "--users", "1000", "--uses", "10", "--training", "100M USD", "--requests", "1e9",
    "--revenue", "20 USD/user/month", "--retries", "3%", "--hits", "20%", "--output-weight", "4",
    "--input-tokens", "1000", "--output-tokens", "250",
)  # fmt: skip


def call(*words: str) -> Result:
    return CliRunner().invoke(app, ["plan", "cost", *words])


def test_a_thousand_users_on_one_screen() -> None:
    shown = call(*SERVED, "--rent", "3 USD/h", "--users", "1000", "--uses", "10")
    assert shown.exit_code == 0
    words = " ".join(shown.stdout.split())
    assert words.startswith("A month of 1,000 users costs $2,190: 1 machine, rented and paid all month, busy 2.9 % of")
    assert "At full load a request costs $0.000208" in words
    assert "a month of 1,000 users" in words


def test_all_of_it_is_a_screen_and_why_is_more() -> None:
    shown = call(*SERVED, *EVERYTHING)
    assert shown.exit_code == 0, shown.stderr
    lines = shown.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert len(call(*SERVED, "--rent", "3 USD/h", "--users", "1000").stdout.splitlines()) <= 24
    assert len(call(*SERVED, *EVERYTHING, "--why").stdout.splitlines()) > len(lines)


def test_a_device_has_the_price_of_the_catalogue_with_its_date() -> None:
    shown = call(*SERVED, "--device", "h100-sxm-80gb")
    assert shown.exit_code == 0
    assert "2026-08-19" in shown.stdout
    assert "3.90 USD/h, median of on-demand quotes (1: 3.90 to 3.90; newest 2026-08-19)" in " ".join(
        shown.stdout.split()
    )


def test_prices_of_a_file_carry_their_source(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text('[rent]\nprice = "2-4 USD/h"\ndate = "2026-11"\nsource = "our quote"\n', encoding="utf-8")
    shown = call(*SERVED, "--prices", str(file))
    assert "our quote" in shown.stdout
    rate = json.loads(call(*SERVED, "--prices", str(file), "--json").stdout)["hour"][0]["inputs"][0]["inputs"][0]
    assert (rate["source"], rate["low"], rate["high"]) == ("2026-11: our quote", "2", "4")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[rent]\nprice = "3 USD/h"\nsource = "x"\n', "has no date"),
        ('[rent]\nprice = "3 USD/h"\ndate = "yesterday"\nsource = "x"\n', "is no date"),
        ('[rent]\nprice = "3 USD/month"\ndate = "2026-11"\nsource = "x"\n', "is per month, and this price is per hour"),
        ('[rant]\nprice = "3 USD/h"\n', "did you mean"),
        ("[rent\n", "cannot be read"),
        ("rent = 3\n", "is a table"),
        ('[rent]\nprice = "3 USD/h"\ndate = "2026-11"\nsource = "x"\nperiod = 3\n', "unknown field"),
    ],
)
def test_a_file_of_prices_that_cannot_be_used_is_one_sentence(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "own.toml"
    file.write_text(text, encoding="utf-8")
    _refused(call(*SERVED, "--prices", str(file)), words, "TL234")


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        ((*SERVED, "--rent", "-3 USD/h"), "it is negative", "TL234"),
        ((*SERVED, "--rent", "nan"), "it is no amount", "TL234"),
        ((*SERVED, "--rent", "3/h"), "names no currency", "TL234"),
        ((*SERVED, "--rent", "3 UDS/h"), "did you mean USD", "TL234"),
        ((*SERVED, "--rent", "2190 USD/month"), "2190 USD per month is 3 USD per hour", "TL234"),
        ((*SERVED, "--rent", "3 USD"), "is once, and this price is per hour", "TL234"),
        ((*SERVED, "--buy", "3 USD/h", "--energy", "0.1 USD/kWh"), "is per hour, and this price is once", "TL234"),
        ((*SERVED, "--buy", "9000 USD", "--energy", "0.1 EUR/kWh"), "mixed", "TL234"),
        ((*SERVED, "--buy", "9000 USD"), "draws power: give --energy", "TL234"),
        ((*SERVED, "--buy", "9000 USD", "--energy", "0.1 USD/kWh"), "--power 700W", "TL234"),
        (SERVED, "no price was given", "TL234"),
        ((*SERVED, "--device", "a100-sxm-40gb"), "has no price to rent a100-sxm-40gb (it has reserved-hour)", "TL234"),
        (("--rent", "3 USD/h"), "how fast is it", "TL231"),
        (("--throughput", "4", "--rent", "3 USD/h"), "is no rate", "TL231"),
        (("--throughput", "0 requests/s", "--rent", "3 USD/h"), "above 0", "TL231"),
        (("--throughput", "900 tokens/s", "--rent", "3 USD/h"), "needs --output-tokens", "TL231"),
        ((*SERVED, "--rent", "3 USD/h", "--users", "0"), "--users is from 1 to", "TL231"),
        ((*SERVED, "--rent", "3 USD/h", "--users", "nan"), "is no number", "TL231"),
        ((*SERVED, "--rent", "3 USD/h", "--busy", "40"), "is it in per cent", "TL231"),
        ((*SERVED, "--rent", "3 USD/h", "--busy", "0"), "a share above 0", "TL231"),
        ((*SERVED, "--rent", "3 USD/h", "--buy", "9000 USD"), "say which with --way", "TL231"),
        ((*SERVED, "--rent", "3 USD/h", "--carbon", "400 g/kWh"), "needs --carbon-source", "TL231"),
        ((*SERVED, "--rent", "3 USD/h", "--requests", "5"), "give --training", "TL231"),
        (("--api", "3 USD/M output tokens"), "prices one kind of token", "TL234"),
        (("--api", "3 USD/M tokens"), "needs --input-tokens", "TL231"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_one_sentence(words: tuple[str, ...], said: str, code: str) -> None:
    _refused(call(*(f"{words[at]}={words[at + 1]}" for at in range(0, len(words), 2))), said, code)


def _refused(wrong: Result, said: str, code: str) -> None:
    assert (wrong.exit_code, wrong.stdout) == (2, "")
    assert said in " ".join(wrong.stderr.split())
    assert code in wrong.stderr
    assert "Traceback" not in wrong.stderr


RESULTS = published()


def test_a_measured_run_gives_the_rate_and_its_interval_is_the_band() -> None:
    folder = RESULTS / "2026-11-22-neighbour-epyc-2core"
    found = json.loads(call("--like", str(folder), "--rent", "0.10 USD/h", "--json").stdout)
    request = found["figures"][0]
    assert float(request["low"]) < float(request["value"]) < float(request["high"])
    assert request["level"] == 0.95
    texts = " ".join(each["text"] for each in found["assumptions"])
    assert "has no SLO" in texts
    shown = " ".join(call("--like", str(folder), "--rent", "0.10 USD/h").stdout.split())
    assert "whatever the latency." in shown
    assert "within the SLO" not in shown


def test_a_run_without_requests_gives_no_rate() -> None:
    both = call(
        "--like", str(RESULTS / "2026-11-22-url-epyc-2core"), "--throughput", "4 requests/s", "--rent", "1 USD/h"
    )
    assert both.exit_code == 2
    assert "give one of them" in both.stderr


def test_a_range_of_rates_is_a_band_that_runs_the_other_way() -> None:
    found = json.loads(call("--throughput", "2-6 requests/s", "--rent", "3.6 USD/h", "--json").stdout)["figures"][0]
    assert [round(float(found[end]), 7) for end in ("low", "value", "high")] == [0.0001667, 0.00025, 0.0005]
    wrong = call("--throughput", "6-2 requests/s", "--rent", "3.6 USD/h")
    assert "ends below its start" in wrong.stderr


MODEL = ("--model", "8B", "--device", "H100", "--rent", "3 USD/h")


def test_a_model_and_a_device_are_enough_and_the_cost_has_the_band_of_the_prediction() -> None:
    found = json.loads(call(*MODEL, "--users", "1000", "--json").stdout)
    request = next(each for each in found["figures"] if each["name"] == "request")
    assert 0 < float(request["low"]) < float(request["value"]) < float(request["high"])
    assert request["level"] == 0.9
    hour = 3600 * float(_rate(request)["value"])
    assert float(request["value"]) == pytest.approx(3 / hour)
    shown = " ".join(call(*MODEL, "--users", "1000").stdout.split())
    assert "predicted) within the SLO" in shown
    assert "a month of 1,000 users" in shown
    assert "rented and paid all month" in shown


def test_a_tighter_slo_costs_more() -> None:
    loose, tight = (float(json.loads(call(*MODEL, "--tpot", tpot, "--json").stdout)["figures"][0]["value"])
                    for tpot in ("100ms", "12ms"))  # fmt: skip
    assert tight > 1.2 * loose


def test_a_cost_has_no_upper_end_where_the_slow_end_of_the_band_keeps_no_slo() -> None:
    words = ("--model", "70B", "--device", "B200", "--devices", "2", "--prompt", "31K", "--answer", "512")
    request = json.loads(call(*words, "--json").stdout)["figures"][0]
    assert float(request["low"]) < float(request["value"])
    assert request["high"] is None
    shown = " ".join(call(*words).stdout.split())
    assert "with no upper end" in shown
    assert "no load keeps the SLO, so the cost has no upper end" in shown


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            (*MODEL, "--ttft", "1ms"),
            "no load keeps p99 TTFT within 1.00 ms on 1 × h100-sxm-80gb: a request alone takes",
        ),
        (("--precision", "fp8", "--rent", "3 USD/h"), "add --model"),
        ((*MODEL, "--throughput", "4 requests/s"), "give one of them"),
        ((*MODEL, "--prompt", "500K"), "are more than the 131,072 positions of llama-3.1-8b"),
    ],
)
def test_a_prediction_that_cannot_be_is_one_sentence(words: tuple[str, ...], said: str) -> None:
    _refused(call(*words), said, "TL231")


def test_an_api_is_held_against_what_a_prediction_says_the_machine_serves() -> None:
    words = ("--device", "H100", "--energy", "0.1 USD/kWh", "--api", "0.2 USD/M input tokens + 0.6 USD/M output tokens")
    shown = CliRunner().invoke(app, ["plan", "roi", *words, "--model", "8B", "--json"])
    assert shown.exit_code == 0, shown.stderr
    assert any(each["subject"] == "capacity-work" for each in json.loads(shown.stdout)["notes"])
    refused = CliRunner().invoke(app, ["plan", "roi", *words])
    assert "--model" in refused.stderr


def _rate(figure: dict[str, object]) -> dict[str, object]:
    """The throughput that a cost was computed from."""
    inputs = figure["inputs"]
    assert isinstance(inputs, list)
    found = [each if each["name"] == "throughput" else _rate(each) for each in inputs if "inputs" in each]
    return next((each for each in found if each), {})
