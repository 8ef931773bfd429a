"""`twinlens plan` as people call it: one screen, JSON that parses, one sentence for what cannot be."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner, Result

from twinlens.cli.main import app

ASKED = ("--model", "70B", "--users", "16", "--context", "32K", "--device", "B200")


def call(*words: str) -> Result:
    return CliRunner().invoke(app, ["plan", *words])


def test_the_question_of_every_newcomer_is_answered_with_its_arithmetic() -> None:
    shown = call("fit", *ASKED)
    assert shown.exit_code == 0
    assert shown.stdout.startswith("No, it does not fit: llama-3.1-70b")
    for words in ("171.8 GB", "16 users × 10.74 GB", "2 × b200-sxm-180gb", "the device is b200-sxm-180gb"):
        assert words in shown.stdout
    assert max(map(len, shown.stdout.splitlines())) <= 80
    whole = call("fit", *ASKED, "--why").stdout
    assert len(whole) > len(shown.stdout)


def test_json_has_every_figure_and_every_sentence() -> None:
    found = json.loads(call("fit", *ASKED, "--json").stdout)
    assert found["fits"] is False
    kv = next(each for each in found["asked"]["needed"]["inputs"] if each["name"] == "kv")
    assert kv["value"] == 171_798_691_840
    assert all(each["text"] for each in [*found["changes"], *found["assumptions"]])


@pytest.mark.parametrize("word", ["capacty", "fits"])
def test_a_verb_of_planning_that_is_none_is_answered_with_one_that_is(word: str) -> None:
    wrong = call(word)
    assert (wrong.exit_code, wrong.stdout) == (2, "")
    assert f"no verb {word!r}" in wrong.stderr


@pytest.mark.parametrize("users", ["0", "nan", "-1", "1.5", "16GB"])
def test_a_count_that_is_none_is_one_sentence(users: str) -> None:
    wrong = call("fit", "--model", "70B", f"--users={users}")
    assert wrong.exit_code == 2
    assert wrong.stderr.startswith("twinlens: --users")
    assert "Traceback" not in wrong.stderr


def test_help_of_planning_loads_nothing_heavy_and_every_verb_explains_itself() -> None:
    code = "import sys; from twinlens.cli.main import app; print({'numpy', 'pydantic'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert "numpy" not in done.stdout
    assert "pydantic" not in done.stdout
    for verb in app.commands["plan"].commands:
        shown = call(verb, "--help")
        assert shown.exit_code == 0
        assert shown.stdout.startswith("Usage: ")


def test_a_plan_of_one_machine_loads_no_numpy_and_its_group_no_verb() -> None:
    """Arrays are of plans that hold many machines against each other, and of runs."""
    code = """
import sys
import twinlens as tl
tl.plan
print([each for each in sys.modules if each.startswith("twinlens.api.plan.") and not each.endswith(".verbs")])
tl.plan.fit("70B", users=16, context="32K", device="B200").document()
print(sorted({"numpy", "psutil", "scipy", "pyarrow", "twinlens.spec.workload.workload"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["[]", "[]"]
