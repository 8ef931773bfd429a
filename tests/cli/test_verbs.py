"""Verbs as people call them: help, versions, wrong words, `explain` and `list`; and how little they load."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from material import command, training
from twinlens.cli.main import app
from twinlens.version import __version__

VERBS = (
    "demo", "probe", "check", "measure", "tune", "burnin", "new", "show", "diagnose", "compare", "report", "browse",
    "site", "claim", "evidence", "plan", "explain", "list", "simulate", "gateway",
)  # fmt: skip


def call(*words: str | Path) -> Result:
    """A verb in this process: as quick as a function, stdout and stderr apart."""
    return CliRunner().invoke(app, [str(word) for word in words])


def loaded(*words: str) -> set[str]:
    """Top-level modules that a command line loads, seen by the interpreter itself."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *words], capture_output=True, text=True, check=True, timeout=60
    )
    names = re.findall(r"^import time: *\d+ \| *\d+ \| *([\w.]+)$", done.stderr, re.MULTILINE)
    return {name.split(".")[0] for name in names} | set(names)


HEAVY = {"numpy", "scipy", "torch", "transformers", "pyarrow", "pandas", "altair", "vl_convert", "jinja2", "psutil"}


def test_help_and_version_load_nothing_heavy() -> None:
    for word in ("--help", "--version"):
        seen = loaded("-m", "twinlens.cli.main", word)
        assert not seen & HEAVY, word
        assert not seen & {"pydantic", "rich.progress", "rich.table", "rich.markdown"}, word
        assert "click" in seen


def test_a_site_is_up_without_models_numbers_and_consoles(tmp_path: Path) -> None:
    """Until it answers, `browse` loads the HTTP library and its own frame; what pages need comes with them."""
    probe = (
        "import sys; from twinlens.web import server; from twinlens.cli.verb.report import browse\n"
        "server._serve = lambda *_: server.asyncio.sleep(0)\n"
        f"browse('browse', {{'folders': ({str(tmp_path)!r},), 'port': '0'}})\n"
    )
    seen = loaded("-c", probe)
    assert not seen & (HEAVY - {"jinja2"})
    assert not seen & {"pydantic", "rich", "twinlens.gateway.standing", "twinlens.gateway", "importlib.resources"}
    assert "aiohttp" in seen


def test_browse_reads_its_words_as_its_question_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from twinlens.api.page_asked import Browse
    from twinlens.web import server

    seen: list[tuple[list[Path], Path, str, int]] = []
    monkeypatch.setattr(
        server, "browse", lambda folders, out, *, host, port, started: seen.append((list(folders), out, host, port))
    )
    for words, said in (
        ([], {}),
        ([tmp_path, "--out", "there", "--port", "0"], {"folders": (str(tmp_path),), "out": "there", "port": "0"}),
        (["a", "b", "--host", "::1"], {"folders": ("a", "b"), "host": "::1"}),
    ):
        assert call("browse", *words).exit_code == 0
        asked = Browse.read("browse", said)
        assert seen.pop() == ([Path(each) for each in asked.folders], asked.out, asked.host, asked.port)
    assert call("browse", "--port", "70000").exit_code == 2


def test_a_claim_and_a_plan_load_no_rows_and_no_charts() -> None:
    """And what neither of them prints: they compute with Python's own numbers."""
    seen = loaded("-c", "import twinlens.cli.verb.claim, twinlens.api.plan.fit, twinlens.reporting.plan.fit")
    assert not seen & (HEAVY | {"rich.progress", "aiohttp", "asyncio", "twinlens.record.store", "importlib.resources"})
    assert "twinlens.claims.grammar" in seen


def test_importing_the_package_loads_nothing_but_itself() -> None:
    seen = loaded("-c", "import twinlens")
    assert not seen & (HEAVY | {"pydantic", "click", "rich"})
    assert "twinlens.version" in seen


def test_listing_does_not_load_torch() -> None:
    for kind in ("models", "executors", "precisions", "runs"):
        assert not loaded("-m", "twinlens.cli.main", "list", kind) & {"torch", "transformers"}, kind


def test_help_names_every_verb_and_each_explains_itself() -> None:
    whole = call("--help")
    assert whole.exit_code == 0
    assert set(re.findall(r"^  (\w+) +[A-Z]", whole.stdout, re.MULTILINE)) == set(VERBS)
    for verb in VERBS:
        shown = call(verb, "--help")
        assert shown.exit_code == 0
        assert shown.stdout.startswith("Usage: ")
        assert shown.stderr == ""


