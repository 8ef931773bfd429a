"""Attribution: the things that vary between two sides, each with what it brings with it. Of one, the effect is its."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from twinlens.comparison.aspect import Aspect
from twinlens.comparison.difference import Difference

# What comes along with another change and is no choice of its own, unless somebody asked for it.
_BRINGS: dict[Aspect, tuple[Aspect, ...]] = {
    "runtime": ("framework", "compiler", "settings", "packages"),
    "framework": ("compiler", "settings", "packages"),
    "machine": ("power", "settings"),
    "precision": ("compiler", "settings"),
    "compiler": ("settings",),
    "batching": ("settings",),
    "settings": ("compiler",),
}


@dataclass(frozen=True, slots=True)
class Thing:
    """One thing that varies. `fields`: in what; `brings`: differences that came along with it."""

    aspect: Aspect
    fields: tuple[Difference, ...]
    brings: tuple[Difference, ...] = ()

    def __json__(self) -> dict[str, Any]:
        """A plain mapping; the fields by name, as they stand among the differences."""
        fields, brings = ([one.field for one in some] for some in (self.fields, self.brings))
        return {"aspect": self.aspect, "fields": fields, "brings": brings}


def things(found: Iterable[Difference]) -> tuple[Thing, ...]:
    """What varies, from the differences that are known and may vary (role V), in the order of `_ORDER`.

    A difference that nobody asked for belongs to a change that is known to bring it; a version of the framework is one
    change, with all the packages that come with it. What was asked for is always a thing of its own.
    """
    known = [one for one in found if one.is_known and one.role == "V"]
    leading = {one.aspect for one in known if one.is_asked}
    for aspect in _UNASKED:
        if any(one.aspect == aspect for one in known) and aspect not in _brought_by(leading):
            leading.add(aspect)
    parts: dict[Aspect, list[Difference]] = {}
    along: dict[Aspect, list[Difference]] = {}
    for one in known:
        owner = _owner(one, leading)
        (parts if owner == one.aspect else along).setdefault(owner, []).append(one)
    order = [aspect for aspect in _ORDER if aspect in parts]
    return tuple(Thing(aspect, tuple(parts[aspect]), tuple(along.get(aspect, ()))) for aspect in order)


_ORDER: tuple[Aspect, ...] = (
    "workload", "precision", "batching", "runtime", "framework", "compiler", "settings", "driver", "machine", "power",
    "packages", "operating system", "protocol", "quality", "content",
)  # fmt: skip


_UNASKED: tuple[Aspect, ...] = ("machine", "runtime", "framework", *_ORDER)  # what brings others along goes first


def _brought_by(aspects: Iterable[Aspect]) -> set[Aspect]:
    return {brought for aspect in aspects for brought in _BRINGS.get(aspect, ())}


def _owner(one: Difference, leading: set[Aspect]) -> Aspect:
    """The aspect that a difference is counted with: its own where somebody asked for it or nothing brought it."""
    owners = [aspect for aspect in _ORDER if aspect in leading and one.aspect in _BRINGS.get(aspect, ())]
    return one.aspect if one.is_asked or not owners else owners[0]
