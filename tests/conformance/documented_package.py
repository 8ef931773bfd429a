"""A package that a page of the docs shows whole: its files, put into a folder and installed with pip, word for word."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
_FILE = re.compile(r"```\w+\n# ([\w.]+)\n(.*?)```", re.DOTALL)


def written(page: str, into: Path) -> set[str]:
    """The names of the files that the page shows, which are now in the folder."""
    files = dict(_FILE.findall((DOCS / page).read_text(encoding="utf-8")))
    into.mkdir(exist_ok=True)
    for name, text in files.items():
        (into / name).write_text(text, encoding="utf-8")
    return set(files)


def installed(package: Path, site: Path) -> None:
    """As `pip install` does it, into a folder of its own: no index is asked."""
    words = ["install", "-q", "--no-deps", "--no-build-isolation", "--target", str(site), str(package)]
    done = subprocess.run([sys.executable, "-m", "pip", *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def run(site: Path, cwd: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Python with what is installed in `site`."""
    path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, **variables, "PYTHONPATH": path}
    return subprocess.run([sys.executable, *words], cwd=cwd, env=environment, capture_output=True, text=True)
