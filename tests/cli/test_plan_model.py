"""`twinlens plan model`: constraints, the Pareto set, hand-worked cost, and one sentence for what cannot be."""

from __future__ import annotations

import itertools
import json
import re
import shlex
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from twinlens.api.plan.model import model
from twinlens.cli.main import app
from twinlens.planning.models import Told, beats

NAMES = ["8B", "qwen3-8b", "mistral-7b", "gpt-oss-20b"]
ASKED = ("--models", ",".join(NAMES), "--device", "H100", "--users", "16", "--price", "2.50")
TUTORIAL = (Path(__file__).parents[2] / "docs" / "tutorial.md").read_text(encoding="utf-8")


def call(*words: str) -> Result:
    return CliRunner().invoke(app, ["plan", "model", *words])


def scores(folder: Path, text: str) -> str:
    (folder / "scores.csv").write_text(text, encoding="utf-8")
    return str(folder / "scores.csv")


def test_a_choice_is_one_screen_and_json_has_every_figure() -> None:
    shown = call(*ASKED)
    assert shown.exit_code == 0, shown.stderr
    assert len(shown.stdout.splitlines()) <= 24
    assert max(map(len, shown.stdout.splitlines())) <= 80
    assert len(call(*ASKED, "--why").stdout) > len(shown.stdout)
    found = json.loads(call(*ASKED, "--json").stdout)
    assert {each["model"] for each in found["models"]} == {"llama-3.1-8b", *NAMES[1:]}
    assert all(each["tpot"]["low"] < each["tpot"]["value"] < each["tpot"]["high"] for each in found["models"])


def test_cost_of_a_million_answer_tokens_by_hand() -> None:
    """2 devices × $2.50 × 10⁶ / (3600 × answer tokens/s)."""
    for each in model(NAMES, device="H100", devices=2, users=16, price="2.50").answer.candidates:
        exact = 2 * 2.5 * 1e6 / (3600 * float(each.throughput.value or 0))
        assert each.cost.value == Decimal(str(each.cost.value))
        assert float(each.cost.value or 0) == pytest.approx(exact, abs=5.1e-5)


def test_the_pareto_set_is_what_nothing_beats_and_an_order_has_no_cycle() -> None:
    found = model(NAMES, device="H100", users=16)
    assert found.best
    for one, other in itertools.permutations(found.answer.candidates, 2):
        assert not (beats(one, other) and beats(other, one))
        if other.name in found.best:
            assert not beats(one, other)


def test_scores_are_an_axis_and_change_no_speed(tmp_path: Path) -> None:
    plain = model(NAMES, device="H100", users=16, price="2.50")
    file = scores(tmp_path, "model,quality\nllama-3.1-8b,70\nqwen3-8b,90\nmistral-7b,60\ngpt-oss-20b,50\n")
    scored = model(NAMES, device="H100", users=16, price="2.50", scores=file)
    assert "qwen3-8b" in scored.best
    assert "qwen3-8b" not in plain.best
    for one, other in zip(plain.answer.candidates, scored.answer.candidates, strict=True):
        assert (one.tpot, one.throughput, one.cost) == (other.tpot, other.throughput, other.cost)
    first, second = plain.answer.candidates[:2]
    assert not beats(replace(first, told=Told(1.0)), second)


def test_what_breaks_a_constraint_is_out_with_its_reason(tmp_path: Path) -> None:
    file = scores(
        tmp_path, "model,quality,licence,context\nllama-3.1-8b,70,llama3.1,131072\nqwen3-8b,80,apache-2.0,4096\n"
    )
    found = model([*NAMES, "70B", "13B"], device="H100", users=16, scores=file, licence="llama3.1", least_quality=60)
    out = {each.name: [one.subject for one in each.against] for each in found.answer.candidates}
    assert found.best == ("llama-3.1-8b",)
    assert out["qwen3-8b"] == ["licence", "context"]
    assert out["mistral-7b"] == ["not-known", "not-known"]
    assert out["llama-3.1-70b"][0] == "memory"
    assert out["13B"][0] == "not-known"
    none = call(*ASKED, "--most-tpot", "1", "--most-cost", "0.01")
    assert none.stdout.startswith("No model is left")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--models", "8B"), "among two models or more"),
        (("--models", "8B,lama"), "lama"),
        (("--most-tpot", "0"), "--most-tpot is above 0"),
        (("--price", "nan"), "--price is above 0"),
        (("--licence", "mit"), "add --scores"),
        (("--least-quality", "50"), "add --scores"),
        (("--answer", "9000"), "leaves nothing"),
        (("--scores", "absent.csv"), "cannot be read as CSV"),
        (("--users", "0"), "--users"),
    ],
)
def test_what_cannot_be_is_one_sentence(words: tuple[str, ...], says: str) -> None:
    wrong = call(*ASKED, *words)
    assert (wrong.exit_code, wrong.stdout) == (2, "")
    assert wrong.stderr.startswith("twinlens: ")
    assert says in " ".join(wrong.stderr.split())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "needs a line of heads"),
        ("name,score\na,1\n", "needs a line of heads"),
        ("model,quality\n8B,high\n", "line 2: quality 'high'"),
        ("model,quality\n8B,nan\n", "line 2: quality 'nan'"),
        ("model,context\n8B,8K\n", "line 2: context '8K'"),
        ("model\n8B\n8B\n", "line 3: '8B' stands there twice"),
    ],
)
def test_a_file_of_scores_that_is_none_is_one_sentence(tmp_path: Path, text: str, says: str) -> None:
    wrong = call(*ASKED, "--scores", scores(tmp_path, text))
    assert wrong.exit_code == 2
    assert says in " ".join(wrong.stderr.split())


def test_the_commands_of_the_tutorial_run() -> None:
    commands = re.findall(r"^\$ twinlens plan model (.*)$", TUTORIAL, re.MULTILINE)
    assert commands
    for each in commands:
        assert call(*shlex.split(each)).exit_code == 0, each


def test_a_device_without_a_rate_has_no_speed_and_the_screen_says_why(tmp_path: Path) -> None:
    own = (
        'name = "unrated"\nvendor = "x"\nmemory_bytes = 128_000_000_000\nbandwidth_bytes_per_s = 273e9\nsource = "x"\n'
    )
    (tmp_path / "devices.toml").write_text(f"[[device]]\n{own}dense_flop_per_s = {{}}\n")
    asked = ("--models", "8B,qwen3-8b", "--device", "unrated", "--catalogue", str(tmp_path))
    found = call(*asked, "--json")
    assert {each["tpot"]["value"] for each in json.loads(found.stdout)["models"]} == {None}
    shown = " ".join(call(*asked).stdout.split())
    assert "rate in 16 bits or fp32" in shown
