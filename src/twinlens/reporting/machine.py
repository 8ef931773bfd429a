"""The machines of a report: by a letter each where there are several, and a server that was up by its address."""

from __future__ import annotations

from collections.abc import Sequence

from twinlens.reporting.display import clean
from twinlens.stats.summary.group import Group


def place_named(group: Group) -> str:
    """Where it ran, if there are several machines or a server was up already: "A: two sockets of 32 cores"; else ""."""
    machine = group.machine
    if machine is None or not (group.tag or machine.is_attached):
        return ""
    return f"{f'{group.tag}: ' if group.tag else ''}{clean(machine.name, 80)}"


def machines(groups: Sequence[Group]) -> tuple[str, ...]:
    """The machines of some groups with their letters and software; none where there is only one."""
    first: dict[str, Group] = {}
    for group in groups:
        if group.tag:
            first.setdefault(group.tag, group)
    described = {tag: _machine(group) for tag, group in sorted(first.items())}
    alike = len(set(described.values())) < len(described)  # the same product twice: the day tells which
    days = {tag: f", runs of {clean(first[tag].runs[0].run[:10], 10)}" if alike else "" for tag in described}
    return tuple(f"{tag}: {words}{days[tag]}" for tag, words in described.items())


def _machine(group: Group) -> str:
    machine = group.machine
    assert machine is not None  # only those with one have a letter
    if machine.is_attached:
        return f"a server at {clean(machine.name, 80)}"
    return f"{clean(machine.name, 60)} ({clean(machine.software, 40)})"
