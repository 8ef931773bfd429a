"""Amounts that keys have taken of their limits: one SQLite file that all processes of a gateway share."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from functools import lru_cache
from pathlib import Path

from twinlens.errors import BadInput
from twinlens.gateway.limits.budget import Amounts, Limits, room, short_of

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

BUSY, BROKEN = "TL281", "TL282"
_WAIT_S = 2.0
_DAYS_KEPT = 40
_DAY_0 = date(1970, 1, 1).toordinal()
_NEIGHBOURS_S = 5.0
"""Another process may have written at a time that is a little later; a clock that was set back is further away."""
_TABLES = """
CREATE TABLE IF NOT EXISTS minute (
  key TEXT PRIMARY KEY, requests REAL NOT NULL, tokens REAL NOT NULL, at_s REAL NOT NULL);
CREATE TABLE IF NOT EXISTS day (
  key TEXT NOT NULL, day TEXT NOT NULL, money TEXT NOT NULL, PRIMARY KEY (key, day)) WITHOUT ROWID;
"""
_MINUTE = """
INSERT INTO minute VALUES (?1, ?2, ?3, ?4) ON CONFLICT (key) DO UPDATE SET requests = ?2, tokens = ?3,
  at_s = CASE WHEN at_s > ?4 AND at_s < ?4 + ?5 THEN at_s ELSE ?4 END
"""


@dataclass(frozen=True, slots=True)
class Grant:
    """What was taken for a process, `lacks` "" then; else which limit lacks how much, and the seconds until it does
    not (None: never, since no minute and no day has as much)."""

    taken: Amounts
    lacks: str = ""
    wait_s: float | None = None


@contextlib.contextmanager
def holding(path: Path) -> Iterator[None]:
    """One gateway alone has this state, with all its processes. Raises BadInput (TL281) where another has it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("a") as handle:
        try:
            if fcntl is not None:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            sentence = f"another gateway has the state in {path}; end it, or give this one another `out`"
            raise BadInput(sentence, code=BUSY) from None
        yield


class Ledger:
    """The file, as one process sees it. What a minute took is forgotten evenly over a minute; a day's money stays.

    Times are seconds of the wall clock, since the file outlives the machine's start; a clock that goes back forgets
    nothing meanwhile. Raises BadInput (TL282) for a file that is none.
    """

    def __init__(self, path: Path | str) -> None:
        self._path = path
        try:
            self._file = sqlite3.connect(path, timeout=_WAIT_S, isolation_level=None, check_same_thread=False)
            self._file.execute("PRAGMA journal_mode=WAL")
            self._file.execute("PRAGMA synchronous=NORMAL")
            self._file.executescript(_TABLES)
        except sqlite3.Error as error:
            raise BadInput(f"{path} keeps no budgets ({error}); move it away to begin anew", code=BROKEN) from None

    def take(self, key: str, limits: Limits, back: Amounts, need: Amounts, extra_s: float, now_s: float) -> Grant:
        """Give `back` what was left, then take `need`, and of what remains as much as `extra_s` seconds allow.

        Nothing is taken where one of the limits has too little. Raises sqlite3.Error.
        """
        day = day_of(now_s)
        with self._transaction():
            requests, tokens, money = self._taken(key, limits, day, now_s)
            left = limits.minus(max(0.0, requests - back.requests), max(0.0, tokens - back.tokens), money - back.money)
            lacks, wait_s = short_of(limits, left, need, now_s)
            taken = Amounts() if lacks else room(limits, left, need, extra_s)
            self._put(key, day, now_s, limits.taken_of(left, taken))
        return Grant(taken, lacks, wait_s)

    def give_back(self, key: str, limits: Limits, back: Amounts, day: str, now_s: float) -> None:
        """Give back what was not used (below 0: take what was used beyond). Raises sqlite3.Error."""
        with self._transaction():
            requests, tokens, money = self._taken(key, limits, day, now_s)
            requests, tokens = max(0.0, requests - back.requests), max(0.0, tokens - back.tokens)
            self._put(key, day, now_s, (requests, tokens, money - back.money))

    def taken(self, key: str, limits: Limits, now_s: float) -> tuple[float, float, Decimal]:
        """Requests and tokens of this minute and money of this day that are taken, by all processes."""
        return self._taken(key, limits, day_of(now_s), now_s)

    def close(self) -> None:
        self._file.close()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._file.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._file.execute("ROLLBACK")
            raise
        self._file.execute("COMMIT")

    def _taken(self, key: str, limits: Limits, day: str, now_s: float) -> tuple[float, float, Decimal]:
        row = self._file.execute("SELECT requests, tokens, at_s FROM minute WHERE key = ?", (key,)).fetchone()
        requests = tokens = 0.0
        if row is not None:
            requests, tokens, at_s = row
            minutes = max(0.0, now_s - at_s) / 60
            requests = max(0.0, requests - minutes * (limits.requests or requests))
            tokens = max(0.0, tokens - minutes * (limits.tokens or tokens))
        row = self._file.execute("SELECT money FROM day WHERE key = ? AND day = ?", (key, day)).fetchone()
        return requests, tokens, Decimal(row[0]) if row else Decimal(0)

    def _put(self, key: str, day: str, now_s: float, taken: tuple[float, float, Decimal]) -> None:
        requests, tokens, money = taken
        self._file.execute(_MINUTE, (key, requests, tokens, now_s, _NEIGHBOURS_S))
        known = self._file.execute("SELECT 1 FROM day WHERE key = ? AND day = ?", (key, day)).fetchone()
        if known is None:
            oldest = day_of(now_s - timedelta(days=_DAYS_KEPT).total_seconds())
            self._file.execute("DELETE FROM day WHERE day < ?", (oldest,))
        self._file.execute("INSERT OR REPLACE INTO day VALUES (?, ?, ?)", (key, day, str(money)))


def day_of(now_s: float) -> str:
    """The day (UTC) of a time of the wall clock."""
    return _day(int(now_s // 86_400))


@lru_cache(maxsize=8)
def _day(since_1970: int) -> str:
    return date.fromordinal(_DAY_0 + since_1970).isoformat()
