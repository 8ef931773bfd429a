"""The machines of a report: by a letter each where there are several, and a server that was up by its address."""

from __future__ import annotations

from collections.abc import Sequence

from twinlens.reporting.display import clean
from twinlens.stats.summary.group import Group


def where(one: Group) -> str:
    """Where it ran, as the end of a title, if there are several machines or if a server was up already; else ""."""
    machine = one.machine
    if machine is None or not (one.tag or machine.is_attached):
        return ""
    return f" · {f'{one.tag}: ' if one.tag else ''}{clean(machine.name, 80)}"


def machines(groups: Sequence[Group]) -> tuple[str, ...]:
    """The machines of some groups with their letters and software; none where there is only one."""
    first: dict[str, Group] = {}
    for one in groups:
        if one.tag:
            first.setdefault(one.tag, one)
    said = {tag: _machine(one) for tag, one in sorted(first.items())}
    alike = len(set(said.values())) < len(said)  # the same product twice: the day tells which
    days = {tag: f", runs of {clean(first[tag].runs[0].run[:10], 10)}" if alike else "" for tag in said}
    return tuple(f"{tag}: {words}{days[tag]}" for tag, words in said.items())


def _machine(one: Group) -> str:
    machine = one.machine
    assert machine is not None  # only those with one have a letter
    if machine.is_attached:
        return f"a server at {clean(machine.name, 80)}"
    return f"{clean(machine.name, 60)} ({clean(machine.software, 40)})"
