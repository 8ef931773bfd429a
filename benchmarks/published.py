"""Runs that docs/results publishes: `published()` unpacks them, a folder for each pack, gone when this process ends.

    python -m benchmarks.published FOLDER…      # packs folders of studies as docs/results/NAME/evidence.zip

A published pack says at which commit it was made, as a version between two releases: its texts are of that day, and
`evidence --verify` then asks of them no more than their checksums. Its figures must follow from its rows for good.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from functools import lru_cache
from pathlib import Path
from unittest.mock import patch

import twinlens as tl
from twinlens.pack.unpacked import unpacked
from twinlens.version import __version__

FOLDER = Path(__file__).parents[1] / "docs" / "results"
PACKS = sorted(FOLDER.glob("*/evidence.zip"))


def published() -> Path:
    """A folder with the published folders of runs, as docs/results names them."""
    return Path(_place().name)


@lru_cache(maxsize=1)
def _place() -> tempfile.TemporaryDirectory[str]:
    place = tempfile.TemporaryDirectory(prefix="twinlens-published-")
    for pack in PACKS:
        with unpacked(pack) as folder:
            (folder / "runs").rename(Path(place.name) / pack.parent.name)
    return place


def publish(study: Path) -> Path:
    """Pack a folder of studies. Raises BadInput."""
    place = FOLDER / study.name
    place.mkdir(exist_ok=True)
    return pack_of(study, place / "evidence.zip")


def pack_of(study: Path, pack: Path) -> Path:
    """Pack with the commit behind the version: what a later commit draws otherwise is not held against it."""
    asked = ["git", "-C", str(FOLDER), "rev-parse", "--short=8", "HEAD"]
    commit = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    with patch("twinlens.api.judging.evidence.__version__", f"{__version__}+{commit}"):
        tl.evidence(study, to=pack)
    return pack


if __name__ == "__main__":
    for given in sys.argv[1:]:
        print(publish(Path(given)))
