"""The pages of a site, written as files: index, lenses, packs, models, executors, machines, and definitions."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader
from markupsafe import Markup

from twinlens.comparison.side import Side
from twinlens.reporting.document import environment as documents
from twinlens.reporting.view import LENSES, headline
from twinlens.reporting.wording.finding import sentence_of
from twinlens.spec.precision import Lens
from twinlens.stats.metrics.definition import METRICS
from twinlens.version import __version__
from twinlens.web.published import definitions
from twinlens.web.published.beside import Beside, beside, table
from twinlens.web.published.folder import MANIFEST, mark
from twinlens.web.published.measured import (
    Cell,
    Held,
    Table,
    executor_of,
    figure,
    machine_of,
    model_of,
    name_of,
    points,
)
from twinlens.web.published.packs import Pack, slugs

_FACETS: tuple[tuple[str, str, Callable[[Side], str]], ...] = (
    ("models", "model", model_of),
    ("executors", "executor", executor_of),
    ("machines", "machine", machine_of),
)
_TERMS = ("lens", "interval", "executor", "origin")
_NEWEST = 3
_MOST_TABLES = 40
"""Packs of which a page of a model, executor or machine shows the points; of others it has the link alone."""


def write_pages(shown: Sequence[Held], refused: Sequence[Pack], folder: Path) -> int:
    """Write every page of a site. Returns how many there are."""
    lenses = [lens for lens in LENSES if any(lens in each.lenses for each in shown)]
    made = _Pages(folder, lenses)
    facets = {kind: _facet(shown, of) for kind, _, of in _FACETS}
    named = {kind: dict(zip(found, slugs(list(found)), strict=True)) for kind, found in facets.items()}
    besides = {lens: beside(shown, lens) for lens in lenses}
    tables = {lens: [table(each) for each in found] for lens, found in besides.items()}
    for lens, found in besides.items():
        made.page(f"{lens}.html", "lens.html.j2", lens.capitalize(), lens=lens, besides=_with(found, tables[lens]))
    for each in shown:
        _write_packs(made, each, named)
    for kind, word, of in _FACETS:
        for name, held in facets[kind].items():
            _write_facet(made, f"{kind}/{named[kind][name]}.html", word, name, held, of, besides)
    made.page("index.html", "index.html.j2", "Two lenses, never averaged", lenses=_lenses(shown, tables),
              packs=_list(shown), refused=refused, facets=[(kind, word, facets[kind], named[kind])
              for kind, word, _ in _FACETS], sentence_of=sentence_of, worst=_worst, scripts=("find.js",))  # fmt: skip
    _write_definitions(made)
    _write_files(made, shown, refused)
    return made.count


class _Pages:
    """Where pages go, how many there are, and the words that they link to."""

    def __init__(self, folder: Path, lenses: Sequence[Lens]) -> None:
        self.folder, self.count = folder, 0
        self.navigation = [("index.html", "All packs"), *((f"{lens}.html", lens.capitalize()) for lens in lenses),
                           ("explain/index.html", "Definitions")]  # fmt: skip
        self.words: set[str] = set(_TERMS)

    def page(self, path: str, template: str, title: str, **values: Any) -> None:
        """One page: the template within the frame of the site."""
        up = "../" * path.count("/")

        def define(word: str) -> str:
            found = definitions.path_of(word) if word else ""
            if found:
                self.words.add(word)
            return f"{up}{found}" if found else ""

        text = _templates().get_template(template).render(
            title=title, up=up, here=path, define=define, version=__version__, navigation=self.navigation,
            **{"scripts": (), **values},
        )  # fmt: skip
        to = self.folder / path
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(text, encoding="utf-8", errors="replace")
        self.count += 1


def _facet(shown: Iterable[Held], of: Callable[[Side], str]) -> dict[str, list[Held]]:
    """What holds each model, executor or machine, by its name."""
    found: dict[str, dict[int, Held]] = {}
    for each in shown:
        for side in each.sides:
            found.setdefault(of(side), {})[id(each)] = each
    return {name: list(found[name].values()) for name in sorted(found)}


def _with(found: Sequence[Beside], tables: Sequence[Table]) -> list[tuple[Beside, Table]]:
    return list(zip(found, tables, strict=True))


def _write_packs(made: _Pages, held: Held, named: dict[str, dict[str, str]]) -> None:
    """A page and the first rows for each pack of one key; what they share is made once."""
    tables, report = points(held, "../../", ""), Markup(held.told["report"])  # ours: made by `fragment`, escaped
    verdict = Markup(held.told.get("verdict", ""))  # of a burn-in or a tuning, which says more than its runs
    links = [(word, name, f"../../{kind}/{named[kind][name]}.html") for kind, word, of in _FACETS
             for name in dict.fromkeys(map(of, held.sides))]  # fmt: skip
    rows = Markup(_templates().get_template("first_rows.html.j2").render(runs=held.told["runs"]))
    for pack in held.packs:
        way, others = f"packs/{pack.slug}", [each for each in held.packs if each is not pack]
        findings = [(each, sentence_of(each)) for each in pack.checked.findings]
        made.page(f"{way}/index.html", "pack.html.j2", pack.name, pack=pack, told=held.told, tables=tables,
                  verdict=verdict, report=report, links=links, findings=findings, others=others)  # fmt: skip
        made.page(f"{way}/rows.html", "rows.html.j2", f"Rows of {pack.name}", pack=pack, rows=rows)


def _write_facet(made: _Pages, path: str, word: str, name: str, held: Sequence[Held], of: Callable[[Side], str],
                 besides: dict[Lens, tuple[Beside, ...]]) -> None:  # fmt: skip
    mine = [(each, [side for side in each.sides if of(side) == name]) for each in held]
    parts = [(each, points(each, "../", f"../packs/{each.packs[0].slug}/", sides) if place < _MOST_TABLES else [])
             for place, (each, sides) in enumerate(mine)]  # fmt: skip
    lenses = [lens for lens, found in besides.items()
              if any(of(side) == name for each in found for _, side in each.members)]  # fmt: skip
    made.page(path, "facet.html.j2", name, word=word, parts=parts, lenses=lenses)


def _lenses(shown: Sequence[Held], tables: dict[Lens, list[Table]]) -> list[dict[str, Any]]:
    """For each lens what there is of it, and the newest figures; of training and inference even where there is none."""
    found = []
    for lens in [each for each in LENSES if each in tables or each != "collective"]:
        mine = [each for each in shown if lens in each.lenses]
        newest = sorted(mine, key=lambda each: (each.packs[0].when, each.packs[0].slug), reverse=True)
        figures = [row for each in newest for row in _figures(each, lens)][:_NEWEST]
        found.append({"lens": lens, "points": sum(each.lenses[lens] for each in mine), "figures": figures,
                      "packs": sum(len(each.packs) for each in mine), "tables": len(tables.get(lens, ()))})  # fmt: skip
    return found


def _figures(held: Held, lens: Lens) -> Iterator[tuple[str, str, Cell, str]]:
    """The first figure of each point that is ranked: where it was measured, the metric, the figure, and the pack."""
    for side in held.sides:
        first = headline(side.group)
        if side.lens == lens and side.group.ranked and first is not None and first[1].value is not None:
            model = model_of(side)
            name = name_of(side) if model in side.name else f"{name_of(side)} · {model}"
            yield (
                f"{name} · {executor_of(side)} on {machine_of(side)}",
                METRICS[first[0]].label,
                figure(first[1]),
                held.packs[0].slug,
            )


def _list(shown: Sequence[Held]) -> Table:
    """Every pack, one a row."""
    rows = sorted(((pack, each) for each in shown for pack in each.packs), key=lambda pair: pair[0].slug)
    cells = tuple(
        (
            Cell(pack.name, f"by: {pack.who}", f"packs/{pack.slug}/index.html"),
            Cell(pack.when),
            Cell(pack.signer or "not signed"),
            Cell(str(held.lenses.get("training", 0))),
            Cell(str(held.lenses.get("inference", 0))),
            Cell(", ".join(dict.fromkeys(map(model_of, held.sides))), ", ".join(dict.fromkeys(map(executor_of,
                 held.sides)))),
            Cell(", ".join(dict.fromkeys(map(machine_of, held.sides)))),
        )
        for pack, held in rows
    )  # fmt: skip
    heads = ("pack, and who measured", "measured", "signed by", "training points", "inference points",
             "models, executors", "machines")  # fmt: skip
    return Table("Every pack that passed its check.", heads, ("",) * len(heads), cells)


def _worst(pack: Pack) -> list[str]:
    """Why a pack was refused."""
    return [sentence_of(each) for each in pack.checked.findings if each.severity == "disqualifies"]


def _write_definitions(made: _Pages) -> None:
    found = definitions.definitions(made.words)
    for each in found:
        made.page(each.path, "explain.html.j2", each.title, text=Markup(each.html))  # ours: pages of this program
    rows = [(each.path.removeprefix(f"{definitions.FOLDER}/"), each.title) for each in found]
    made.page("explain/index.html", "definitions.html.j2", "Definitions", rows=rows)


def _write_files(made: _Pages, shown: Sequence[Held], refused: Sequence[Pack]) -> None:
    """Style, script, and what the site holds as JSON."""
    static = Path(__file__).with_name("static")
    style = _templates().get_template("style.css.j2").render() + static.joinpath("site.css").read_text("utf-8")
    (made.folder / "style.css").write_text(style, encoding="utf-8")
    (made.folder / "find.js").write_text(static.joinpath("find.js").read_text("utf-8"), encoding="utf-8")
    packs = [_plain(pack) | _of_sides(held) for held in shown for pack in held.packs]
    data = mark(__version__) | {
        "packs": sorted(packs, key=lambda each: str(each["pack"])),
        "refused": [_plain(each) | {"why": _worst(each)} for each in refused],
    }
    text = json.dumps(data, indent=1, ensure_ascii=True)
    (made.folder / MANIFEST).write_text(text + "\n", encoding="utf-8")


def _of_sides(held: Held) -> dict[str, Any]:
    """How many points of each lens, and the names that have pages."""
    names = {kind: sorted(set(map(of, held.sides))) for kind, _, of in _FACETS}
    return {"points": {str(lens): count for lens, count in held.lenses.items()}} | names


def _plain(pack: Pack) -> dict[str, Any]:
    return {"pack": pack.slug, "name": pack.name, "measured_by": pack.who, "measured": pack.when,
            "signed_by": pack.signer or None, "sha256": pack.sha256 or None}  # fmt: skip


@lru_cache(maxsize=1)
def _templates() -> Environment:
    """Ours and those of documents, with everything foreign escaped."""
    ours = documents.environment().overlay()
    assert ours.loader is not None
    ours.loader = ChoiceLoader([PackageLoader("twinlens.web.published"), ours.loader])
    return ours
