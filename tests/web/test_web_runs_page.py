"""A run's page: its report, its rows page by page, labels and notes, and how far it is while it is measured."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import urllib.error
from pathlib import Path
from urllib.parse import urlencode
from urllib.request import Request as Ask
from urllib.request import urlopen

import pytest

from material import command
from report_material import training_run
from twinlens.errors import BadInput
from twinlens.measurement.summary_file import store_summary
from twinlens.record.arrow import RowWriter
from twinlens.record.step import STEP_SCHEMA
from twinlens.record.store import update_run
from twinlens.system.processes import this_process
from twinlens.web.runs.index import Found
from twinlens.web.runs.notes import FILE, MOST_LABELS, Notes, Said
from twinlens.web.runs.rows import PER_PAGE, rows_of


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of two runs, and a run of its own."""
    folder = tmp_path_factory.mktemp("runs")
    study = folder / "2026-01-01T000000Z_study"
    study.mkdir()
    (study / "study.json").write_text("{}")
    for regime in ("bf16", "fp32"):
        run, _ = training_run(study, regime, rows=60)
        store_summary(run)
    return folder


@pytest.fixture(scope="module")
def url(served, place: Path):  # type: ignore[no-untyped-def]
    with served(place) as found:
        yield found


def got(url: str) -> str:
    with urlopen(url, timeout=60) as answer:
        return str(answer.read().decode())


def test_the_page_of_a_study_is_its_report_with_every_point_one_click_from_its_rows(url: str, place: Path) -> None:
    study = next(place.iterdir())
    page = got(f"{url}runs/{study.name}")
    assert 'id="panel-training"' in page
    links = set(re.findall(r'href="/runs/([^"]+)/rows"', page))
    assert links == {each.parent.name for each in study.glob("*/run.json")}
    data = json.loads(got(f"{url}runs/{study.name}?as=json"))
    assert len(data["report"]) == 2


def test_every_figure_of_a_table_is_one_click_from_its_meaning(url: str, place: Path) -> None:
    """A head links to a definition on this page, or to the page of the word."""
    page = got(f"{url}runs/{next(place.iterdir()).name}")
    here = set(re.findall(r'href="#(metric-[^"]+)"', page))
    assert here
    assert here <= set(re.findall(r'id="(metric-[^"]+)"', page))


def test_a_run_that_is_measured_says_how_far_it_is_and_makes_no_report(served, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    run, _ = training_run(tmp_path, rows=60)
    update_run(run.folder, state="running", ended_utc=None, process=this_process())
    with served(tmp_path) as url:
        page = got(f"{url}runs/{run.folder.name}")
        assert "data-renew" in page
        assert re.search(r'rows\?from=\d+">63<', page)  # 60 steps and 3 evaluations, by the checksums
        assert 'id="panel-training"' not in page
        update_run(run.folder, process=this_process() | {"boot": "another"})
        assert "interrupted" in got(f"{url}runs/{run.folder.name}")
        shutil.rmtree(run.folder)
        with pytest.raises(urllib.error.HTTPError, match="404"):
            got(f"{url}runs/{run.folder.name}/rows")


def test_rows_are_paged_by_checksums_without_reading_the_others(tmp_path: Path) -> None:
    with RowWriter(tmp_path / "steps.arrows", STEP_SCHEMA) as writer:
        for number in range(1000):
            writer.add({"begin_ns": number, "end_ns": number + 1, "samples": 1, "tokens": 1, "kind": "step"})
    found = Found("x", str(tmp_path), "run")
    for first in (0, 1, 47, 48, 49, 500, 901, 999):
        shown = rows_of(found, "steps", first)
        column = shown.columns.index("begin_ns")
        assert [row[column] for row in shown.rows] == list(range(first, min(first + PER_PAGE, 1000)))
        assert shown.total == 1000
    assert rows_of(found, "steps", 1000).rows == ()
    assert rows_of(found, "steps", 950).after is None
    path = tmp_path / "steps.arrows"
    with path.open("r+b") as file:  # the first batches are gone: a later page is not touched by that
        file.seek(5000)
        file.write(b"\xff" * 4000)
    assert len(rows_of(found, "steps", 900).rows) == PER_PAGE
    (tmp_path / "steps.arrows.crc32").unlink()
    with pytest.raises(BadInput, match="cannot be read"):
        rows_of(found, "steps", 0)


def test_rows_that_are_none_are_refused_in_a_sentence(url: str, place: Path, tmp_path: Path) -> None:
    run = next(place.glob("*/*/run.json")).parent
    for word in ("-1", "x", "1" * 40):
        with pytest.raises(urllib.error.HTTPError, match="400"):
            got(f"{url}runs/{run.name}/rows?from={word}")
    (tmp_path / "steps.arrows").symlink_to(run / "steps.arrows")
    with pytest.raises(BadInput, match="links are not followed"):
        rows_of(Found("x", str(tmp_path), "run"), "steps", 0)


def test_a_note_is_kept_beside_new_runs_and_shown_as_text(url: str, place: Path) -> None:
    run = next(place.glob("*/*/run.json")).parent
    page = got(f"{url}runs/{run.name}")
    token = re.search(r'name="form_token" value="([^"]+)"', page)
    assert token
    words = {"form_token": token[1], "labels": "good, <b>bold</b>,, good", "note": "see <script>alert(1)</script>"}
    ask = Ask(f"{url}runs/{run.name}/note", urlencode(words).encode(), {"Origin": url.rstrip("/")})
    with urlopen(ask, timeout=60) as answer:
        after = answer.read().decode()
    assert "&lt;b&gt;bold&lt;/b&gt;" in after
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in after
    assert "<script>alert" not in after
    assert json.loads((place / FILE).read_text())["runs"][run.name]["labels"] == ["good", "<b>bold</b>"]
    assert not [each.name for each in run.iterdir() if "note" in each.name]
    rows = json.loads(got(f"{url}runs?as=json&label=good"))["runs"]["training"]["rows"]
    assert [each["id"] for each in rows] == [run.name]


def test_notes_are_bounded_survive_others_and_refuse_a_file_that_is_none(tmp_path: Path) -> None:
    one, other = Notes(tmp_path), Notes(tmp_path)
    one.put("a", ",".join(map(str, range(99))), "x" * 9999)
    other.put("b", "mine", "")
    assert len(one.all()["a"].labels) == MOST_LABELS
    assert len(one.all()["a"].note) == 2000
    assert one.all()["b"] == Said(("mine",), "")
    one.put("a", "", " ")
    assert set(other.all()) == {"b"}
    (tmp_path / FILE).write_text("[1]")
    with pytest.raises(BadInput, match="no file of notes"):
        one.put("a", "x", "")
    assert one.all() == {}


def test_a_report_is_made_by_the_command_itself_which_does_without_pandas(place: Path) -> None:
    run = next(place.glob("*/*/run.json")).parent
    process = subprocess.Popen(command("browse", place, "--port", "0"), stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        address = re.search(r"http://\S+/", process.stderr.readline())
        assert address
        assert 'id="panel-training"' in got(f"{address[0]}runs/{run.name}")
    finally:
        process.terminate()
        process.communicate(timeout=30)
