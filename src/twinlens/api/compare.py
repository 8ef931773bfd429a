"""The verb that compares: sides from run folders, pairs of them, and for each pair whether and how far they differ."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from twinlens.api.documented import Found
from twinlens.api.question import asks
from twinlens.api.questions import COMPARE, Compare
from twinlens.api.questions import Ledger as LedgerAsked
from twinlens.api.runs import PACK, material_of, read
from twinlens.comparison.effect import Floor, floor_of
from twinlens.comparison.ledger import Ledger, Prices
from twinlens.comparison.ledger import ledger as ledger_of
from twinlens.comparison.limit import failures, limit_of
from twinlens.comparison.ranking import Pairs, Ranking, pairs_of, rankings
from twinlens.comparison.side import Side, one_metric, rates_of
from twinlens.comparison.verdict import Comparison, of_metric
from twinlens.comparison.verdict import compare as compare_sides
from twinlens.errors import BadInput
from twinlens.record.codec import encode
from twinlens.record.finding import Finding
from twinlens.record.run import Run
from twinlens.reporting.comparing.comparison import comparison_document
from twinlens.reporting.point_name import point_names
from twinlens.reporting.view import LENSES, Material, in_order
from twinlens.stats.summary.group import group
from twinlens.version import __version__

if TYPE_CHECKING:
    from twinlens.api.words import CompareWords, LedgerWords

Runs = str | Path | Run | Iterable[Run]


@asks(COMPARE, Compare)
def compare(*runs: Runs, noise: Runs | None = None, **words: Unpack[CompareWords]) -> tuple[Comparison, ...]:
    """Compare runs: each argument is a folder, a run, or several; the first holds the baseline.

    Of one argument, its first point of each lens against its others. Training is never compared with inference: such a
    pair is a category error, and says so. `noise`: runs of one spec at several times, for the noise floor of their
    machine. `metric`: this one only. A notebook shows what `twinlens compare` prints. Raises BadInput where there is
    nothing to compare.
    """
    asked = Compare.read(COMPARE.name, {"runs": runs, **words})
    metric = one_metric(asked.metric) if asked.metric else None
    found = pairs(*runs)
    made = compared(found, floor(found, noise))
    made = made if metric is None else tuple(of_metric(each, metric) for each in made)
    return Found.of(made, lambda: comparison_document(made, [side.name for side in found.alone], ranked(found)))


def broken_limits(*runs: Runs, limits: Sequence[str], noise: Runs | None = None) -> tuple[Finding, ...]:
    """The limits that runs do not keep, or that cannot be judged, as `compare --fail-if` says them; empty is a pass.

    `runs`: as `compare` takes them, the baseline first; `limits`: such as "TTFT p99 +5%". A point of the baseline that
    another folder lacks is not judged, and is no pass. Raises BadInput (TL225, TL227).
    """
    asked = [limit_of(text) for text in limits]
    found = pairs(*runs)
    return tuple(failures(compared(found, floor(found, noise)), asked, found.missed))


def pairs(*runs: Runs) -> Pairs:
    """What is compared with what: `Pairs.pairs`, and the sides that have no counterpart. Raises BadInput (TL225)."""
    if not runs:
        raise BadInput("compare what? Give two run folders, or one study of several points", code="TL225")
    folders = [sides(each, _are_several(runs)) for each in runs]
    found = pairs_of(folders)
    if not found.pairs:
        points = sum(map(len, folders))
        what = f"{points} points" if points != 1 else "one point"
        raise BadInput(
            f"there is no pair to compare: {what} in {len(runs)} folder{'s' if len(runs) > 1 else ''}; give a second "
            f"folder with a run of the same lens, model and point, or a study of several points",
            code="TL225",
        )
    return found


@asks(COMPARE, LedgerAsked)
def ledger(*runs: Runs, **words: Unpack[LedgerWords]) -> Ledger:
    """The ledger of a baseline and the steps after it, in the order given; of a study, its points in their order.

    `price_per_hour`: of the machine, in any currency. `per_month`: inferences (or tokens) in a month. Raises BadInput
    (TL226) where the workload is not the same throughout, and for a price or volume that is none.
    """
    asked = LedgerAsked.read(COMPARE.name, {"runs": runs, **words})
    for name, value in (("price", asked.price_per_hour), ("volume", asked.per_month)):
        if value is not None and not (math.isfinite(value) and value > 0):
            raise BadInput(f"a {name} is a number above 0, not {value:g}", code="TL226")
    steps = [side for each in runs for side in sides(each, _are_several(runs))]
    return ledger_of(steps, rates_of(steps), Prices(asked.price_per_hour, asked.per_month))


def _are_several(runs: Sequence[Runs]) -> bool:
    """Whether a point needs its folder's name: not where all are points of one folder."""
    paths = [selection(each)[0].resolve() if isinstance(each, str | Path) else None for each in runs]
    return len(runs) > 1 and (None in paths or len(set(paths)) > 1)


def compared(found: Pairs, known: Floor | None = None) -> tuple[Comparison, ...]:
    """A comparison for each pair; the rows are read only of runs that took turns. `known`: the noise floor."""
    rates = rates_of([side for pair in found.pairs for side in pair])
    return tuple(compare_sides(a, b, rates, floor=known) for a, b in found.pairs)


