"""A verb's question is one model: command line, Python and table have its fields, and refuse others alike."""

from __future__ import annotations

import inspect
import json
from importlib import import_module
from importlib.resources import files
from typing import Any

import pytest
from click.testing import CliRunner

import twinlens as tl
from twinlens.api.question import option_of, said
from twinlens.cli import table
from twinlens.cli.main import app
from twinlens.errors import BadInput
from twinlens.pages.verbs import verbs

VERBS = [name for name in tl.plan.__all__ if name != "constants"]


def test_the_table_of_commands_is_what_the_questions_say() -> None:
    assert files("twinlens.pages").joinpath("verbs.json").read_text(encoding="utf-8") == table.text(), "make reference"
    assert set(json.loads(table.text())) == {*app.commands, *(f"plan {verb}" for verb in app.commands["plan"].commands)}


@pytest.mark.parametrize("verb", VERBS)
def test_every_field_of_a_question_is_a_keyword_and_an_option(verb: str) -> None:
    asked = import_module(f"twinlens.api.plan.{verb}").VERB
    taken = inspect.signature(getattr(tl.plan, verb)).parameters
    options = {param.name: param for param in app.commands["plan"].commands[verb].params}
    for name, (question, told) in asked.fields().items():
        assert name in taken
        assert name in options
        assert told == option_of(question, name)


@pytest.mark.parametrize(
    ("verb", "words"),
    [
        ("cost", {"throughput": "4 requests/s", "rent": "3 USD/h", "retires": "0.03"}),
        ("roi", {"buy": "37500 USD", "rent": "3 USD/h", "discuont": "0.08"}),
        ("check", {"model": "8B", "device": "H100", "vlots": "230"}),
        ("method", {"model": "8B", "device": "H100", "epoch": "3"}),
        ("fit", {"model": "8B", "contxt": "8K"}),
        ("capacity", {"model": "8B", "device": "H100", "usres": "8"}),
        ("choose", {"model": "8B", "dutty": "8h"}),
        ("model", {"models": "8B,qwen3-8b", "device": "H100", "scroes": "x"}),
        ("checkpoint", {"mtbf": "8h", "sav": "40s"}),
        ("quotes", {"one": "a", "other": "b", "inptu": "1"}),
        ("calibrate", {"devcie": "H100"}),
    ],
)
def test_an_option_that_is_none_is_refused_in_the_same_words_everywhere(verb: str, words: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match=f"plan {verb} has no option --{list(words)[-1]}; did you mean '--") as refused:
        getattr(tl.plan, verb)(**words)
    typed = [
        word for name, value in words.items() if name not in ("one", "other") for word in (f"--{said(name)}", value)
    ]
    done = CliRunner().invoke(app, ["plan", verb, *typed])
    assert done.exit_code == 2
    assert " ".join(done.stderr.split()) == f"twinlens: {refused.value} (twinlens explain TL231)"


def test_every_option_that_help_shows_says_what_it_is() -> None:
    shown = [option for verb in verbs().values() for option in verb.get("options", ()) if not option.get("hidden")]
    assert len(shown) > 300
    assert [option["field"] for option in shown if not option["help"].strip()] == []
