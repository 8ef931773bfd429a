"""The choice of runs by an address: facets, words, lens, page; and what that leaves, with counts of all else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import attrgetter
from urllib.parse import urlencode

from multidict import MultiMapping

from twinlens.reporting.display import clean
from twinlens.web.runs.index import Found
from twinlens.web.runs.row import Row

FACETS = {
    "model": "Model",
    "precision": "Precision",
    "executor": "Executor",
    "machine": "Machine",
    "date": "Date",
    "validity": "Validity",
    "origin": "Origin",
    "label": "Label",
}
LENSES = ("training", "inference", "collective", "unreadable")
SHOWN = 12
"""Values of a facet that are offered; the rest is counted, and the search finds it."""
_MOST_VALUES, _MOST_WORDS, _MOST_PAGE = 20, 200, 100_000


@dataclass(frozen=True, slots=True)
class Entry:
    """A run of the list with what its user said of it."""

    found: Found
    row: Row
    labels: tuple[str, ...] = ()
    note: str = ""

    def has(self, facet: str, chosen: frozenset[str]) -> bool:
        return not chosen.isdisjoint(_VALUES[facet]((self,)))

    @property
    def lens(self) -> str:
        return self.row.lens or "unreadable"


@dataclass(frozen=True, slots=True)
class Choice:
    """The state of the explorer, all of it in its address. `lens`: "" for all, each in a table of its own."""

    chosen: Mapping[str, frozenset[str]] = field(default_factory=dict)
    words: str = ""
    lens: str = ""
    page: int = 1
    is_oldest_first: bool = False

    @classmethod
    def of(cls, query: MultiMapping[str]) -> Choice:
        """What a query says, unknown and wrong words left out."""
        named = {facet: frozenset(query.getall(facet, ())[:_MOST_VALUES]) for facet in FACETS}
        lens, page = query.get("lens", ""), query.get("page", "1")
        return cls(
            {facet: values for facet, values in named.items() if values},
            clean(query.get("q", ""), _MOST_WORDS),
            lens if lens in LENSES else "",
            min(max(int(page), 1), _MOST_PAGE) if page.isascii() and page.isdecimal() and len(page) < 7 else 1,
            query.get("order") == "oldest",
        )

    def address(self, **changes: object) -> str:
        """The address of this state with changes: what no change names stays."""
        made = replace(self, **changes)  # type: ignore[arg-type]
        pairs = [(facet, value) for facet, values in made.chosen.items() for value in sorted(values)]
        pairs += [("q", made.words)] if made.words else []
        pairs += [("lens", made.lens)] if made.lens else []
        pairs += [("order", "oldest")] if made.is_oldest_first else []
        pairs += [("page", str(made.page))] if made.page > 1 else []
        return "/runs" + (f"?{urlencode(pairs, errors='replace')}" if pairs else "")

    @property
    def is_open(self) -> bool:
        """Whether it leaves every run in."""
        return not self.chosen and not self.words


@dataclass(frozen=True, slots=True)
class Offer:
    """A facet with its values as they are offered: value, how many runs have it, whether it is chosen."""

    name: str
    label: str
    values: tuple[tuple[str, int, bool], ...]
    more: int


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a choice leaves, by lens, in order; and the facets, each counted as if nothing of it were chosen."""

    by_lens: Mapping[str, Sequence[Entry]]
    offers: tuple[Offer, ...]


def _of_row(facet: str) -> Callable[[Sequence[Entry]], Iterable[str]]:
    value = attrgetter(f"row.{facet}")
    return lambda entries: map(value, entries)


_VALUES: dict[str, Callable[[Sequence[Entry]], Iterable[str]]] = {facet: _of_row(facet) for facet in FACETS} | {
    "date": lambda entries: [each.row.started[:10] or "not known" for each in entries],
    "label": lambda entries: chain.from_iterable(each.labels for each in entries),
}
"""The values of a facet that some runs have, one after another: ten thousand runs are counted at each request."""


def choose(choice: Choice, entries: Iterable[Entry]) -> Chosen:
    """What a choice leaves. A run that one facet alone keeps out still counts in that facet."""
    words = choice.words.casefold().split()
    named = [each for each in entries if _has(each, words)] if words else list(entries)
    left, alone = named, dict[str, list[Entry]]()
    if choice.chosen:
        left = []
        for entry in named:
            against = [facet for facet, chosen in choice.chosen.items() if not entry.has(facet, chosen)]
            if not against:
                left.append(entry)
            elif len(against) == 1:
                alone.setdefault(against[0], []).append(entry)
    counts = {facet: Counter(values([*left, *alone.get(facet, ())])) for facet, values in _VALUES.items()}
    by_lens: dict[str, list[Entry]] = {}
    for entry in left[::-1] if choice.is_oldest_first else left:
        by_lens.setdefault(entry.lens, []).append(entry)
    return Chosen(by_lens, tuple(_offer(facet, counts[facet], choice) for facet in FACETS))


def _offer(facet: str, counts: Counter[str], choice: Choice) -> Offer:
    chosen = choice.chosen.get(facet, frozenset())
    common = counts.most_common(SHOWN) if facet != "date" else sorted(counts.items(), reverse=True)[:SHOWN]
    shown = dict(common) | {value: counts.get(value, 0) for value in chosen}
    values = tuple((value, count, value in chosen) for value, count in shown.items())
    return Offer(facet, FACETS[facet], values, max(0, len(counts) - len(shown)))


def _has(entry: Entry, words: Sequence[str]) -> bool:
    row = entry.row
    text = " ".join((entry.found.name, entry.found.within, row.model, row.precision, row.executor, row.machine,
                     row.origin, row.validity, row.why, *entry.labels, entry.note)).casefold()  # fmt: skip
    return all(word in text for word in words)