def test_help_says_each_verb_in_a_whole_sentence_and_where_to_start() -> None:
    for word in ("-h", "--help"):
        shown = call(word).stdout
        assert "..." not in shown.partition("Start here")[2].replace("VERB ...", "")
        assert max(map(len, shown.splitlines())) <= 80
        assert shown.index("Start here:") < shown.index("Measure:") < shown.index("Options:")


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("bench", "'measure'"),
        ("diff", "'compare'"),
        ("shwo", "'show'"),
        ("help", "twinlens --help"),
        ("xyzzy", "known:"),
    ],
)
def test_a_verb_that_is_none_is_answered_with_one_that_is(word: str, says: str) -> None:
    wrong = call(word)
    assert (wrong.exit_code, wrong.stdout) == (2, "")
    assert f"there is no verb {word!r}" in wrong.stderr
    assert says in wrong.stderr


def test_words_of_other_tools_name_verbs_that_are_there_or_are_to_come() -> None:
    from twinlens.cli.commands import _MEANT

    assert set(_MEANT.values()) <= {*VERBS, "new"}
    assert not set(_MEANT) & {*VERBS, "new"}


def test_explain_without_a_word_names_every_page() -> None:
    from twinlens.pages import KINDS, names

    shown = " ".join(call("explain").stdout.split())
    assert [name for kind in KINDS for name in names(kind) if name not in shown] == []


def test_the_version_is_the_packages_own() -> None:
    assert call("--version").stdout == f"twinlens {__version__}\n"


def test_no_verb_shows_help_and_a_wrong_one_is_an_error() -> None:
    assert "Start here:" in call().output
    wrong = call("mesure")
    assert wrong.exit_code == 2
    assert wrong.stdout == ""
    assert "there is no verb 'mesure'; did you mean 'measure'?" in wrong.stderr


@pytest.mark.parametrize(
    "kind", ["kinds", "models", "precisions", "executors", "metrics", "devices", "examples", "fields", "runs"]
)
def test_list_prints_a_table_and_the_same_as_json(kind: str, measured_runs: Path) -> None:
    shown, data = call("list", kind, "--out", measured_runs), call("list", kind, "--out", measured_runs, "--json")
    assert (shown.exit_code, shown.stderr, data.stderr) == (0, "", "")
    rows = json.loads(data.stdout)
    assert rows
    for row in rows:
        first = str(next(iter(row.values())))
        assert first[:20] in shown.stdout, "the first column is never cut away"


def test_list_schema_prints_the_json_schema_of_a_spec_itself() -> None:
    shown = call("list", "schema")
    assert shown.exit_code == 0
    assert json.loads(shown.stdout)["$schema"].startswith("https://json-schema.org/")


def test_list_without_a_kind_names_the_kinds_and_a_wrong_one_the_nearest(tmp_path: Path) -> None:
    assert "precisions" in call("list").stdout
    wrong = call("list", "modles")
    assert (wrong.exit_code, wrong.stdout) == (2, "")
    assert "did you mean 'models'?" in wrong.stderr
    assert call("list", "runs", "--out", tmp_path).stdout == "no runs here\n"


def test_list_runs_shows_unfinished_and_unreadable_ones(tmp_path: Path) -> None:
    from material import spec_of
    from twinlens.record.store import create_run

    create_run(tmp_path, spec_of(training("fake")))
    broken = create_run(tmp_path, spec_of(training("fake")))
    (broken / "run.json").write_text("{")
    rows = json.loads(call("list", "runs", "--out", tmp_path, "--json").stdout)
    assert sorted(row["state"] for row in rows) == ["unfinished", "unreadable"]


@pytest.mark.parametrize("word", ["mfu", "drift", "TL211", "operating point"])
def test_explain_prints_the_page(word: str) -> None:
    done = call("explain", word)
    assert (done.exit_code, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) > 3


def test_explain_of_an_unknown_word_names_the_nearest() -> None:
    done = call("explain", "retension")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "retention" in done.stderr


def test_a_reader_that_goes_away_is_no_error(measured_runs: Path) -> None:
    line = " ".join([*command("list", "metrics", "--json"), "| head -1; echo ${PIPESTATUS[0]}"])
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == ["[", "0"]
    assert done.stderr == ""
