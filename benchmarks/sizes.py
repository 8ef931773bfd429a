"""Lines and files of each package, kept in docs/architecture.md: `python -m benchmarks.sizes` writes them anew."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "architecture.md"
_ROW = re.compile(r"^\| `(\w+)` \| ([\d,]+) \| (\d+) \|$", re.MULTILINE)
_TABLE = re.compile(r"(?<=\n\| package \| lines \| files \|\n\|---\|--:\|--:\|\n)(?:\|.*\n)*")


def sizes() -> dict[str, tuple[int, int]]:
    """Lines and files of each package as they are."""
    found = {}
    for folder in sorted(each.parent for each in (ROOT / "src" / "twinlens").glob("*/__init__.py")):
        files = list(folder.rglob("*.py"))
        found[folder.name] = sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files), len(files)
    return found


def kept() -> dict[str, tuple[int, int]]:
    """The same as the page has them."""
    rows = _ROW.findall(PAGE.read_text(encoding="utf-8"))
    return {name: (int(lines.replace(",", "")), int(files)) for name, lines, files in rows}


if __name__ == "__main__":
    rows = "".join(f"| `{name}` | {lines:,} | {files} |\n" for name, (lines, files) in sizes().items())
    PAGE.write_text(_TABLE.sub(rows, PAGE.read_text(encoding="utf-8")), encoding="utf-8")
