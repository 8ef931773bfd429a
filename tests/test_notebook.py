"""A notebook shows what a verb returned as the command line prints it, and nothing of it as markup."""

from __future__ import annotations

import copy
import html
import pickle
from collections.abc import Iterator
from typing import Any

import pytest
from benchmarks.published import published
from click.testing import CliRunner

import twinlens as tl
from twinlens.api.notebook import register
from twinlens.cli.main import app
from twinlens.errors import BadInput
from twinlens.measurement.study import Outcome
from twinlens.record.run import Runs

RESULTS = published()
DEMO = RESULTS / "2026-11-20-epyc-2core"
TRAINING, INFERENCE = sorted(DEMO.glob("*_demo-*"))[:2]


@pytest.fixture
def session() -> Iterator[Any]:
    shell = pytest.importorskip("IPython.core.interactiveshell", reason="IPython is not installed")
    made = shell.InteractiveShell.instance()
    register()
    yield made
    shell.InteractiveShell.clear_instance()


def card(session: Any, value: object) -> str:
    """The text of what a notebook shows of a value."""
    shown = session.display_formatter.format(value, include=["text/html"])[0]["text/html"]
    inside = shown.removeprefix('<pre style="line-height:1.25">').removesuffix("</pre>")
    assert "<" not in inside
    return html.unescape(inside)


def printed(*words: object) -> str:
    done = CliRunner().invoke(app, list(map(str, words)), env={"COLUMNS": "80"})
    return "\n".join(line.rstrip() for line in done.stdout.splitlines())


def test_what_verbs_find_is_shown_as_the_command_line_prints_it(session: Any) -> None:
    compared, diagnosed = tl.compare(TRAINING), tl.diagnose(TRAINING)
    assert card(session, compared).strip() == printed("compare", TRAINING).strip()
    assert card(session, diagnosed).strip() == printed("diagnose", TRAINING).strip()
    sentence = "a 70B model in Q4 does 45 tok/s on 1.79 TB/s"
    assert card(session, tl.claim(sentence)).strip() == printed("claim", sentence).strip()


def test_one_of_several_found_values_is_a_card_by_itself(session: Any) -> None:
    (compared, *_), (diagnosed, *_) = tl.compare(TRAINING), tl.diagnose(TRAINING)
    assert card(session, compared).startswith("Comparable")
    assert diagnosed.run in card(session, diagnosed).partition("\n")[0]
    assert "baseline" in card(session, tl.ledger(TRAINING))


def test_every_result_shows_its_document_and_is_short_at_a_prompt(session: Any) -> None:
    (compared, *_), (diagnosed, *_) = tl.compare(TRAINING), tl.diagnose(TRAINING)
    checked = tl.check("batching")
    (answers,) = tl.answers(TRAINING, to="lens=training,precision=bf16")
    probed = tl.Probe(tl.read(TRAINING)[0].facts.executor, (), "by hand")
    results = [compared, diagnosed, tl.ledger(TRAINING), checked, probed, answers, tl.Checked((), {})]
    for result in results:
        assert len(card(session, result).strip().splitlines()) <= 25
    for result in (*results, tl.compare(TRAINING), tl.diagnose(TRAINING)):
        assert repr(result).count("\n") < 24
        assert len(repr(result)) < 24 * 80


def test_what_was_found_is_a_tuple_that_can_be_copied() -> None:
    found = tl.compare(TRAINING)
    assert isinstance(found, tuple)
    assert copy.copy(found) == pickle.loads(pickle.dumps(found)) == tuple(found)  # noqa: S301


def test_names_from_outside_are_no_markup_in_a_card(session: Any) -> None:
    ruled = tl.claim("a <script>alert</script> 70B model in Q4 does 45 tok/s on 1.79 TB/s")
    assert "script" in card(session, ruled)


def test_runs_are_shown_one_by_one_all_at_once_or_by_their_folder() -> None:
    runs = tl.read(TRAINING)
    assert tl.show(runs) == tl.show(*runs) == tl.show(TRAINING) == tl.show(str(TRAINING))
    both = tl.show(runs, tl.read(INFERENCE)[0])
    assert "training" in both.casefold()
    assert "inference" in both.casefold()
    with pytest.raises(tl.BadInput, match="nowhere"):
        tl.show("nowhere")


def test_runs_are_shown_as_show_prints_them_and_one_that_cannot_be_read_is_named(session: Any) -> None:
    runs = tl.read(TRAINING)
    assert card(session, runs[0]).strip() == tl.show(runs[0]).strip()
    assert card(session, tl.summary(runs[0])).startswith("The one point is provisional.")
    some = Runs(tuple(runs), (BadInput("<script> is no run"),))
    for many in (some, Outcome(runs[0].folder.parent, some, 0, ())):
        shown = card(session, many)
        assert shown.startswith(tl.show(runs).rstrip("\n"))
        assert shown.rstrip().endswith("Left out: <script> is no run")
