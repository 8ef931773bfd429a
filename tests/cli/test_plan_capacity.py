"""`twinlens plan capacity` as people call it: one screen, JSON, a page, and one sentence for what cannot be."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from benchmarks.published import published
from click.testing import CliRunner, Result

from twinlens.cli.main import app
from twinlens.reporting.wording.planned.capacity import NAMES

SERVED = ("--model", "8B", "--device", "H100", "--users", "32", "--prompt", "2K", "--answer", "300", "--tpot", "25ms")
TRAINED = ("--model", "70B", "--train", "full", "--device", "H100", "--devices", "64", "--tensor", "8", "--pipeline",
           "2", "--recompute", "full", "--tokens", "300B", "--within", "60days")  # fmt: skip
RUN = str(published() / "2026-11-21-served-epyc-2core/2026-11-21T211453Z_demo-serving_37ae")


def call(*words: str) -> Result:
    return CliRunner().invoke(app, ["plan", "capacity", *words])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (SERVED, ("prefill", "wait before it", "TPOT", "at most", "takes", "identical systems differ by 6 %")),
        (("--model", "8B", "--device", "H100", "--rate", "1e5"), ("No, the queue has no end", "devices")),
        (TRAINED, ("communication", "pipeline bubble", "recompute", "time to train", "differ by 11 %")),
        (("--like", RUN, "--device", "epyc-9755"), ("measured", "predicted there", "transformers-serve")),
    ],
)
def test_the_first_screen_is_short_and_says_what_it_rests_on(words: tuple[str, ...], said: tuple[str, ...]) -> None:
    shown = call(*words)
    assert shown.exit_code == 0, shown.stderr
    lines = shown.stdout.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    flat = " ".join(shown.stdout.split())
    assert all(each in flat for each in said)


def test_a_long_name_of_a_figure_does_not_touch_its_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(NAMES, "ttft", "time to the first token")
    lines = call(*SERVED).stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert any(re.match(r"time to the first token \S+ ms prefill", line) for line in lines)


def test_json_has_bands_sources_and_sentences() -> None:
    found = json.loads(call(*SERVED, "--json").stdout)
    tpot = next(each for each in found["figures"] if each["name"] == "tpot")
    assert tpot["low"] < tpot["value"] < tpot["high"]
    assert tpot["level"] == 0.9
    assert "rows of" in tpot["source"]
    assert all(each["text"] for each in (*found["remarks"], *found["notes"]))


def test_commands_of_the_tutorial_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (Path(__file__).parents[2] / "docs" / "tutorial.md").read_text(encoding="utf-8")
    commands = [line for line in text.replace("\\\n", "").splitlines() if line.startswith("$ twinlens plan capacity")]
    assert len(commands) == 3
    monkeypatch.chdir(tmp_path)
    for command in commands:
        shown = call(*shlex.split(command)[4:])
        assert shown.exit_code == 0, shown.stderr
    assert (tmp_path / "plan.html").exists()


def test_a_page_is_written(tmp_path: Path) -> None:
    page = tmp_path / "new" / "plan.html"
    assert call(*SERVED, "-o", str(page)).exit_code == 0
    assert page.read_text(encoding="utf-8").count("<svg") == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--model", "8B"), "name a device"),
        (("--model", "8B", "--device", "H100", "--users", "0"), "--users is a count"),
        (("--model", "8B", "--device", "H100", "--tpot", "5"), "--tpot '5' is no time"),
        (("--like", RUN), "is not in the catalogue; name it with --device"),
    ],
)
def test_what_cannot_be_is_one_sentence(words: tuple[str, ...], said: str) -> None:
    wrong = call(*words)
    assert (wrong.exit_code, wrong.stdout) == (2, "")
    assert said in " ".join(wrong.stderr.split())
    assert "Traceback" not in wrong.stderr
