"""The written docs: links lead somewhere, specs are valid, and what is named exists."""

from __future__ import annotations

import re
import shutil
import tomllib
from pathlib import Path

import pytest
from benchmarks.columns import WIDTH, folded, pages
from benchmarks.decisions import decisions, index, rooms
from benchmarks.inputs import kept
from benchmarks.published import PACKS, published
from click.testing import CliRunner

from each import each
from twinlens.api.reference import explain
from twinlens.cli.main import app
from twinlens.executors.protocol import Server, Trainer
from twinlens.executors.registry import capabilities
from twinlens.pack.archive import Archive
from twinlens.pack.sums import SUMS, read_sums, sha256_of_pieces
from twinlens.record.request import REQUEST_SCHEMA
from twinlens.record.samples import COLUMNS
from twinlens.record.step import STEP_SCHEMA
from twinlens.record.store import find_runs
from twinlens.spec.load import load, parse

ROOT = Path(__file__).parents[2]
DOCS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
LINK = re.compile(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)")
FENCE = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
VERBS = set(app.commands)


def _fenced(text: str, language: str) -> list[str]:
    return [body for kind, body in FENCE.findall(text) if kind == language]


@each(DOCS)
def test_every_link_of_the_docs_leads_to_a_file(path: Path) -> None:
    for target in LINK.findall(path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists(), target


@each(pages())
def test_no_line_of_the_docs_is_longer_than_140_letters(path: Path) -> None:
    """Rows of tables, heads and addresses excepted, which Markdown cannot break."""
    text = path.read_text(encoding="utf-8")
    assert folded(text) == text, "run `python -m benchmarks.columns`"
    blocks = re.findall(r"```.*?```", text, re.DOTALL)
    assert [line for block in blocks for line in block.splitlines() if len(line) > WIDTH and "://" not in line] == []


@each(DOCS)
def test_the_docs_name_only_verbs_that_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    named = set(re.findall(r"[`$] ?twinlens ([a-z]+)", text))
    assert named <= VERBS


@each(DOCS)
def test_every_word_the_docs_ask_to_explain_has_a_page(path: Path) -> None:
    for word in re.findall(r'twinlens explain ("[^"]+"|[\w.-]+)', path.read_text(encoding="utf-8")):
        if word != "WORD":
            assert explain(word.strip('"'))


def _options(command: object) -> set[str]:
    """The options of a verb; of a group those of all its verbs."""
    inner = getattr(command, "commands", {}).values()
    return {word for one in command.params for word in one.opts}.union(*map(_options, inner))  # type: ignore[attr-defined]


OPTIONS = {name: _options(command) for name, command in app.commands.items()}


@each(DOCS)
def test_the_console_blocks_give_verbs_only_options_that_they_have(path: Path) -> None:
    for body in _fenced(path.read_text(encoding="utf-8"), "console"):
        for verb, rest in re.findall(r"^\$ twinlens ([a-z]+)(.*)", body, re.MULTILINE):
            given = set(re.findall(r"(?<=\s)--?[a-z][\w-]*", re.split(r" [#|>] ?", rest)[0]))
            assert given <= OPTIONS[verb] | {"-h", "--help"}, (verb, given)


def test_what_the_readme_installs_is_enough_for_what_it_measures() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (installed,) = re.findall(r"pip install 'twinlens\[([\w,-]+)\]'", text)
    for name in set(re.findall(r"twinlens measure ([a-z][\w-]*)", text)):
        kind = load(name).executor.kind
        needed = set(re.findall(r"twinlens\[([\w,-]+)\]", capabilities(kind).install))
        assert needed <= set(installed.split(",")), (name, kind)


@pytest.mark.parametrize("text", _fenced(TUTORIAL, "toml"))
def test_the_specs_of_the_tutorial_are_valid_and_small(text: str) -> None:
    study = parse(tomllib.loads(text))
    assert len(study.runs()) <= 9
    assert study.protocol.steady_s < study.protocol.duration_s


def test_the_tutorial_shows_the_error_that_the_program_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("first.toml").write_text(_fenced(TUTORIAL, "toml")[0], encoding="utf-8")
    lines = next(body for body in _fenced(TUTORIAL, "console") if "modle" in body).splitlines()
    result = CliRunner().invoke(app, lines[0].removeprefix("$ twinlens ").split())
    assert result.exit_code == 2
    assert result.stderr.strip() == lines[1]


def test_decisions_say_their_room_and_their_status_and_the_index_lists_all() -> None:
    found = decisions()
    assert (ROOT / "docs" / "decisions" / "README.md").read_text(encoding="utf-8") == index(), "run `make reference`"
    numbers = [one.number for one in found]
    assert len(set(numbers)) == len(numbers), "a number stands for one decision"
    assert {one.room for one in found} <= set(rooms())
    for one in found:
        assert all(later > one.number and later in numbers for later in one.by), one.name


FRAGMENTS = sorted(path for path in (ROOT / "changelog.d").iterdir() if path.name != "README.md")
KINDS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["towncrier"]["type"]


def test_a_fragment_of_the_changelog_is_one_paragraph_of_a_known_kind() -> None:
    """towncrier leaves out without a word what it cannot read: a kind that is misspelt, an empty file."""
    for path in FRAGMENTS:
        name = re.fullmatch(r"\+[a-z0-9]+(?:-[a-z0-9]+)*\.(\w+)\.md", path.name)
        assert name is not None, f"{path.name}: +WORDS.KIND.md, as changelog.d/README.md says"
        assert name[1] in {kind["directory"] for kind in KINDS}, path.name
        text = path.read_text(encoding="utf-8").strip()
        assert text.endswith((".", ")")), path.name
        assert not re.search(r"\A[-*#]|\n\s*\n", text), f"{path.name}: no dash, no head, no second paragraph"


def test_every_table_that_a_fit_reads_is_listed_with_its_hash_and_its_sources() -> None:
    read = {
        name for path in (ROOT / "benchmarks").rglob("*.py") for name in re.findall(r'"(\w+\.csv)"', path.read_text())
    }
    assert read
    assert read <= set(kept())
    for one in kept().values():
        assert re.fullmatch("[0-9a-f]{64}", one["sha256"])
        assert one["from"]
        assert all(one["from"].values())


def test_the_changelog_has_the_place_where_a_release_is_put_in() -> None:
    place = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["towncrier"]["start_string"]
    assert (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").count(place) == 1


def test_the_index_of_results_is_whole() -> None:
    index = (ROOT / "docs" / "results" / "README.md").read_text(encoding="utf-8")
    for path in (ROOT / "docs" / "results").iterdir():
        assert path.name == "README.md" or f"({path.name}" in index, path.name


def test_the_page_on_formats_names_every_column_on_disk() -> None:
    text = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")
    for name in (*STEP_SCHEMA.names, *REQUEST_SCHEMA.names, *COLUMNS):
        assert f"`{name}`" in text, name


def test_the_page_on_formats_names_every_file_that_is_written() -> None:
    """`schedule.arrow` and the guards of run.json were on disk and on no page."""
    package = ROOT / "src" / "twinlens"
    rooms = [path for room in ("record", "measurement", "reporting") for path in (package / room).rglob("*.py")]
    code = "\n".join(path.read_text(encoding="utf-8") for path in rooms)
    written = set(re.findall(r'"([a-z_]+\.(?:arrows?|json|toml))"', code))
    assert {"schedule.arrow", "steps.arrows", "run.json", "search.json"} <= written
    text = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")
    of_others = {"direct_url.json"}  # pip's, read to tell a package from a wheel
    assert {name for name in written - of_others if name not in text} == set()
    assert "## guards in run.json" in text


@pytest.mark.parametrize("protocol", [Server, Trainer])
def test_the_page_on_executors_shows_the_protocols_as_they_are(protocol: type) -> None:
    text = (ROOT / "docs" / "writing-an-executor.md").read_text(encoding="utf-8")
    shown = text.split(f"class {protocol.__name__}(Protocol):\n")[1].split("\n\n")[0]
    methods = {name for name in vars(protocol) if not name.startswith("_")}
    assert set(re.findall(r"def (\w+)\(", shown)) == methods


@each([body for path in DOCS for body in _fenced(path.read_text("utf-8"), "python")])
def test_the_python_of_the_docs_is_python(text: str) -> None:
    assert compile(text, "docs", "exec")


def test_published_runs_are_there_and_whole() -> None:
    assert PACKS
    assert [pack.parent for pack in PACKS] == sorted((ROOT / "docs" / "results").glob("*/"))
    for folder in published().iterdir():
        assert all(run.is_finished and run.facts is not None for run in find_runs(folder))


@pytest.mark.parametrize("pack", PACKS, ids=lambda path: path.parent.name)
def test_published_runs_come_to_what_stands_beside_them(pack: Path) -> None:
    """From their rows, with today's code: a change of a metric or a verdict shows in `shown.txt` (make shown)."""
    result = CliRunner().invoke(app, ["show", "--all", str(pack)])
    assert sorted(path.name for path in pack.parent.iterdir()) == ["evidence.zip", "shown.txt"], (
        "reading writes nothing"
    )
    assert result.exit_code == 0, result.stderr
    assert result.stdout == (pack.parent / "shown.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("pack", PACKS, ids=lambda path: path.parent.name)
def test_a_published_pack_is_whole_and_every_file_of_it_is_listed(pack: Path) -> None:
    """Figures and texts of a pack are of the version that made it; `shown.txt` is of today."""
    with Archive(pack) as archive:
        sums = read_sums(archive.text(SUMS))
        assert set(sums) == set(archive.names) - {SUMS}
        assert {name: sha256_of_pieces(archive.pieces(name)) for name in sums} == sums


def test_published_runs_name_no_folder_of_whoever_ran_them() -> None:
    said = "".join(path.read_text(encoding="utf-8") for path in published().glob("**/*.json"))
    assert not re.findall(r'"(?:/root|/home|/Users)/[^"]*', said)


def test_the_readme_is_short_and_shows_what_the_command_prints(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.split()) <= 700
    command, *shown = next(body for body in _fenced(text, "console") if "measure --url" in body).rstrip().splitlines()
    assert command.startswith("$ twinlens measure --url ")
    monkeypatch.setenv("COLUMNS", "80")
    folder = tmp_path / "runs"
    shutil.copytree(published() / "2026-11-22-url-epyc-2core", folder)
    printed = CliRunner().invoke(app, ["show", str(folder)]).stdout.splitlines()
    assert [line.rstrip() for line in printed[: len(shown)]] == shown


def test_published_runs_name_no_folder_of_the_machine_they_ran_on() -> None:
    named = re.compile(r"(?<![\w.~])/(?:home/|Users/|root/|(?!opt/)[^\s\"]*/\.venv/)")
    rooms = (ROOT / "docs" / "results", published())
    files = [path for room in rooms for path in room.rglob("*") if path.suffix in (".json", ".toml", ".txt", ".md")]
    assert len(files) > 50
    assert [str(path) for path in files if named.search(path.read_text(encoding="utf-8"))] == []
