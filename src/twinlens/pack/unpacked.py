"""Run folders of a pack in a folder of their own, for as long as they are read."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from twinlens.errors import BadInput
from twinlens.pack.archive import Archive, Damaged
from twinlens.pack.check import FIGURES
from twinlens.pack.place import PREFIX, fresh_place
from twinlens.pack.run_folder import OF_BURNIN, OF_RUN, OF_STUDY, OF_TURN
from twinlens.pack.sums import UNREADABLE
from twinlens.record.checksum import MARKS

_ROOT = "runs/"
_MOST_BYTES = 4 * 1024**3


def is_of_runs(name: str) -> bool:
    """Whether a file of a pack is a record or rows of a run, a study or a burn-in."""
    file = name.rpartition("/")[2].removesuffix(MARKS)
    return name.startswith(_ROOT) and file in (*OF_RUN, *OF_STUDY, *OF_BURNIN, *OF_TURN, FIGURES)


def runs_of(path: Path) -> Path:
    """The folder of the runs in a pack, unpacked once and gone when this process ends.

    Raises BadInput for what is no pack, and for one without runs.
    """
    seen = path.stat()
    folder = Path(_kept(path.resolve(), seen.st_mtime_ns, seen.st_size).name) / _ROOT
    if not any(folder.glob("**/run.json")):
        raise BadInput(f"{str(path)!r} holds no run: a pack of runs has them in {_ROOT}", code=UNREADABLE)
    return folder


@cache
def _kept(path: Path, mtime_ns: int, size: int) -> tempfile.TemporaryDirectory[str]:
    """A pack as it was at that time: rows are read as they are asked for, so the folder stays."""
    place = fresh_place()
    _unpack(path, Path(place.name))
    return place


@contextlib.contextmanager
def unpacked(path: Path) -> Iterator[Path]:
    """A folder with the records and rows of a pack, and nothing else of it; gone afterwards. Raises BadInput."""
    with fresh_place() as place:
        _unpack(path, Path(place))
        yield Path(place)


def _unpack(path: Path, place: Path) -> None:
    with Archive(path) as archive:
        left = _MOST_BYTES
        for name in archive.names:
            if not is_of_runs(name):
                continue
            to = place / name  # every name of an archive is relative and leads nowhere else
            to.parent.mkdir(parents=True, exist_ok=True)
            try:
                with to.open("xb") as out:
                    for piece in archive.pieces(name):
                        left -= len(piece)
                        if left < 0:
                            raise BadInput(
                                f"the runs of {path} are larger than 4 GiB: unpack it, and `show` them", code=UNREADABLE
                            )
                        out.write(piece)
            except (Damaged, OSError) as error:
                raise BadInput(f"{name} of {path} cannot be unpacked: {error}", code=UNREADABLE) from None


@contextlib.contextmanager
def laid_out(members: Mapping[str, bytes]) -> Iterator[Path]:
    """A folder with these files; gone afterwards. Raises OSError."""
    with tempfile.TemporaryDirectory(prefix=PREFIX) as place:
        for name, data in members.items():
            to = Path(place) / name
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_bytes(data)
        yield Path(place)