def floor(found: Pairs, noise: Runs | None = None) -> Floor:
    """The noise floor of each machine, from all that is compared and from `noise`."""
    chosen = [*found.alone, *(side for pair in found.pairs for side in pair)]
    chosen += [side for folder in found.folders for side in folder]
    chosen += sides(noise, False) if noise is not None else ()
    return floor_of({id(side): side for side in chosen}.values())


def ranked(found: Pairs) -> tuple[Ranking, ...]:
    """A ranking for each lens and point that at least three folders have; none over lenses, none over points."""
    return rankings(found.folders, rates_of([side for folder in found.folders for side in folder]))


def sides(runs: Runs, is_named: bool) -> tuple[Side, ...]:
    """The operating points among some runs, training first. `is_named`: with the folder's name before the point's."""
    asked: dict[str, str] = {}
    if isinstance(runs, str | Path):
        runs, asked = selection(runs)
    chosen = read(runs) if isinstance(runs, Path) else (runs,) if isinstance(runs, Run) else tuple(runs)
    material: list[Material] = []
    for run in chosen:
        material += material_of((run,))
        if isinstance(runs, Path) and not run.sections.pairing:  # read here, and compared by its summary alone
            run.forget_rows()
    folder = (runs if isinstance(runs, Path) else _above(chosen)).resolve()
    name_of_folder = folder.parent.name if folder.name == PACK else folder.name
    made = sides_of(material, name_of_folder, is_named=is_named)
    kept = tuple(side for side in made if selects(asked, side))
    if len(kept) == 1 and asked and not is_named:
        return (replace(kept[0], name=_settings_words(asked)),)
    if asked and not kept:
        names = ", ".join(side.name for side in made[:6])
        raise BadInput(f"{folder} has no point with {_listed(asked)}; it has {names}", code="TL225")
    return kept


def sides_of(material: Sequence[Material], folder: str, *, is_named: bool) -> list[Side]:
    """The operating points among runs with their summaries, training first. `is_named`: with `folder` before each."""
    by_summary = {id(summary): run for run, summary in material}
    groups = group(summary for _, summary in material)
    made = []
    for lens in LENSES:
        mine = in_order([each for each in groups if each.lens == lens])
        for name, each in zip(point_names(mine), mine, strict=True):
            words = [folder] if is_named else []
            words += [name] if not is_named or len(groups) > 1 else []
            made.append(Side(" · ".join(words), each, tuple(by_summary[id(run)] for run in each.runs), folder))
    return made


def _above(runs: Sequence[Run]) -> Path:
    """The folder of one run, or the one in which several lie."""
    return Path(os.path.commonpath([run.folder.resolve() for run in runs])) if runs else Path()


def selection(path: str | Path) -> tuple[Path, dict[str, str]]:
    """A folder and which of its points are meant: "runs/study@precision=bf16,batch=4". Raises BadInput (TL225)."""
    text = str(path)
    folder, mark, setting = text.rpartition("@")
    if not mark or Path(text).exists():
        return Path(text), {}
    pairs = [word.partition("=") for word in setting.split(",")]
    if not all(key and equals and value for key, equals, value in pairs):
        raise BadInput(
            f"after @ stand settings of a point, such as @precision=bf16,batch=4, not {setting!r}", code="TL225"
        )
    return Path(folder), {key.strip(): value.strip() for key, _, value in pairs}


def selects(asked: Mapping[str, str], side: Side) -> bool:
    """Whether a side is of a point with these settings: of the point itself, options of the executor, or the workload.

    A sweep names an option by its path, `executor.options.graph` or `workload.method`; here its last word will do, too.
    """
    options, point, workload = side.spec["executor"]["options"], side.spec["point"], _leaves(side.spec["workload"])
    known = {path.rpartition(".")[2]: value for path, value in workload} | options | point
    known |= {f"executor.options.{name}": value for name, value in options.items()}
    known |= {f"workload.{path}": value for path, value in workload}
    return all(_is(known.get(key), value) for key, value in asked.items())


def _is(value: Any, word: str) -> bool:
    """Whether a setting is what somebody wrote: 4.0 is 4, 4.0 and, as tables have it, 4/s; True is true."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(word.removesuffix("/s")) == value
        except ValueError:
            return False
    return str(value) == word or (isinstance(value, bool) and str(value).lower() == word)


def _leaves(table: Mapping[str, Any], before: str = "") -> list[tuple[str, Any]]:
    """The settings of a nested table with their dotted paths; of equal last words the outermost comes last."""
    inner = [
        leaf for key, value in table.items() if isinstance(value, Mapping) for leaf in _leaves(value, f"{before}{key}.")
    ]
    return inner + [(f"{before}{key}", value) for key, value in table.items() if not isinstance(value, Mapping)]


def _settings_words(asked: Mapping[str, str]) -> str:
    """ "fp32 · row · batch 4"."""
    return " · ".join(f"{key} {value}" if value[:1].isdigit() else value for key, value in asked.items())


def _listed(asked: Mapping[str, str]) -> str:
    return " and ".join(f"{key} = {value}" for key, value in asked.items())


def comparison_json(
    comparisons: Sequence[Comparison], alone: Sequence[Side] = (), ranks: Sequence[Ranking] = ()
) -> dict[str, Any]:
    """As plain data, for --json."""
    return {
        "schema": 1,
        "twinlens": __version__,
        "comparisons": [encode(each) for each in comparisons],
        "rankings": [encode(each) for each in ranks],
        "without_counterpart": [side.name for side in alone],
    }
