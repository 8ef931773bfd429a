"""`twinlens plan check` as people call it: one screen, JSON that parses, one sentence for what cannot be."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from twinlens.cli.main import app

SERVED = ("--model", "70B", "--device", "H100", "--devices", "8", "--precision", "fp8", "--runtime", "vllm")
TRAINED = ("--model", "8B", "--device", "H100", "--devices", "8", "--train", "full", "--tokens", "2B")
TUTORIAL = (Path(__file__).parents[2] / "docs" / "tutorial.md").read_text(encoding="utf-8")


def call(*words: str) -> Result:
    return CliRunner().invoke(app, ["plan", "check", *words])


@pytest.mark.parametrize(
    "words",
    [
        (*SERVED, "--driver", "550.54", "--hours", "1000"),
        (*TRAINED, "--deadline", "12 h, 18 h"),
        ("--model", "70B", "--device", "B200", "--runtime", "vllm", "--precision", "int8", "--driver", "550"),
        ("--model", "70B", "--device", "gaudi3", "--devices", "8"),
        ("--model", "13B", "--device", "tpu-v5e", "--devices", "4"),
    ],
)
def test_a_check_is_one_screen(words: tuple[str, ...]) -> None:
    shown = call(*words)
    assert shown.exit_code == 0, shown.stderr
    lines = shown.stdout.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert len(call(*words, "--why").stdout) > len(shown.stdout)


def test_what_is_against_it_comes_first_and_what_is_not_known_is_said() -> None:
    wrong = call("--model", "70B", "--device", "B200", "--runtime", "vllm", "--precision", "int8", "--driver", "550")
    assert wrong.stdout.startswith("No, 2 things are against it")
    assert "needs 570.26 or newer" in wrong.stdout
    unknown = call(*SERVED)
    assert unknown.stdout.startswith("Nothing forbids it, and 2 things are not known")
    assert call(*SERVED, "--driver", "570.124").stdout.startswith("Yes, these work together")


def test_json_has_every_figure_with_its_inputs() -> None:
    found = json.loads(call(*TRAINED, "--deadline", "12 h, 18 h", "--json").stdout)
    assert found["passes"] is None
    assert [each["value"] for each in found["time"] if each["name"] == "devices-needed"] == [8, 8]
    assert all(each["inputs"] for each in found["power"])
    assert {each["name"] for each in found["errors"]} >= {"interruptions", "interruption-chance"}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((*SERVED, "--driver", "new"), "is no version"),
        ((*SERVED, "--runtime", "vlm"), "did you mean 'vllm'"),
        ((*SERVED, "--hours", "nan"), "--hours 'nan' is no number"),
        ((*SERVED, "--volts", "0"), "--volts is above 0"),
        ((*SERVED, "--rise", "-5"), "--rise is above 0"),
        ((*SERVED, "--phases", "2"), "--phases '2' is not known"),
        ((*SERVED, "--host-watts", "1 kW"), "leave the unit out"),
        ((*SERVED, "--fast", "10", "--slow", "30"), "--slow 30 is to be below"),
        ((*SERVED, "--tokens", "2B"), "is no option of serving; add --train full, lora or qlora"),
        ((*SERVED, "--link", "nvlink9"), "no link 'nvlink9'"),
        ((*TRAINED, "--deadline", "12"), "write --deadline '12 h'"),
        ((*TRAINED, "--deadline", "0 h"), "write --deadline '12 h'"),
        ((*TRAINED, "--mfu", "40"), "--mfu is above 0 and at most 1"),
        ((*TRAINED, "--mfu", "0.5..0.3"), "ends below its start"),
        ((*TRAINED, "--users", "4"), "--users is no option of training"),
        ((*TRAINED[:-2], "--deadline", "12 h"), "add --tokens"),
        ((*TRAINED[:-1], "many"), "is no number of tokens"),
        ((*SERVED, "--device", "H1000"), "no device"),
        ((*SERVED, "--table", "absent.toml"), "cannot be read as TOML"),
    ],
)
def test_what_cannot_be_is_one_sentence(words: tuple[str, ...], says: str) -> None:
    wrong = call(*words)
    assert (wrong.exit_code, wrong.stdout) == (2, "")
    assert wrong.stderr.startswith("twinlens: ")
    assert says in " ".join(wrong.stderr.split())
    assert "Traceback" not in wrong.stderr


def test_rows_of_ones_own_decide_and_wrong_ones_are_named(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    row = (
        'axis = "runtime-precision"\nverdict = "no"\nsays = "broke\\u001b[31m here"\ndate = "2026-11-01"\nsource = "us"'
    )
    own.write_text(f"[[rule]]\n{row}\n", encoding="utf-8")
    shown = call(*SERVED, "--table", str(own))
    assert shown.stdout.startswith("No, 1 thing is against it")
    assert "\x1b[31m" not in shown.stdout
    for text, says in (
        ("[[rule]]\naxis = 'driver'\n", "rule 1 in own.toml: axis"),
        ("[[rules]]\n", "holds [[rule]] and [[rate]]"),
        ("[[rate]]\ndevice = 'l40s'\n", "rate 1 in own.toml"),
    ):
        own.write_text(text, encoding="utf-8")
        wrong = call(*SERVED, "--table", str(own))
        assert wrong.exit_code == 2
        assert says in " ".join(wrong.stderr.split())


def test_the_commands_of_the_tutorial_run() -> None:
    commands = re.findall(r"^\$ twinlens plan check (.*)$", TUTORIAL, re.MULTILINE)
    assert len(commands) >= 2
    for each in commands:
        assert call(*shlex.split(each)).exit_code == 0, each


def test_a_check_is_of_a_probed_machine_too(tmp_path: Path) -> None:
    file = tmp_path / "probe.json"
    facts = {"accelerator.product": {"value": "NVIDIA H100 80GB HBM3"}, "accelerator.memory_bytes": {"value": 85e9}}
    file.write_text(json.dumps({"executor": facts, "ceilings": [{"kind": "read", "format": "", "value": 3e12}]}))
    shown = CliRunner().invoke(app, ["plan", "check", "--model", "8B", "--probe", str(file)])
    assert shown.exit_code == 0, shown.stderr
    assert "on 1 × this" in " ".join(shown.stdout.split())
    alone = CliRunner().invoke(app, ["plan", "check", "--model", "8B"])
    assert (alone.exit_code, "--probe FILE" in alone.stderr) == (2, True)
