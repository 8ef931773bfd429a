"""The explorer: what lies below the folders, by lens, with facets and a search; and folders that mean harm."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from urllib.request import urlopen

import pytest
from multidict import MultiDict

from report_material import training_run
from twinlens.measurement.seal import seal_of
from twinlens.measurement.summary_file import store_summary
from twinlens.web.playground.beside import INTERACTIVE
from twinlens.web.runs.choice import Choice, Entry, choose
from twinlens.web.runs.index import Found, Index
from twinlens.web.runs.row import UNJUDGED, Row, row_of

Copied = Callable[..., Path]


@pytest.fixture(scope="module")
def one_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run, _ = training_run(tmp_path_factory.mktemp("one"), rows=60)
    store_summary(run)
    return run.folder


@pytest.fixture
def copied(one_run: Path, tmp_path: Path) -> Copied:
    """A copy of a run under another name, with changes of its run.json."""

    def copy(name: str, **changes: object) -> Path:
        folder = tmp_path / "runs" / name
        shutil.copytree(one_run, folder)
        record = folder / "run.json"
        record.write_text(json.dumps(json.loads(record.read_text()) | changes))
        return folder

    return copy


def got(url: str) -> str:
    with urlopen(url, timeout=60) as answer:
        assert answer.status == 200
        return str(answer.read().decode())


def test_a_row_has_the_facts_and_the_rate_of_a_summary_that_is_sealed(one_run: Path) -> None:
    row = row_of(str(one_run))
    assert (row.lens, row.model, row.precision, row.executor, row.origin) == (
        "training", "demo-34m", "fp32", "torch", "measured")  # fmt: skip
    assert row.rate.endswith("tokens/s")
    assert "n = " in row.beside
    assert row.validity in ("valid", "provisional")


def test_a_summary_that_somebody_wrote_by_hand_is_not_believed(one_run: Path, copied: Copied) -> None:
    folder = copied("2026-01-01T000000Z_forged")
    summary = folder / "summary.json"
    data = json.loads(summary.read_text())
    data["metrics"]["training_tokens_per_s"]["value"] = 1e9
    summary.write_text(json.dumps(data))
    assert row_of(str(folder)).validity == UNJUDGED
    del data["seal"]
    summary.write_text(json.dumps(data | {"seal": seal_of(data)}))
    assert row_of(str(folder)).rate.startswith("1")  # the seal alone decides


def test_a_run_of_a_chat_is_interactive_and_stands_apart(one_run: Path, copied: Copied) -> None:
    facts = json.loads((one_run / "run.json").read_text())["facts"]
    said = [{"code": INTERACTIVE, "severity": "disqualifies", "numbers": {"requests": 2}}]
    row = row_of(str(copied("2026-01-01T000000Z_chat", facts=facts | {"findings": said})))
    assert (row.origin, row.may_be_compared) == ("interactive", False)
    assert row.why.startswith("interactive")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "cannot be read"),
        ("[1]", "no JSON object"),
        ("[" * 5000, "nested deeper"),
        ('{"schema": 99, "lens": "training"}', "newer Twinlens (schema 99"),
        ('{"schema": 1, "state": "finished"}', "cannot be read"),
        ('{"schema": 1, "state": "finished", "lens": "<b>", "asked": {}}', "none that a run has"),
        ('{"schema": 1, "a": ' + "9" * 5000 + "}", "digits"),
    ],
)
def test_a_record_that_is_none_is_one_sentence(tmp_path: Path, content: str, says: str) -> None:
    (tmp_path / "run.json").write_text(content)
    row = row_of(str(tmp_path))
    assert row.validity == "unreadable"
    assert says in row.why
    assert "\n" not in row.why


def test_a_link_a_pipe_and_a_huge_record_are_not_read(tmp_path: Path) -> None:
    for name in ("link", "pipe", "huge"):
        (tmp_path / name).mkdir()
    secret = tmp_path / "secret"
    secret.write_text("{}")
    (tmp_path / "link" / "run.json").symlink_to(secret)
    os.mkfifo(tmp_path / "pipe" / "run.json")
    with (tmp_path / "huge" / "run.json").open("wb") as file:
        file.truncate(2**30)
    assert "no file" in row_of(str(tmp_path / "link")).why
    assert "no file" in row_of(str(tmp_path / "pipe")).why
    assert "larger than 4 MiB" in row_of(str(tmp_path / "huge")).why


def test_the_index_lists_the_newest_first_follows_no_link_and_sees_what_comes_and_goes(
    tmp_path: Path, copied: Copied, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("twinlens.web.runs.index._FRESH_S", 0.0)
    old, new = copied("2026-01-01T000000Z_a"), copied("2026-02-01T000000Z_b")
    outside = tmp_path / "outside"
    shutil.copytree(old, outside / "2027-01-01T000000Z_elsewhere")
    (tmp_path / "runs" / "up").symlink_to(outside)
    index = Index([tmp_path / "runs"])
    assert [each.name for each in index.listing().runs] == [new.name, old.name]
    shutil.rmtree(new)
    study = tmp_path / "runs" / "2026-03-01T000000Z_study"
    study.mkdir()
    (study / "study.json").write_text("{}")
    inner = copied("2026-03-01T000000Z_study/2026-03-01T000001Z_c")
    listed = index.listing()
    assert [(each.name, each.within) for each in listed.runs] == [(inner.name, study.name), (old.name, "")]
    assert index.listing() is listed or index.listing().runs == listed.runs
    assert index.find("../../etc/passwd") is None


def test_a_folder_inside_another_is_looked_at_once(tmp_path: Path, copied: Copied) -> None:
    run = copied("inner/2026-01-01T000000Z_x")
    listed = Index([tmp_path / "runs" / "inner", tmp_path / "runs"]).listing()
    assert [each.id for each in listed.runs] == [run.name]


def test_names_that_stand_twice_or_hold_other_letters_have_ids_of_plain_letters(tmp_path: Path, copied: Copied) -> None:
    copied("a/2026-01-01T000000Z_x"), copied("b/2026-01-01T000000Z_x"), copied("c/<script>alert(1)<|script>")
    ids = [each.id for each in Index([tmp_path / "runs"]).listing().runs]
    assert len(set(ids)) == 3
    assert all(each.isascii() and not set(each) & set('<>"&?#/ ') for each in ids)


def entry(**facts: str) -> Entry:
    row = Row(**({"lens": "training", "model": "a", "precision": "bf16", "started": "2026-01-01T000000Z"} | facts))
    return Entry(Found(facts.get("model", "a"), "/x/run", "run"), row)


def test_a_facet_counts_what_it_would_add_and_others_count_what_is_left() -> None:
    entries = [entry(), entry(precision="fp32"), entry(model="b"), entry(model="b", lens="inference")]
    chosen = choose(Choice.of(MultiDict([("model", "b")])), entries)
    assert {lens: len(found) for lens, found in chosen.by_lens.items()} == {"training": 1, "inference": 1}
    offers = {offer.name: {value: (count, on) for value, count, on in offer.values} for offer in chosen.offers}
    assert offers["model"] == {"a": (2, False), "b": (2, True)}
    assert offers["precision"] == {"bf16": (2, False)}


def test_a_million_values_of_a_facet_are_counted_and_a_few_offered() -> None:
    chosen = choose(Choice(), (entry(model=f"model {number}") for number in range(5000)))
    offer = next(each for each in chosen.offers if each.name == "model")
    assert len(offer.values) == 12
    assert offer.more == 4988


def test_an_address_says_the_whole_state_and_wrong_words_leave_it_out() -> None:
    query = MultiDict(
        [("model", "a&b"), ("model", "c"), ("q", "x y"), ("lens", "inference"), ("page", "3"), ("zzz", "1")]
    )
    choice = Choice.of(query)
    assert choice.address() == "/runs?model=a%26b&model=c&q=x+y&lens=inference&page=3"
    assert Choice.of(MultiDict([("page", "99999999999999"), ("lens", "both"), ("q", "\x1b[31m")])) == Choice(
        words="[31m"
    )


def test_the_explorer_shows_each_lens_apart_and_says_why_a_run_may_not_be_compared(served, copied: Copied) -> None:  # type: ignore[no-untyped-def]
    good = copied("2026-01-01T000000Z_good")
    copied("2026-01-02T000000Z_half").joinpath("run.json").write_text("{")
    failed = copied("2026-01-03T000000Z_failed", state="failed", error="<img src=x onerror=alert(1)> the disk is full")
    with served(good.parent) as url:
        page = got(f"{url}runs")
        assert '<h2 id="lens-training">' in page
        assert "Cannot be read" in page
        assert "&lt;img src=x onerror=alert(1)&gt; the disk is full" in page
        assert "<img" not in page
        data = json.loads(got(f"{url}runs?as=json"))["runs"]
        assert [each["id"] for each in data["training"]["rows"]] == [failed.name, good.name]
        assert data["training"]["rows"][1]["sustained"]["metric"] == "training_tokens_per_s"
        assert data["unreadable"]["rows"][0]["why"].startswith("its run.json cannot be read")
        assert json.loads(got(f"{url}runs?as=json&validity=nothing"))["runs"] == {}
