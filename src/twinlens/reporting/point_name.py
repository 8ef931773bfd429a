"""The name of an operating point among others: its precision, and whatever else tells it from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from twinlens.reporting.display import clean
from twinlens.reporting.load_kind import POLICY_KEYS, policy_of, switches_of
from twinlens.stats.summary.group import Group
from twinlens.units import BYTES, show

_SAID = ("precision", "method", "r", "size_bytes")
# What a served point is called by is in its name always, also where there is one only.
_PLACES = {"rate_per_s": "/s", "concurrency": " in flight"}


def precision_of(member: Group) -> str:
    """The precision's name, safe to show."""
    return clean(member.point.get("precision", "?"), 40)


def point_names(groups: Sequence[Group]) -> tuple[str, ...]:
    """A name per group: the precision, its rate or concurrency, and whatever else differs within its model.

    Before it the model, the letter of the machine and the executor, where there are several of them.
    """
    several_models = len({member.model for member in groups}) > 1
    several_machines = len({member.tag for member in groups}) > 1
    names = []
    for member in groups:
        alike = [other for other in groups if (other.model, other.tag) == (member.model, member.tag)]
        varying = _varying(alike)
        several_executors = len({other.runs[0].executor for other in alike}) > 1
        parts = [f"machine {member.tag}"] if several_machines and member.tag else []
        parts += [clean(member.model, 40)] if several_models else []
        parts += [clean(member.runs[0].executor, 40)] if several_executors else []
        parts.append(_what(member))
        parts += _method(member, groups)
        parts += _ranks(member, alike)
        if policy := policy_of(member.point):
            parts.append(policy)
            varying = [key for key in varying if key not in POLICY_KEYS]
        parts += [
            _number(member.point[key]) + word for key, word in _PLACES.items() if member.point.get(key) is not None
        ]
        parts += [told] if (told := switches_of(member)) and _switched(member, alike) else []
        parts += [
            f"{clean(key, 20)} {clean(member.point[key], 20)}" for key in varying if member.point.get(key) is not None
        ]
        names.append(" · ".join(parts))
    # Two stacks at the same point still need two names: bars of one name would stand on each other.
    settings = [_settings_of(member, groups) for member in groups]
    software = [clean(member.machine.software, 40) if member.machine else "" for member in groups]
    numbers = [f"stack {number}" for number in range(1, len(names) + 1)]
    for words in (settings, software, numbers):
        twice = {name for name, count in Counter(names).items() if count > 1}
        names = [
            f"{name} · {word}" if name in twice and word else name for name, word in zip(names, words, strict=True)
        ]
    return tuple(names)


def _what(member: Group) -> str:
    """The precision; of an exchange between ranks, whose elements have one format, the size of the buffer."""
    size = member.point.get("size_bytes")
    return precision_of(member) if size is None else show(size, BYTES)


def _switched(member: Group, groups: Sequence[Group]) -> bool:
    """Whether some point of the same executor differs from its default in a switch."""
    return any(other.switches for other in groups if other.runs[0].executor == member.runs[0].executor)


def _method(member: Group, groups: Sequence[Group]) -> list[str]:
    """What is trained, where some point trains an adapter, and the rank of adapters where those differ."""
    ranks = {each.point["r"] for each in groups if each.point.get("r")}
    rank = [f"r {clean(member.point['r'], 20)}"] if len(ranks) > 1 and member.point.get("r") else []
    is_told = any(each.point.get("method") for each in groups)
    return [*([clean(member.point.get("method", "full"), 20)] if is_told else []), *rank]


def _ranks(member: Group, groups: Sequence[Group]) -> list[str]:
    """ "ranks 2" where their number differs: also where the batch, which grows with them, tells points apart."""
    asked = {each.runs[0].settings.get("ranks") for each in groups}
    mine = member.runs[0].settings.get("ranks")
    return [f"ranks {clean(mine, 20)}"] if len(asked) > 1 and mine is not None else []


def _varying(groups: Sequence[Group]) -> list[str]:
    """Settings that differ between operating points, besides what every name says."""
    keys = dict.fromkeys(key for member in groups for key in member.point if key not in (*_SAID, *_PLACES))
    return [key for key in keys if len({str(member.point.get(key)) for member in groups}) > 1]


def _settings_of(member: Group, groups: Sequence[Group]) -> str:
    """ "ranks 2": settings of the executor that differ from those of others that ran by it; "" where none does."""
    mine = member.runs[0].settings
    alike = [other.runs[0].settings for other in groups if other.runs[0].executor == member.runs[0].executor]
    told = [key for key in mine if key != "ranks" and len({str(other.get(key)) for other in alike}) > 1]
    return " · ".join(f"{clean(key, 24)} {clean(mine[key], 20)}" for key in told)


def _number(value: object) -> str:
    return f"{value:g}" if isinstance(value, int | float) else clean(value, 20)
