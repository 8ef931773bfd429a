"""Document of "ratios from paired slices", and the file of them beside a study."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from twinlens.record.finding import Validity
from twinlens.record.run import Run
from twinlens.record.store import write_json
from twinlens.reporting import display
from twinlens.reporting.comparing.added import added_blocks
from twinlens.reporting.document.block import Block, Document, Line, Table, Title, Tone, row
from twinlens.reporting.document.block import cells as tabled
from twinlens.reporting.paired import Paired, beside_words, paired, paired_json
from twinlens.reporting.point_name import precision_of
from twinlens.reporting.text.sentence import reference_of
from twinlens.reporting.view import LENSES, Material, in_order
from twinlens.stats.metrics.definition import METRICS
from twinlens.stats.summary.group import Group, group
from twinlens.system.document import json_of, read_json
from twinlens.units import digits
from twinlens.version import __version__

HEADS = ("ratio", "of", "95% interval", "repeats", "rounds", "others", "the ratio is")
_SIDES = ("left", "right", "left", "right", "right", "right", "right", "left")
_TITLE = "ratios from paired slices"
_TONES: dict[Validity, Tone] = {"valid": "good", "provisional": "part", "not valid": "doubt"}
_SAME = 1e-9
_LOADS = ("batch", "microbatch", "rate_per_s", "concurrency", "method", "r")
LEGEND = (
    "Points took turns; a round gives one ratio (twinlens explain paired_ratio). valid: the ratio "
    "stayed on one level, whatever the rates above did. others: share of slices in which other "
    "programs took part of the machine; their rounds count only where fewer than 8 of a repeat were calm."
)


def paired_of(groups: Sequence[Group], runs: Sequence[Run]) -> tuple[Paired, ...]:
    """The paired ratios of these groups against their references, from the rows of their runs."""
    return paired(groups, runs, _reference_of)


def _reference_of(member: Group, groups: Sequence[Group]) -> Group | None:
    """As for rates. Where several executors, or several servers that were up already, took turns at one workload, all
    are against the same one: turns are what makes two stacks comparable. Of servers that were up already it is the
    first of `groups`."""
    is_attached = member.machine is not None and member.machine.is_attached
    stacks = [other for other in (groups if is_attached else in_order(groups)) if _is_beside(other, member)]
    if len({_stack_of(other) for other in stacks}) < 2:
        return reference_of(member, groups)
    widest = [other for other in stacks if precision_of(other) == precision_of(stacks[0])]
    first = next((other for other in widest if other.runs[0].executor == "torch"), widest[0])
    return None if first is member else first


def _is_beside(other: Group, member: Group) -> bool:
    """Whether two groups ran one model at one batch and load on this machine, or on servers that were up already."""
    if other.machine is None or member.machine is None or other.model != member.model:
        return False
    if member.machine.is_attached or other.machine.is_attached:
        return member.machine.is_attached and other.machine.is_attached and other.point == member.point
    loads = ({key: each.point.get(key) for key in _LOADS} for each in (other, member))
    return other.machine.id == member.machine.id and len({str(load) for load in loads}) == 1


def _stack_of(member: Group) -> str:
    return member.machine.id if member.machine and member.machine.is_attached else member.runs[0].executor


def paired_document(ratios: Sequence[Paired]) -> Document:
    """A table of ratios a lens; nothing where there is none."""
    of_lens = {lens: [pair for pair in ratios if pair.group.lens == lens] for lens in LENSES}
    blocks: list[Block] = []
    for lens, mine in of_lens.items():
        if mine:
            blocks += [Title(f"{lens.capitalize()} · {_TITLE}"), *paired_blocks(mine)]
    return Document.of("Ratios", _TITLE, iter(blocks))


def paired_blocks(ratios: Sequence[Paired]) -> Iterator[Block]:
    """One row a ratio of a lens. Those not valid, or provisional, say why below."""
    rows = tuple(tabled(cells(pair), "" if pair.ranked else "dim") for pair in ratios)
    heads = ("", *(head.replace(" ", "\n") for head in HEADS))
    yield Table(f"{_TITLE.capitalize()}.", heads, rows, _SIDES, narrow=rows, gap=1)
    for pair in ratios:
        why = f"{cells(pair)[0]}, {cells(pair)[2]}: the ratio is {pair.validity}: {pair.fault}"
        yield row(display.MARKS[pair.validity], [why] if pair.fault else [], _TONES[pair.validity])
    yield from (row("!", [beside_words(pair)], "doubt") for pair in ratios)
    yield from (block for pair in ratios if pair.added for block in added_blocks(pair.added))
    seen = [pair.result.visible_change for pair in ratios if pair.ranked and pair.result.visible_change is not None]
    could = f" A change of {digits(100 * max(seen), 2)}% within a repeat would have shown." if seen else ""
    yield Line(LEGEND + could, "dim")


def cells(pair: Paired) -> tuple[str, ...]:
    """A row: what against what, and its columns as HEADS names them."""
    ratio = pair.result
    label = METRICS[ratio.metric].label if ratio.metric in METRICS else display.clean(ratio.metric, 30)
    return (
        f"{ratio.above} / {ratio.below}",
        display.factor(ratio.ratio),
        label,
        (display.factor_bounds(ratio.ratio) + ("" if ratio.ratio.level is not None else " (range)"))
        if ratio.ratio.low is not None
        else display.ABSENT,
        str(ratio.repeats),
        str(ratio.blocks),
        f"{ratio.disturbed_slices / ratio.slices:.0%}" if ratio.slices else display.ABSENT,
        pair.validity,
    )


def write_paired(folder: Path, ratios: Sequence[Paired]) -> None:
    """paired.json beside study.json, where it is not there or says something else. Raises OSError.

    The last digit of a float is the processor's: numbers that differ by no more say the same, so that reading a study
    elsewhere leaves its file as it is.
    """
    path, data = folder / "paired.json", {"schema": 1, "twinlens": __version__, "paired": paired_json(ratios)}
    with suppress(OSError, ValueError):
        if _is_same(read_json(path), json_of(json.dumps(data))):
            return
    write_json(path, data)


def _is_same(known: Any, made: Any) -> bool:
    if isinstance(known, dict) and isinstance(made, dict):
        return known.keys() == made.keys() and all(_is_same(known[key], made[key]) for key in known)
    if isinstance(known, list) and isinstance(made, list):
        return len(known) == len(made) and all(map(_is_same, known, made))
    if isinstance(known, float) and isinstance(made, float):
        return math.isclose(known, made, rel_tol=_SAME, abs_tol=_SAME)
    return bool(known == made)


def renew_paired(material: Sequence[Material]) -> None:
    """paired.json of each study that is given whole and has one, where its runs say something else by now.

    Raises OSError.
    """
    for folder in {run.folder.parent for run, _ in material if run.sections.pairing}:
        mine = [(run, summary) for run, summary in material if run.folder.parent == folder]
        if (folder / "paired.json").exists() and len(mine) == len(list(folder.glob("*/run.json"))):
            write_paired(folder, paired_of(group(summary for _, summary in mine), [run for run, _ in mine]))
