"""The figures and texts of a pack, computed again from its rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from twinlens.api.judging.burnin_figures import burnin_figures
from twinlens.api.judging.pack_texts import as_given, comparison_texts, texts_of
from twinlens.errors import BadInput
from twinlens.pack.archive import Archive
from twinlens.pack.check import ABOUT, FIGURES, figures_of, implausible, is_same, named
from twinlens.pack.page import compared
from twinlens.pack.sums import SIGNATURE, SUMS, UNREADABLE
from twinlens.pack.unpacked import is_of_runs, unpacked
from twinlens.record.finding import Finding
from twinlens.record.foreign_text import in_one_line
from twinlens.record.run import Run
from twinlens.record.store import read_run
from twinlens.reporting.judging.evidence import readme
from twinlens.reporting.view import Material
from twinlens.stats.run_summary import summarise
from twinlens.stats.summary.group import Summary
from twinlens.system.document import read_json
from twinlens.version import __version__

_MOST_NAMES = 20
README = "README.txt"


def recomputed(path: Path, about: Mapping[str, Any]) -> Iterator[Finding]:
    """Whether every figure of a pack follows from its rows, whether its texts are those of its rows, and values that
    no run can have. `about`: its evidence.json."""
    try:
        with unpacked(path) as folder:
            material = material_in(folder, about)
            yield from follows(path, folder, material, about)
            yield from readme_follows(path, about)
    except BadInput as error:
        yield unreadable(error)


def unreadable(error: BadInput) -> Finding:
    """That the runs of a pack cannot be read, and why."""
    return Finding("pack-unreadable", "disqualifies", "", {"why": in_one_line(str(error))})


def material_in(folder: Path, about: Mapping[str, Any]) -> tuple[Material, ...]:
    """Every run of an unpacked pack with its figures, computed from its rows. Raises BadInput where there is none."""
    runs = _runs(folder, about)
    if not runs or not about:
        raise BadInput("it holds no run" if about else f"its {ABOUT} is none", code=UNREADABLE)
    return tuple((run, summarise(run)) for run in runs)


def follows(path: Path, folder: Path, material: Sequence[Material], about: Mapping[str, Any]) -> Iterator[Finding]:
    """What `recomputed` finds, but for the README, which alone says who measured."""
    runs, summaries = [run for run, _ in material], [summary for _, summary in material]
    yield from _figures(folder, runs, summaries, about)
    for run, summary in material:
        yield from implausible(run, summary)
    told = [_told(about).get(_place(run, folder), {}) for run in runs]
    yield from _texts(path, tuple(material), as_given(runs, told), about)


def readme_follows(path: Path, about: Mapping[str, Any]) -> Iterator[Finding]:
    """Whether the README of a pack of this version is the one that its evidence.json gives."""
    if about.get("twinlens") != __version__:
        return
    with Archive(path) as archive:
        packed = archive.text(README) if README in archive.names else ""
        has_comparison = "comparison.txt" in archive.names
    if packed not in [readme(about, is_signed=signed, has_comparison=has_comparison) for signed in (True, False)]:
        yield Finding("pack-texts-differ", "disqualifies", "", named([README]))


def about_run(run: Run, summary: Summary) -> dict[str, Any]:
    """A run as evidence.json tells it."""
    machine = summary.machine
    return {
        "id": run.id, "lens": run.lens, "model": summary.model, "executor": summary.executor, "point": summary.point,
        "started_utc": run.started_utc, "ended_utc": run.ended_utc, "state": run.state, "twinlens": run.version,
        "machine": f"{machine.name} ({machine.software})" if machine else None, "ranked": summary.ranked,
    }  # fmt: skip


def _told(about: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The runs that evidence.json names, by their folders."""
    runs = about.get("runs") if isinstance(about.get("runs"), list) else ()
    return {str(each.get("folder")): each for each in runs or () if isinstance(each, Mapping)}


def _place(run: Run, folder: Path) -> str:
    return str(run.folder.relative_to(folder))


def _runs(folder: Path, about: Mapping[str, Any]) -> list[Run]:
    """Every run of the pack, those that evidence.json names first, in its order."""
    named = list(_told(about))
    found = {str(record.parent.relative_to(folder)): record.parent for record in sorted(folder.glob("**/run.json"))}
    order = sorted(found, key=lambda name: named.index(name) if name in named else len(named))
    return [read_run(found[name]) for name in order]


def _stated(run: Run) -> Mapping[str, Any]:
    try:
        data = read_json(run.folder / FIGURES)
    except (OSError, ValueError):
        data = {}
    return data if isinstance(data, Mapping) else {}


def _figures(folder: Path, runs: list[Run], summaries: list[Summary], about: Mapping[str, Any]) -> Iterator[Finding]:
    told, whole = _told(about), about.get("twinlens") == __version__
    pairs = [
        (f"{run.id}: {name}", said, true)
        for run, summary in zip(runs, summaries, strict=True)
        for name, said, true in figures_of(_stated(run), summary, whole=whole)
    ]
    of_runs = [
        (f"{run.id}: {ABOUT}: {name}", told.get(_place(run, folder), {}).get(name, "nothing"), true)
        for run, summary in zip(runs, summaries, strict=True)
        for name, true in about_run(run, summary).items()
    ]
    there = {_place(run, folder) for run in runs}
    pairs += [pair for pair in of_runs if not is_same(*pair[1:])]
    pairs += burnin_figures(folder, whole=whole)
    pairs += [(f"{ABOUT}: {name}", "a run", "nothing") for name in told if name not in there]
    wrong = [
        in_one_line(f"{name} is stated as {said} and computed as {true}", 200)
        for name, said, true in pairs
        if not is_same(said, true)
    ]
    numbers = {"figures": len(pairs), "follow": len(pairs) - len(wrong)}
    if wrong:
        by = in_one_line(str(about.get("twinlens")), 40)
        made = {} if whole else {"made_by": by}
        yield Finding("pack-figures-differ", "disqualifies", "", numbers | {"names": wrong[:_MOST_NAMES]} | made)
    else:
        yield Finding("pack-figures-follow", "notes", "", numbers)


def _texts(
    path: Path, material: tuple[Material, ...], given: list[list[Run]], about: Mapping[str, Any]
) -> Iterator[Finding]:
    """Tables, comparison and report, made again by the same version; and files that are none of a pack's."""
    if about.get("twinlens") != __version__:
        yield Finding("pack-texts-unchecked", "warns", "", {"made_by": in_one_line(str(about.get("twinlens")), 40)})
        return
    made = texts_of(material) | comparison_texts(given)
    with Archive(path) as archive:
        names = archive.names
        packed = {name: archive.text(name) for name in made if name in names}
    known = {README, ABOUT, SUMS, SIGNATURE, *made}
    if foreign := [name for name in names if name not in known and not is_of_runs(name)]:
        yield Finding("pack-added", "disqualifies", "", named(foreign))
    found = {name: compared(packed.get(name, ""), text) for name, text in made.items()}
    if wrong := sorted(name for name, how in found.items() if how == "other"):
        yield Finding("pack-texts-differ", "disqualifies", "", named(wrong))
    if other := sorted(name for name, how in found.items() if how == "drawn otherwise"):
        yield Finding("pack-drawings-differ", "warns", "", named(other))
