"""The documentation as a site with search: `python -m benchmarks.site` makes its sources, `make docs` the site of them.

The pages are the Markdown of this repository, at the same places, so that their links lead where they do here. Two
things differ: heads of pages go, and links to code lead to the repository. Raises ValueError for a link to nothing.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import tomli_w

from benchmarks.decisions import decisions, rooms
from twinlens.pages import KINDS, find, names

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build" / "docs"
SOURCES, SITE, CONFIG = BUILD / "pages", BUILD / "site", BUILD / "zensical.toml"
REPOSITORY = "https://github.com/twinlens/twinlens"
_HEAD = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
_LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)\s#]+)(#[^)\s]*)?(?=\))")
_CODE = re.compile(r"(^```.*?^```$|`[^`\n]+`)", re.DOTALL | re.MULTILINE)
_SHOWN = {".txt", ".html", ".png", ".json"}


def pages() -> list[Path]:
    """Every page of the site."""
    names = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "changelog.d/README.md", "benchmarks/README.md")
    alone = [ROOT / name for name in names]
    rooms = (ROOT / "docs", ROOT / "src" / "twinlens" / "pages")
    return [*alone, *(path for room in rooms for path in sorted(room.rglob("*.md")))]


def write_sources() -> None:
    """The pages, and the files that they show, under `SOURCES`; and the file that lists them. Raises ValueError."""
    shutil.rmtree(BUILD, ignore_errors=True)
    known = set(pages())
    for page in known:
        to = SOURCES / page.relative_to(ROOT)
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(_linked(page, known), encoding="utf-8")
    (SOURCES / "index.md").write_text(_linked(ROOT / "README.md", known), encoding="utf-8")
    (SOURCES / "README.md").unlink()
    CONFIG.write_text(tomli_w.dumps({"project": _project()}), encoding="utf-8")


def _linked(page: Path, known: set[Path]) -> str:
    """The text of a page with its links as the site needs them."""

    def link(found: re.Match[str]) -> str:
        target = (page.parent / found[1]).resolve()
        if target.is_dir() and target / "README.md" in known:
            return f"{found[1].rstrip('/')}/README.md"
        if target == ROOT / "README.md":
            return f"{found[1].removesuffix('README.md')}index.md"
        if target in known:
            return found[0]
        if not target.exists():
            raise ValueError(f"{page.relative_to(ROOT)} links to {found[1]}, which is not there")
        place = target.relative_to(ROOT)
        if target.suffix not in _SHOWN:
            return f"{REPOSITORY}/tree/main/{place}"
        (SOURCES / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(target, SOURCES / place)
        return found[0]

    parts = _CODE.split(_HEAD.sub("", page.read_text(encoding="utf-8")))
    return "".join(part if number % 2 else _LINK.sub(link, part) for number, part in enumerate(parts))


def _project() -> dict[str, object]:
    """What the generator is told. Nothing comes from elsewhere: no font, no script, no count of stars."""
    return {
        "site_name": "Twinlens",
        "site_description": "Two lenses on AI performance",
        "docs_dir": SOURCES.name,
        "site_dir": SITE.name,
        "use_directory_urls": False,
        "theme": {
            "font": False,
            "features": ["navigation.indexes", "navigation.top", "content.code.copy", "search.highlight"],
            "palette": [
                {"media": "(prefers-color-scheme: light)", "scheme": "default"},
                {"media": "(prefers-color-scheme: dark)", "scheme": "slate"},
            ],
        },
        "plugins": {"search": {}},
        "markdown_extensions": {
            "tables": {},
            "toc": {"permalink": True},
            "pymdownx": {"superfences": {}, "highlight": {}},
        },
        "nav": _contents(),
    }


def _contents() -> list[object]:
    docs = [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "docs").glob("*.md")) if path.stem != "README"]
    results = [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "docs" / "results").glob("*.md"))]
    by_room = {room: [f"docs/decisions/{each.name}" for each in decisions() if each.room == room] for room in rooms()}
    words = [
        {kind.capitalize(): [{find(name).title: f"src/twinlens/pages/{kind}/{name}.md"} for name in names(kind)]}
        for kind in KINDS
    ]
    return [
        "index.md",
        {"Guides": ["docs/README.md", *docs]},
        {"Words and errors": words},
        {"Results": [*results, "benchmarks/README.md"]},
        {"Decisions": ["docs/decisions/README.md", *({room: inside} for room, inside in by_room.items() if inside)]},
        {"Project": ["CONTRIBUTING.md", "CHANGELOG.md", "changelog.d/README.md"]},
    ]


if __name__ == "__main__":
    write_sources()
