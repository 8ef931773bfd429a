"""search.json beside the runs of a search: what was tried, how each run stood, and the interval they leave."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from twinlens.errors import BadInput
from twinlens.record.codec import decode, encode
from twinlens.record.finding import Finding
from twinlens.record.store import write_json
from twinlens.spec.search import Search
from twinlens.spec.slo import Slo, Standing
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
