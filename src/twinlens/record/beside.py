"""Files of results beside run.json and study.json: searches, falsifiers that were tried, and profiles.

search.json: what a search tried, how each run stood, and the interval they leave.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from twinlens.errors import BadInput
from twinlens.record.checksum import damaged
from twinlens.record.codec import decode, encode
from twinlens.record.finding import Finding
from twinlens.record.store import now_utc, write_json
from twinlens.spec.slo import Search, Slo, Standing
from twinlens.system.document import read_json
from twinlens.version import __version__

SEARCH_SCHEMA = 1

TrialVerdict = Standing | Literal["invalid", "failed"]
SearchOutcome = Literal["narrow", "unclear", "budget", "none", "all", "invalid", "failed", "running"]
"""The first five are those of `stats.search`. "invalid": the client was the limit; "failed": a run did not finish."""


@dataclass(frozen=True, slots=True)
class Tried:
    """One run of a search: the value it was measured at, how that value stood to the SLO after it and why, and the wall
    time it took.

    `shares`: for each limit, the share of this run's requests within it and how many independent ones that rests on.
    `requests`: how many of it are judged. `gaps_cv`: coefficient of variation of the gaps that were asked for.
    """

    run: str
    value: float
    verdict: TrialVerdict
    label: str
    why: Finding
    took_s: float
    shares: dict[str, tuple[float, int]] = field(default_factory=dict)
    requests: int = 0
    gaps_cv: float = 1.0


@dataclass(frozen=True, slots=True)
class SearchResult:
    """One search: at which point of the sweep, its runs in order, and [low, high) as far as it is known.

    `low`, `high`: of the limit by all runs together; where these say nothing, the highest value that passed below every
    one that failed and the lowest that failed, None where there is none.
    """

    where: dict[str, Any]
    tried: tuple[Tried, ...]
    low: float | None
    high: float | None
    outcome: SearchOutcome
    reason: Finding

    @property
    def is_over(self) -> bool:
        """Whether going on would change nothing: a run that failed is worth another try, an invalid client is not."""
        return self.outcome not in ("running", "failed")


@dataclass(frozen=True, slots=True)
class SearchRecord:
    """All searches of a study, one for each point of its sweep. `folder`: the study's."""

    folder: Path
    search: Search
    slo: Slo
    results: tuple[SearchResult, ...]


def write_search(record: SearchRecord) -> None:
    """Write search.json, whole or not at all."""
    write_json(record.folder / "search.json", search_json(record))


def search_json(record: SearchRecord) -> dict[str, Any]:
    """The content of search.json."""
    return {
        "schema": SEARCH_SCHEMA,
        "twinlens": __version__,
        "search": record.search.model_dump(mode="json"),
        "slo": record.slo.model_dump(mode="json"),
        "found": encode(record.results),
    }


def read_search(folder: Path) -> SearchRecord | None:
    """The searches of a study folder; None where it holds none. Raises BadInput for a file that is broken."""
    path = folder / "search.json"
    try:
        data = read_json(path)
        results = tuple(decode(SearchResult, result) for result in data["found"])
        search, slo = (kind.model_validate_json(json.dumps(data[kind.__name__.lower()])) for kind in (Search, Slo))
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError, ValueError, KeyError, TypeError, AttributeError) as error:
        cause = str(error).splitlines()[0]
        raise BadInput(f"{path} is not a search record ({cause}); restore it or measure again", code="TL205") from None
    assert isinstance(search, Search)
    assert isinstance(slo, Slo)
    return SearchRecord(folder, search, slo, results)


# falsifier.json in a run folder: falsifiers of its diagnosis that were tried by measurement, oldest first.

_FALSIFIER_FILE = "falsifier.json"
GROWN = 1.5  # a batch that grew less was not doubled, whatever was asked for


def tried(folder: Path) -> tuple[Finding, ...]:
    """Those of a run folder; none where none was tried. Raises BadInput (TL205) for a file that cannot be read."""
    path = folder / _FALSIFIER_FILE
    if not path.exists():
        return ()
    try:
        data = read_json(path)
        return tuple(decode(Finding, each) for each in data["tried"])
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise BadInput(f"{path} cannot be read ({error}); remove it, or try again", code="TL205") from None


def keep(folder: Path, finding: Finding) -> None:
    """Write one more of them. Raises BadInput (TL205), and OSError where nothing can be written."""
    write_json(
        folder / _FALSIFIER_FILE, {"schema": 1, "twinlens": __version__, "tried": encode((*tried(folder), finding))}
    )


# instrument.json in a run folder: what an instrument saw when the work of the run was done once more, unranked.
#
# It is no part of the run's own figures, and is linked to it by the hash of the workload that was repeated. It is
# written whole or not at all, with a CRC-32 of what it says, as the rows have.

_PROFILE_FILE = "instrument.json"


@dataclass(frozen=True, slots=True)
class Profile:
    """Seconds by class of kernel for each phase, of `passes` of it that were watched after `warm` that were not.

    `took_s`: all of it, opening the engine too.
    """

    seconds: Mapping[str, Mapping[str, float]]
    passes: Mapping[str, int]
    warm: int
    took_s: float


@dataclass(frozen=True, slots=True)
class Watched:
    """A profile, the hash of the workload that it is of, and when it was made (UTC)."""

    instrument: str
    workload: str
    taken_utc: str
    profile: Profile


def keep_profile(folder: Path, profile: Profile, workload: str) -> Watched:
    """Write it into a run folder, over an earlier one. Raises OSError where nothing can be written."""
    watched = Watched("profiler", workload, now_utc(), profile)
    said = encode(watched)
    write_json(folder / _PROFILE_FILE, {"schema": 1, "twinlens": __version__, "crc32": _crc32(said), "watched": said})
    return watched


def kept_profile(folder: Path) -> Watched | None:
    """What stands in a run folder, None where nothing does. Raises BadInput: TL205 for a file that cannot be read,
    TL220 for one that is not what was written."""
    path = folder / _PROFILE_FILE
    if not path.exists():
        return None
    try:
        data = read_json(path)
        said, crc32 = data["watched"], data["crc32"]
        watched = decode(Watched, said)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise BadInput(
            f"{path} cannot be read ({str(error)[:120]}); remove it, or watch the run again", code="TL205"
        ) from None
    if crc32 != _crc32(said):
        raise damaged(path, "its checksum is not that of what was written")
    return watched


def _crc32(said: Mapping[str, Any]) -> str:
    return f"{zlib.crc32(json.dumps(said, sort_keys=True).encode()):08x}"
