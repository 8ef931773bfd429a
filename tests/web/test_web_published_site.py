"""A static site from small packs: links, escaping, the same bytes again, what is refused, and what is left alone."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import zipfile
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
from markupsafe import escape

import twinlens as tl
from material import called, for_rows, inference, study_of, training
from twinlens.errors import BadInput
from twinlens.pack.archive import write_archive
from twinlens.pack.sums import SUMS, sums_text
from twinlens.web.published import worker
from twinlens.web.published.folder import fresh_site
from twinlens.web.published.packs import slugs
from twinlens.web.published.pages import _templates

NAME = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def packs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two packs of both lenses by two people, the same runs by a third with script for a name, and two bad files."""
    at, twice = tmp_path_factory.mktemp("packs"), {"repeats": 2} | for_rows(40)
    for name in ("first", "second"):
        runs = tmp_path_factory.mktemp("runs")
        for spec in (training("fake", protocol=twice), inference("fake", protocol=twice)):
            tl.measure(study_of(spec), runs, watch=None)
        (at / name).mkdir()
        tl.evidence(runs, to=at / name / "evidence.zip", name=f"The {name}")
    tl.evidence(runs, to=at / "again.zip", name=NAME, organisation="'\"><img src=x onerror=alert(1)>")
    (at / "no-zip.zip").write_bytes(b"half a fi")
    with zipfile.ZipFile(at / "first" / "evidence.zip") as old, zipfile.ZipFile(at / "changed.zip", "w") as new:
        for each in old.namelist():
            new.writestr(each, old.read(each) + (b" " if each.endswith("steps.arrows") else b""))
    return at


