"""The executor that really ran, for a report: facts shared, facts that differ, precision, completeness."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from twinlens.record.executor.record import FIELDS, ExecutorRecord, Fact, PrecisionCheck
from twinlens.reporting.display import clean, join_names
from twinlens.reporting.document.block import Block, Cell, Line, Section, Table, Title, Tone, cells, row
from twinlens.reporting.view import Entry, View
from twinlens.spec.precision import Lens
from twinlens.stats.summary.group import Group
from twinlens.units import show

_LETTERS = {
    "A": "accelerator",
    "B": "host and links",
    "C": "power, heat and other work",
    "D": "software",
    "E": "model and precision",
    "F": "workload",
    "G": "operating point",
    "H": "protocol",
    "I": "provenance",
}
_SHORT = (
    "accelerator.product",
    "accelerator.count",
    "host.cpu.model",
    "host.cpu.cores",
    "host.cpu.isa",
    "host.memory_bytes",
    "host.os",
    "software.driver.version",
    "software.toolkit.version",
    "software.framework.name",
    "software.framework.version",
    "software.framework.threads",
    "software.runtime.name",
    "software.runtime.version",
    "compiler.name",
    "power.limit_w",
    "tenancy.co_tenants",
)
_MOST_VALUES = 3
_TONES: dict[str, Tone] = {
    "observed": "good",
    "agrees": "good",
    "native": "good",
    "declared": "doubt",
    "emulated": "doubt",
    "storage-only": "doubt",
    "differs": "bad",
    "unknown": "dim",
}
_HOW = (
    "How each fact is known: observed, read from the running system; declared, said by someone and not verified; "
    "unknown, not captured."
)
_FORMATS = (
    "Per tensor class: the declared format, and whether what was found in memory or in the kernels that ran agrees. "
    "Hardware: native, it computes in that format; emulated, in steps; storage-only, it holds the format and computes "
    "in another."
)


@dataclass(frozen=True, slots=True)
class FactLine:
    """One field for a page. `capture` is observed, declared or unknown; `text` is the value or the reason."""

    letter: str
    label: str
    text: str
    capture: str
    source: str
    short: bool


@dataclass(frozen=True, slots=True)
class Varying:
    """A field that is not the same in all runs: one text per column of the page's table."""

    label: str
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Stack:
    """`columns` are the operating points' names, lens first; `checks` go by them."""

    columns: tuple[str, ...]
    shared: tuple[FactLine, ...]
    varying: tuple[Varying, ...]
    checks: tuple[tuple[str, tuple[PrecisionCheck, ...]], ...]
    completeness: tuple[tuple[str, str, tuple[str, ...]], ...]
    without: tuple[str, ...]


def stack(view: View) -> Stack:
    """Put the records of all runs side by side. `without` names the runs that recorded no executor."""
    named = [(f"{lens.lens}: {entry.name}", lens, entry) for lens in view.lenses for entry in lens.entries]
    records = {name: _records(entry) for name, _, entry in named}
    shared, varying = [], []
    columns = tuple(name for name, _, _ in named if records[name])
    for key in FIELDS:
        due = [record for name, lens, _ in named for record in records[name] if FIELDS[key].lens in ("both", lens.lens)]
        facts = [record.facts[key] for record in due if key in record.facts]
        if not facts:
            continue
        # Shared is what all runs of its lens say; what some leave out is not known to be the same there.
        if len({_text(key, fact) for fact in facts}) == 1 and len(facts) == len(due):
            shared.append(_line(key, min(facts, key=_strength)))
        else:
            varying.append(Varying(FIELDS[key].label, tuple(_several(key, records[name]) for name in columns)))
    return Stack(
        columns,
        tuple(shared),
        tuple(varying),
        tuple((name, checked) for name, _, entry in named if (checked := _checks(entry))),
        _completeness([(entry.name, lens.lens, record) for _, lens, entry in named for record in _records(entry)[:1]]),
        tuple(clean(run.id) for run, _ in view.material if run.facts is None),
    )


def executor_blocks(stack: Stack) -> Iterator[Block]:
    """What is known of it and how; of precision what was declared and what was found; then every fact."""
    yield Line(_HOW)
    for who, verdict, missing in stack.completeness:
        lacks = f"; it lacks {', '.join(missing)}" if missing else ""
        yield row("·", [f"{who}: {verdict}{lacks}."])
    yield Title("In short", level=3)
    short = [each for each in stack.shared if each.short]
    yield _facts(short, "The stack that all runs share.", is_whole=False)
    yield Title("Precision: declared and found", level=3)
    yield from _precision(stack)
    if stack.varying:
        rows = tuple(cells((each.label, *each.texts)) for each in stack.varying)
        sides = ("left",) * (1 + len(stack.columns))
        table = Table("Fields whose values are not the same in all runs.", ("field", *stack.columns), rows, sides)
        yield Section(f"{len(stack.varying)} facts that differ between runs", (table,), on_paper=False)
    every = _facts(stack.shared, "Every recorded field, by group.", is_whole=True)
    yield Section(f"All {len(stack.shared)} facts that all runs share", (every,), on_paper=False)


