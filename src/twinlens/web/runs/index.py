"""Run folders below the folders of a site, and what each is: names at once, facts as they are needed.

A name begins with a time stamp, so the newest are known before anything is read. Facts are read for what is shown, the
rest by a thread of its own, and kept until their files change. Links are not followed and every count is bounded.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Literal

from aiohttp import web

from twinlens.web.runs.row import Row, Stamp, row_of, stamp_of

MOST_RUNS = 100_000
MOST_FOLDERS = 200_000
MOST_PACKS = 500
MOST_DEPTH = 8
PACK_END = "evidence.zip"
_FRESH_S = 1.0
"""As long as a look at the folders is new enough."""
_SETTLED_NS = 2_000_000_000
"""A folder that changed later than this before it was looked at is looked at again: its time may stand still."""
Kind = Literal["run", "study", "burnin", "tuning", "pack"]
_MARKS: dict[str, Kind] = {"study.json": "study", "burnin.json": "burnin", "ledger.jsonl": "tuning"}


@dataclass(frozen=True, slots=True)
class Found:
    """A folder (or the file of a pack) under the word by which addresses know it. `within`: of its study, "" for none.

    `sort`: its time stamp and name, by which lists are ordered.
    """

    id: str
    path: str
    kind: Kind
    within: str = ""
    sort: str = ""

    @property
    def name(self) -> str:
        return os.path.basename(self.path)


@dataclass(frozen=True, slots=True)
class Listing:
    """What lies below the folders: runs newest first, and all by id. `cut`: why there may be more."""

    runs: tuple[Found, ...]
    packs: tuple[Found, ...]
    by_id: dict[str, Found]
    cut: str = ""


@dataclass(frozen=True, slots=True)
class _Folder:
    mtime_ns: int
    is_settled: bool
    kind: Kind | None
    folders: tuple[str, ...]
    packs: tuple[str, ...]


_RUN = _Folder(0, True, "run", (), ())
_AGAIN_S = 0.1
_PLAIN = re.compile("[A-Za-z0-9._-]+")


class Index:
    """The runs of some folders. Safe in several threads; raises nothing of what lies there."""

    def __init__(self, folders: Iterable[Path]) -> None:
        self._roots = sorted({str(each.resolve()) for each in folders}, key=len)  # one may lie in another
        self._folders: dict[str, _Folder | None] = {}
        self._rows: dict[str, tuple[Stamp, Row]] = {}
        self._lock = threading.Lock()
        self._listing, self._looked_s = Listing((), (), {}), float("-inf")

    def listing(self, fresh_s: float | None = None) -> Listing:
        """What lies there, at most `fresh_s` old; None: a second."""
        with self._lock:
            if time.monotonic() - self._looked_s >= (_FRESH_S if fresh_s is None else fresh_s):
                self._listing = self._look()
                self._looked_s = time.monotonic()
            return self._listing

    def find(self, id: str) -> Found | None:
        """What an address names; None where there is no such thing (any more). No other path is ever made of it.

        Where it is not known, the folders are looked at again: a page may name a run that has just been kept.
        """
        found = self.listing().by_id.get(id) or self.listing(_AGAIN_S).by_id.get(id)
        return found if found is not None and os.path.lexists(found.path) else None

    def kept(self, found: Found) -> Row | None:
        """The row as it was last read, None where it was not."""
        pair = self._rows.get(found.path)
        return pair[1] if pair else None

    def row(self, found: Found) -> Row:
        """The row as it is now: read again where its files changed."""
        stamp, pair = stamp_of(found.path), self._rows.get(found.path)
        if pair is not None and pair[0] == stamp and pair[1].validity != "running":
            return pair[1]
        row = row_of(found.path)
        self._rows[found.path] = (stamp, row)
        return row

    def judge(self, found: Found, row: Row) -> None:
        """Keep a row that was judged from rows and not from a file, until its files change."""
        pair = self._rows.get(found.path)
        if pair is not None:
            self._rows[found.path] = (pair[0], row)

    def unread(self, runs: Sequence[Found]) -> int:
        return sum(each.path not in self._rows for each in runs)

    def _look(self) -> Listing:
        run_paths: list[tuple[str, str]] = []  # and the study it lies in
        others: list[tuple[str, Kind, str]] = []
        todo = [(root, 0, "") for root in reversed(self._roots)]
        seen: dict[str, _Folder | None] = {}
        is_as_before = True
        while todo and len(seen) < MOST_FOLDERS and len(run_paths) < MOST_RUNS:
            path, depth, within = todo.pop()
            if path in seen:
                continue
            folder = seen[path] = self._folder(path, depth)
            is_as_before &= folder is not None and folder is self._folders.get(path)
            if folder is None:
                continue
            if folder.kind == "run":
                run_paths.append((path, within))
                continue
            if folder.kind is not None:
                others.append((path, folder.kind, within))
                within = path
            if len(others) < MOST_PACKS:
                others += [(each, "pack", "") for each in folder.packs]
            todo += [(each, depth + 1, within) for each in folder.folders]
        cut = f"only the first {len(run_paths):,} runs are listed: name a smaller folder" if todo else ""
        if is_as_before:
            return self._listing
        self._folders = seen
        for gone in self._rows.keys() - seen.keys():
            self._rows.pop(gone, None)
        return _listed(run_paths, others, cut)

    def _folder(self, path: str, depth: int) -> _Folder | None:
        """One folder as it is; what was seen of it stands for as long as its time of change does."""
        before = self._folders.get(path)
        if before is not None and before.kind == "run":  # its going changes the folder above
            return before
        try:
            if depth and _is_file(f"{path}/run.json"):
                return _RUN
            now = os.stat(path).st_mtime_ns
            if before is not None and before.is_settled and before.mtime_ns == now:
                return before
            return _read_folder(path, now, deeper=depth < MOST_DEPTH)
        except (OSError, ValueError):
            return None


def _read_folder(path: str, mtime_ns: int, *, deeper: bool) -> _Folder:
    kind: Kind | None = None
    folders, packs = [], []
    with os.scandir(path) as entries:
        for each in entries:
            if each.is_dir(follow_symlinks=False):
                if deeper and not each.name.startswith("."):
                    folders.append(each.path)
            elif not each.is_file(follow_symlinks=False):
                continue
            elif each.name == "run.json":
                kind = "run"
            elif each.name in _MARKS:
                kind = kind or _MARKS[each.name]
            elif each.name.endswith(PACK_END):
                packs.append(each.path)
    return _Folder(mtime_ns, time.time_ns() - mtime_ns > _SETTLED_NS, kind, tuple(folders), tuple(packs))


def _listed(runs: list[tuple[str, str]], others: list[tuple[str, Kind, str]], cut: str) -> Listing:
    """Ids for all: the name of the folder where it is plain and its own, else one with a digest of its path."""
    paths = [*(path for path, _ in runs), *(path for path, _, _ in others)]
    names = [os.path.basename(path) for path in paths]
    counts = Counter(names)
    ids = {path: _id(path, name, counts[name]) for path, name in zip(paths, names, strict=True)}
    found = [
        Found(ids[path], path, "run", ids.get(within, ""), _order(name))
        for (path, within), name in zip(runs, names, strict=False)
    ]
    found.sort(key=attrgetter("sort"), reverse=True)
    beside = [
        Found(ids[path], path, kind, ids.get(within, ""), _order(name))
        for (path, kind, within), name in zip(others, names[len(runs) :], strict=True)
    ]
    packs = tuple(sorted((each for each in beside if each.kind == "pack"), key=lambda each: each.path))
    return Listing(tuple(found), packs, {each.id: each for each in (*found, *beside)}, cut)


def _id(path: str, name: str, count: int) -> str:
    if count == 1 and name != PACK_END and len(name) <= 200 and _PLAIN.fullmatch(name):
        return name
    digest = hashlib.sha256(os.fsencode(path)).hexdigest()[:10]
    kept = "".join(_PLAIN.findall(name))[:80]
    return f"{kept}~{digest}"


def _order(name: str) -> str:
    """Names that begin with a year first, those that do not after them; `reverse` puts the newest on top."""
    return f"1{name}" if name[:4].isdigit() and name[4:5] == "-" else f"0{name}"


def _is_file(path: str) -> bool:
    """Whether there is such an entry and it is no folder; a link or a pipe is one, and its row says so."""
    try:
        return not stat.S_ISDIR(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return False


INDEX = web.AppKey("runs", Index)


def index_of(request: web.Request) -> Index:
    """The runs of the site. Made with the room; `find(id)` is how an address becomes a folder."""
    return request.app[INDEX]