@pytest.fixture(scope="module")
def made(packs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "site"
    found = tl.site(packs, to=folder)
    assert [pack.name for pack in found.shown] == ["again", "second", "first"], found.refused
    assert [pack.name for pack in found.refused] == ["changed", "no-zip"]
    assert found.pages == len(list(folder.rglob("*.html")))
    return folder


@pytest.mark.slow
def test_a_burn_in_has_its_verdict_before_its_runs(tmp_path: Path) -> None:
    with zipfile.ZipFile(Path(__file__).parents[2] / "docs" / "results" / "burn-in.zip") as old:
        old.extractall(tmp_path / "old")
    (burnin,) = (tmp_path / "old" / "runs").iterdir()
    (tmp_path / "packs").mkdir()
    tl.evidence(burnin, to=tmp_path / "packs" / "accepted.zip")
    tl.site(tmp_path / "packs", to=tmp_path / "site")
    page = Links(tmp_path / "site" / "packs" / "accepted" / "index.html")
    text = (tmp_path / "site" / "packs" / "accepted" / "index.html").read_text("utf-8")
    assert (
        text.index('id="verdict">Burn-in<')
        < text.index("9 criteria: 6 insufficient, 3 met")
        < text.index('id="points"')
    )
    assert len(page.anchors) == len(set(page.anchors))
    assert "#verdict" in page.to


class Links(HTMLParser):
    """What a page refers to, its anchors, and every tag with its attributes."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.to: list[str] = []
        self.anchors: list[str] = []
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.feed(page.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = {name: value or "" for name, value in attrs}
        self.tags.append((tag, known))
        self.to += [known[name] for name in ("href", "src") if name in known]
        self.anchors += [known["id"]] if "id" in known else []


def test_every_link_is_relative_and_leads_to_a_file_and_an_anchor_that_are_there(made: Path) -> None:
    pages = {page: Links(page) for page in made.rglob("*.html")}
    count = 0
    for page, links in pages.items():
        assert len(links.anchors) == len(set(links.anchors)), page
        for link in links.to:
            if link == "data:,":
                continue
            assert not re.match(r"[a-z]+:|/", link), f"{page}: {link}"
            path, _, anchor = unquote(link).partition("#")
            target = (page.parent / path).resolve() if path else page
            assert target.is_file(), f"{page}: {link}"
            assert target.is_relative_to(made.resolve())
            assert not anchor or anchor in pages[target].anchors, f"{page}: {link}"
            count += 1
    assert count > 100


def test_nothing_of_a_pack_becomes_markup_and_no_page_has_script_of_its_own(made: Path) -> None:
    for page in made.rglob("*.html"):
        text = page.read_text("utf-8")
        assert NAME not in text
        for tag, attributes in Links(page).tags:
            assert tag not in ("img", "iframe", "object", "base"), page
            assert not any(name.startswith("on") for name in attributes), page
            assert tag != "script" or attributes.get("src", "").endswith("find.js"), page
        assert "script-src 'self'; style-src 'self'" in text
    assert str(escape(NAME)) in (made / "packs" / "again" / "index.html").read_text("utf-8")


def test_the_same_packs_give_the_same_bytes_and_the_old_site_gives_way(made: Path, packs: Path, tmp_path: Path) -> None:
    moved = shutil.copytree(packs, tmp_path / "moved")
    other = tmp_path / "site"
    other.mkdir()
    (other / "site.json").write_text('{"twinlens_site": 1}')
    (other / "old.html").write_text("old")
    tl.site(moved, to=other)
    assert {page.relative_to(other) for page in other.rglob("*")} == {
        page.relative_to(made) for page in made.rglob("*")
    }
    for page in made.rglob("*"):
        if page.is_file():
            assert page.read_bytes() == (other / page.relative_to(made)).read_bytes(), page
    assert sorted(each.name for each in tmp_path.iterdir()) == ["moved", "site"]


def test_a_pack_that_fails_its_check_is_listed_with_the_reason_and_without_a_figure(made: Path) -> None:
    index = (made / "index.html").read_text("utf-8")
    refused = index.partition('id="refused"')[2].partition("<h2")[0]
    assert "2 packs failed the check" in refused
    assert "changed" in refused
    assert "steps.arrows" in refused
    assert "no-zip.zip is no zip file" in refused
    assert not (made / "packs" / "changed").exists()
    data = json.loads((made / "site.json").read_text())
    assert [each["pack"] for each in data["packs"]] == ["again", "first", "second"]
    assert [each["pack"] for each in data["refused"]] == ["changed", "no-zip"]
    assert "/tmp" not in json.dumps(data)


def test_lenses_never_share_a_table_and_a_copy_of_runs_is_no_second_measurement(made: Path) -> None:
    training_page, inference_page = ((made / f"{lens}.html").read_text("utf-8") for lens in ("training", "inference"))
    assert "2 points of 2 packs, training alone" in training_page
    assert "2 points of 2 packs, inference alone" in inference_page
    assert "output tokens/s" not in training_page
    assert "and 1 more pack of the same runs" in training_page
    assert "against the first" in training_page
    assert "n = 2" in training_page.replace("\N{NO-BREAK SPACE}", " ")


def test_each_point_leads_to_its_rows_and_the_pack_is_the_one_that_was_given(made: Path, packs: Path) -> None:
    page = (made / "packs" / "first" / "index.html").read_text("utf-8")
    assert 'href="rows.html#run-1"' in page
    assert "evidence.zip" in page
    assert (made / "packs" / "first" / "evidence.zip").read_bytes() == (packs / "first" / "evidence.zip").read_bytes()
    rows = (made / "packs" / "first" / "rows.html").read_text("utf-8")
    assert "steps.arrows" in rows
    assert "The first 10 of " in rows
    assert "The key" not in page
    assert "nobody signed it" in page


def test_processes_of_their_own_read_the_same_and_one_that_dies_costs_its_pack(
    packs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "_started", _killed_after(worker._started, 1))
    monkeypatch.setattr(worker.os, "cpu_count", lambda: 1)
    monkeypatch.setattr(worker, "_FEW", 1)
    files = {"a": packs / "first" / "evidence.zip", "b": packs / "second" / "evidence.zip"}
    (tmp_path / "of").mkdir()
    told = worker.read_all(files, tmp_path / "of")
    assert told["a"]["findings"][0]["numbers"]["why"].startswith("reading it ended the process")
    assert told["b"] == json.loads(json.dumps(worker.read_pack(files["b"], tmp_path / "here")))


def _killed_after(start, count):  # type: ignore[no-untyped-def]
    started = []

    def killed():  # type: ignore[no-untyped-def]
        process = start()
        started.append(process)
        if len(started) <= count:
            process.kill()
        return process

    return killed


def test_enemies_are_listed_with_a_reason_each_and_nothing_else_is_read(packs: Path, tmp_path: Path) -> None:
    at, good = tmp_path / "packs", packs / "first" / "evidence.zip"
    at.mkdir()
    _changed(good, at / "newer.zip", "run.json", b'"schema": 1', b'"schema": 99')
    _changed(good, at / "deep.zip", "run.json", b"{", b"[" * 10_000 + b"{")
    _changed(good, at / "better.zip", "figures.json", b'"value": ', b'"value": 9')
    with zipfile.ZipFile(at / "climbs.zip", "w") as file:
        file.writestr("../x", b"1")
    with zipfile.ZipFile(at / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("SHA256SUMS", b"0" * (33 << 20))
    os.mkfifo(at / "fifo.zip")
    (at / "folder.zip").mkdir()
    (at / "link.zip").symlink_to(good)
    (at / "<b onclick=alert(1)>.zip").write_bytes(good.read_bytes())
    made = tl.site(at, to=tmp_path / "site")
    reasons = {pack.name: str(pack.checked.findings[0].numbers) for pack in made.refused}
    assert set(reasons) == {"newer", "deep", "better", "climbs", "bomb", "fifo", "folder"}
    for name, why in (("newer", "schema 99"), ("deep", "nested"), ("better", "computed as"), ("climbs", "leads out"),
                      ("bomb", "32 MiB"), ("fifo", "no file"), ("folder", "no file")):  # fmt: skip
        assert why in reasons[name]
        assert str(tmp_path) not in reasons[name]
    assert [pack.name for pack in made.shown] == ["<b onclick=alert(1)>"]
    assert "<b onclick" not in (tmp_path / "site" / "index.html").read_text("utf-8")
    assert len(list((tmp_path / "site" / "packs").iterdir())) == 1


def _changed(pack: Path, to: Path, end: str, old: bytes, new: bytes) -> None:
    """The pack with something else in its first file of a name, and checksums that fit."""
    with zipfile.ZipFile(pack) as file:
        members = {name: file.read(name) for name in file.namelist()}
    which = next(name for name in members if name.endswith(end))
    members[which] = members[which].replace(old, new, 1)
    hashes = {name: hashlib.sha256(data).hexdigest() for name, data in members.items() if name != SUMS}
    write_archive(to, {**members, SUMS: sums_text(hashes).encode()})


def test_a_folder_that_is_no_site_stays_and_a_site_stays_until_the_next_is_whole(packs: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years")
    for where, why in (("mine", "other things"), ("mine/thesis.txt", "is a file"), ("nowhere/site", "no folder")):
        said = called("site", packs / "first", "-o", tmp_path / where)
        assert said.exit_code == 2
        assert why in said.stderr
        assert "TL274" in said.stderr
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years"
    site = tmp_path / "site"
    site.mkdir()
    (site / "site.json").write_text('{"twinlens_site": 1}')
    with pytest.raises(KeyError), fresh_site(site):
        raise KeyError
    assert [each.name for each in site.iterdir()] == ["site.json"]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["mine", "site"]


@pytest.mark.parametrize("given", [(), ("no-such.zip",)])
def test_no_pack_is_one_sentence(given: tuple[str, ...], tmp_path: Path) -> None:
    with pytest.raises(BadInput):
        tl.site(*given, to=tmp_path / "site")
    assert not (tmp_path / "site").exists()


def test_names_become_files_that_no_two_packs_share() -> None:
    made = slugs(["a", "A", "a", "../../etc", "con fig", "é", "é", ""])
    assert len(set(made)) == len(made)
    assert made[0] == "a"
    assert all(re.fullmatch(r"[a-z0-9][a-z0-9._+@=-]*", each) for each in made)


def test_a_site_escapes_what_its_templates_are_given() -> None:
    assert str(_templates().from_string("{{ name }}").render(name=NAME)) == str(escape(NAME))
