"""docs/architecture.md is what the code is: every folder, and every file and name of its walks."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pytest
from benchmarks.sizes import kept, sizes

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "twinlens"
TEXT = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
WALKS, FOLDERS = TEXT.split("## The folders")
ROW = re.compile(r"^\| `([\w/]+)` \| (.+) \|$", re.MULTILINE)
STEP = re.compile(r"`([\w/]+\.py)`(?: \(`(\w+)`\))?")


def first_line(file: Path) -> str:
    return (ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "").partition("\n")[0]


def test_every_folder_is_described_by_the_first_line_of_its_own_docstring() -> None:
    packages = {file.parent: first_line(file) for file in SOURCE.rglob("__init__.py") if file.parent != SOURCE}
    assert dict(ROW.findall(FOLDERS)) == {str(path.relative_to(SOURCE)): line for path, line in packages.items()}


def test_a_folder_is_described_in_one_sentence() -> None:
    for folder, sentence in ROW.findall(FOLDERS):
        assert sentence.endswith("."), folder
        assert not re.match(r"(What|Whether|Who|How|When)\b", sentence), (
            f"{folder}: a noun first, then what is true of it"
        )


def test_no_folder_of_code_lacks_a_package() -> None:
    lacking = {file.parent for file in SOURCE.rglob("*.py")} - {file.parent for file in SOURCE.rglob("__init__.py")}
    assert lacking == set()


@pytest.mark.parametrize(("path", "name"), sorted(set(STEP.findall(WALKS))))
def test_every_step_of_a_walk_is_there(path: str, name: str) -> None:
    text = (SOURCE / path).read_text(encoding="utf-8")
    assert re.search(rf"^\s*(def|class) {name}\b|^{name}\b.*=", text, re.MULTILINE) if name else text


def test_the_layers_shown_are_those_that_are_kept() -> None:
    kept = (ROOT / "pyproject.toml").read_text(encoding="utf-8").split("layers = [\n")[1].split("]")[0]
    assert "\n".join(re.findall(r'"(.+)"', kept)) in TEXT


def test_a_module_says_first_what_it_is_about() -> None:
    """CONTRIBUTING, Sentences: a noun or a verb first, not a clause that lacks one."""
    clause = re.compile(r"(What|Whether|Who|Whose|How|When|Where|Which|Why)\b")
    assert [str(file) for file in SOURCE.rglob("*.py") if clause.match(first_line(file))] == []


def test_no_package_grows_by_more_than_a_tenth_unseen() -> None:
    """`make reference` writes the table; what is larger for good has its decision."""
    before, now = kept(), sizes()
    assert before.keys() == now.keys()
    assert not [
        name
        for name, (lines, files) in now.items()
        if lines > 1.1 * before[name][0] or files > 1.1 * before[name][1] + 1
    ]


MOST_FILES, MOST_LINES, MOST_FOLDERS = 15, 365, 4


def test_a_room_holds_few_files_none_of_them_long_and_no_folder_lies_deep() -> None:
    files = [file for file in SOURCE.rglob("*.py") if file.name != "__init__.py"]
    rooms = Counter(file.parent.relative_to(SOURCE) for file in files)
    assert {str(room): count for room, count in rooms.items() if count > MOST_FILES} == {}
    long = {str(file): lines for file in files if (lines := len(file.read_text("utf-8").splitlines())) > MOST_LINES}
    assert long == {}
    assert [str(room) for room in rooms if len(room.parts) > MOST_FOLDERS] == []