def _facts(shown: Sequence[FactLine], caption: str, *, is_whole: bool) -> Table:
    more = ("from", "part") if is_whole else ()
    rows = tuple(
        (Cell(each.label), Cell(each.text, "dim" if each.capture == "unknown" else ""),
         Cell(each.capture, _TONES[each.capture]),
         *([Cell(each.source), Cell(f"{each.letter} {_LETTERS[each.letter]}")] if is_whole else []))
        for each in shown
    )  # fmt: skip
    return Table(caption, ("field", "value", "how known", *more), rows, ("left",) * (3 + len(more)))


def _precision(stack: Stack) -> Iterator[Block]:
    """A row for each tensor class of each point."""
    rows = tuple(
        (*cells((name, each.tensor_class, each.declared, each.observed or "not observed")),
         Cell(each.verdict, _TONES.get(each.verdict, "")), Cell(each.support, _TONES.get(each.support, "")),
         Cell(each.evidence))
        for name, checks in stack.checks for each in checks
    )  # fmt: skip
    if not rows:
        yield Line("No format was observed, and none was declared.")
        return
    yield Line(_FORMATS)
    heads = ("operating point", "tensor class", "declared", "observed", "verdict", "hardware", "evidence")
    yield Table("What was declared, what was observed, and what was looked at.", heads, rows, ("left",) * 7,
                remarks=True)  # fmt: skip


def machine_lines(view: View) -> tuple[str, ...]:
    """Each machine in one line, with its letter where there are several; the software of its first run beside it."""
    first: dict[str, tuple[Group, ExecutorRecord]] = {}
    for lens in view.lenses:
        for entry in lens.entries:
            record = next(iter(_records(entry)), None)
            if record is not None:
                first.setdefault(entry.group.tag, (entry.group, record))
    if not first:
        return ("the executor was not recorded",)
    return tuple(
        (f"{tag}: " if tag else "") + _machine_line(group, record) for tag, (group, record) in sorted(first.items())
    )


def _machine_line(group: Group, record: ExecutorRecord) -> str:
    runtime, framework = (
        " ".join(str(word) for part in ("name", "version") if (word := record.value(f"software.{kind}.{part}")))
        for kind in ("runtime", "framework")
    )
    if group.machine is not None and group.machine.is_attached:
        parts = [
            f"{group.model} at {group.machine.name}",
            runtime,
            "a server that was up already, on a machine not known",
        ]
        return " · ".join(clean(part, 80) for part in parts if part)
    cores = record.value("host.cpu.usable_threads") or record.value("host.cpu.cores")
    memory = record.value("host.memory_bytes")
    known: list[str | None] = [
        record.value("accelerator.product"),
        record.value("host.cpu.model"),
        f"{cores} usable processor{'' if cores == 1 else 's'}" if cores else None,
        show(float(memory), "bytes") if isinstance(memory, int | float) else None,
        runtime,
        framework,
        record.value("host.os"),
    ]
    return " · ".join(dict.fromkeys(clean(part, 80) for part in known if part))


def fact_text(key: str, value: Any) -> str:
    """A fact's value in words: bytes with a prefix, lists joined, yes and no."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float) and key.endswith("_bytes"):
        return show(float(value), "bytes")
    if isinstance(value, list | tuple):
        return clean(", ".join(fact_text("", item) for item in value), 400) or "none"
    if isinstance(value, dict):
        return clean(", ".join(f"{name} {fact_text('', item)}" for name, item in value.items()), 400) or "none"
    return clean(value, 400)


def _records(entry: Entry) -> list[ExecutorRecord]:
    return [run.facts.executor for run, _ in entry.material if run.facts is not None]


def _checks(entry: Entry) -> tuple[PrecisionCheck, ...]:
    return next((run.facts.precision for run, _ in entry.material if run.facts is not None), ())


def _completeness(records: list[tuple[str, Lens, ExecutorRecord]]) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    """(operating points of one lens, verdict, labels of what is missing), alike ones together."""
    alike: dict[tuple[Lens, str, tuple[str, ...]], list[str]] = {}
    for name, lens, record in records:
        complete = record.completeness(lens)
        missing = tuple(FIELDS[key].label for key in complete.missing)
        alike.setdefault((lens, complete.verdict, missing), []).append(name)
    return tuple(
        (f"{lens.capitalize()}, {join_names(names)}", verdict, missing)
        for (lens, verdict, missing), names in alike.items()
    )


def _line(key: str, fact: Fact) -> FactLine:
    field = FIELDS[key]
    return FactLine(field.letter[0], field.label, _text(key, fact), fact.capture, clean(fact.source), key in _SHORT)


def _text(key: str, fact: Fact) -> str:
    return clean(fact.reason) if fact.value is None else fact_text(key, fact.value)


def _several(key: str, records: Sequence[ExecutorRecord]) -> str:
    texts = list(dict.fromkeys(_text(key, record.facts[key]) for record in records if key in record.facts))
    rest = len(texts) - _MOST_VALUES
    return "; ".join(texts[:_MOST_VALUES]) + (f"; and {rest} more" if rest > 0 else "") or "–"


def _strength(fact: Fact) -> int:
    return ("observed", "declared", "unknown").index(fact.capture)
