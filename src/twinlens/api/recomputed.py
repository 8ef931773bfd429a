"""The figures and texts of a pack, computed again from its rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from twinlens.api.pack_texts import comparison_texts, texts_of
from twinlens.api.runs import material_of
from twinlens.errors import BadInput
from twinlens.pack.archive import Archive
from twinlens.pack.figures import FIGURES, figures_of, is_same
from twinlens.pack.plausible import implausible
from twinlens.pack.unpacked import unpacked
from twinlens.record.finding import Finding
from twinlens.record.run import Run
from twinlens.record.store import read_run
from twinlens.record.trust.foreign_text import in_one_line
from twinlens.reporting.view import Material
from twinlens.stats.run_summary import summarise
from twinlens.stats.summary.group import Summary
from twinlens.system.document import read_json
from twinlens.version import __version__

_MOST_NAMES = 20


def recomputed(path: Path, about: Mapping[str, Any]) -> Iterator[Finding]:
    """Whether every figure of a pack follows from its rows, whether its texts are those of its rows, and values that
    no run can have. `about`: its evidence.json."""
    try:
        with unpacked(path) as folder:
            runs = _runs(folder, about)
            summaries = [summarise(run) for run in runs]
            stated = [_stated(run) for run in runs]
            yield from _figures(runs, summaries, stated, about)
            for run, summary in zip(runs, summaries, strict=True):
                yield from implausible(run, summary)
            yield from _texts(path, material_of(runs), about)
    except BadInput as error:
        yield Finding("pack-unreadable", "disqualifies", "", {"why": in_one_line(str(error))})


def _runs(folder: Path, about: Mapping[str, Any]) -> list[Run]:
    """Every run of the pack, those that evidence.json names first, in its order."""
    told = about.get("runs") if isinstance(about.get("runs"), list) else []
    named = [str(each.get("folder")) for each in told or () if isinstance(each, Mapping)]
    found = {str(record.parent.relative_to(folder)): record.parent for record in sorted(folder.glob("**/run.json"))}
    order = sorted(found, key=lambda name: named.index(name) if name in named else len(named))
    return [read_run(found[name]) for name in order]


def _stated(run: Run) -> Mapping[str, Any]:
    path = run.folder / FIGURES
    try:
        data = read_json(path) if path.exists() else {}
    except (OSError, ValueError):
        data = {}
    return data if isinstance(data, Mapping) else {}


def _figures(
    runs: list[Run], summaries: list[Summary], stated: list[Mapping[str, Any]], about: Mapping[str, Any]
) -> Iterator[Finding]:
    pairs = [
        (f"{run.id}: {name}", said, true)
        for run, summary, packed in zip(runs, summaries, stated, strict=True)
        for name, said, true in figures_of(packed, summary)
    ]
    wrong = [
        in_one_line(f"{name} is stated as {said} and computed as {true}", 200)
        for name, said, true in pairs
        if not is_same(said, true)
    ]
    numbers = {"figures": len(pairs), "follow": len(pairs) - len(wrong)}
    if wrong:
        by = in_one_line(str(about.get("twinlens")), 40)
        made = {} if by == __version__ else {"made_by": by}
        yield Finding("pack-figures-differ", "disqualifies", "", numbers | {"names": wrong[:_MOST_NAMES]} | made)
    elif pairs:
        yield Finding("pack-figures-follow", "notes", "", numbers)


def _texts(path: Path, material: tuple[Material, ...], about: Mapping[str, Any]) -> Iterator[Finding]:
    """Tables, comparison and report, made again by the same version, with their drawings left out."""
    if about.get("twinlens") != __version__:
        yield Finding("pack-texts-unchecked", "warns", "", {"made_by": in_one_line(str(about.get("twinlens")), 40)})
        return
    made = texts_of(material) | comparison_texts([[run for run, _ in material]])
    with Archive(path) as archive:
        packed = {name: archive.text(name) for name in made if name in archive.names}
    wrong = sorted(name for name in made if _undrawn(packed.get(name, "")) != _undrawn(made[name]))
    if wrong:
        yield Finding("pack-texts-differ", "disqualifies", "", {"count": len(wrong), "names": wrong})


def _undrawn(page: str) -> str:
    """A page without its drawings: the numbering inside them is the renderer's."""
    head, *parts = page.split("<svg")
    return head + "".join(part.partition("</svg>")[2] for part in parts)
