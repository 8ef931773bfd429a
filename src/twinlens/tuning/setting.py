"""Settings that a tuning may vary: those that ship for a kind of executor, and those that a space chooses of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import Field

from twinlens.errors import BadInput, nearest
from twinlens.executors.registry import capabilities, executor
from twinlens.spec.frozen import Spec
from twinlens.spec.precision import Lens
from twinlens.spec.study import RunSpec, Study
from twinlens.spec.tune import Tier
from twinlens.system.document import toml_of
from twinlens.tuning.power_limit import PATH as POWER_LIMIT
from twinlens.tuning.power_limit import limits_here
from twinlens.tuning.values import Value, read_values, same, shown

TIERS: tuple[Tier, ...] = get_args(Tier)
"""From the least freedom to the most; each allows what those before it allow."""
UNUSABLE = "TL265"
_EVERY = "_every"
_NOTHING = object()


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of a kind of executor.

    `name`: unique within its kind and lens. `path`: of a spec. `values`: those that "all" tries. `within`: the range of
    a user's numbers. `tier`: the lowest that may vary it. `restart`: the server or process is started again for it.
    `only_with`: settings, or paths of a spec, and the values with one of which it has an effect. `not_below`: a setting
    that may not be larger. `cheaper`: the direction that takes less of the machine, "" for neither. `about`: what it
    changes; `source`: the runtime's documentation, with the release.
    """

    name: str
    path: str
    lenses: tuple[Lens, ...]
    values: tuple[Value, ...]
    within: tuple[float, float] | None
    tier: Tier
    restart: bool
    only_with: Mapping[str, tuple[Value, ...]]
    cheaper: Literal["less", "more", ""]
    about: str
    source: str
    not_below: str = ""


Chosen = Mapping[str, tuple[Setting, tuple[Value, ...]]]
"""Settings of a space by their short name, each with the values that are tried."""


def allows(tier: Tier, setting: Setting) -> bool:
    """Whether a tuning of this tier may vary the setting."""
    return TIERS.index(setting.tier) <= TIERS.index(tier)


def tunable_kinds() -> tuple[str, ...]:
    """The kinds of executor that ship settings, sorted."""
    files = (Path(__file__).parent / "shipped").iterdir()
    names = (file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml"))
    return tuple(sorted(name for name in names if name != _EVERY))


def settings_of(kind: str, lens: Lens) -> dict[str, Setting]:
    """The settings of a kind of executor for one lens, by name. Raises BadInput (TL265) where none ship for it."""
    found = {each.name: each for each in shipped(kind) if lens in each.lenses}
    if not found:
        others = [other for other in tunable_kinds() if any(lens in each.lenses for each in shipped(other))]
        raise BadInput(
            f"no settings ship for {lens} on executor {kind[:40]!r}, so nothing of it can be tuned; "
            f"{nearest(kind, others)}",
            code=UNUSABLE,
        )
    return found


@lru_cache(maxsize=64)
def shipped(kind: str) -> tuple[Setting, ...]:
    """All settings of a kind of executor, as its file has them, with those of every kind that computes on a device of
    this machine; none where it has no file."""
    if kind not in tunable_kinds():
        return ()
    known = executor(kind)
    if known.capabilities.runs != "here" or not known.capabilities.settings:
        return _in_file(kind)
    every = (
        replace(each, lenses=tuple(lens for lens in each.lenses if lens in known.lenses)) for each in _in_file(_EVERY)
    )
    return (*_in_file(kind), *every)


def _in_file(name: str) -> tuple[Setting, ...]:
    text = (Path(__file__).parent / "shipped" / f"{name}.toml").read_text(encoding="utf-8")
    file = _File.model_validate_json(json.dumps(toml_of(text)))
    return tuple(_setting(row, file) for row in file.setting)


class _Row(Spec):
    """A table [[setting]] of a shipped file."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    path: str
    lenses: tuple[Lens, ...] = Field((), description="Where the file is of one lens alone, that one.")
    values: tuple[bool | int | float | str, ...] = Field(min_length=2)
    within: tuple[float, float] | None = None
    tier: Literal["settings", "precision", "open"] = "settings"
    restart: bool
    only_with: dict[str, tuple[bool | int | float | str, ...]] = Field(default_factory=dict)
    cheaper: Literal["less", "more", ""] = ""
    about: str = Field(max_length=240)
    source: str = Field("", description="The part of the documentation; it stands behind the file's.")
    not_below: str = ""


class _File(Spec):
    """A shipped file. `documentation`: the runtime's, with its release."""

    documentation: str
    lenses: tuple[Lens, ...]
    setting: tuple[_Row, ...]


def _setting(row: _Row, file: _File) -> Setting:
    given = row.model_dump() | {
        "lenses": row.lenses or file.lenses,
        "source": f"{file.documentation}, {row.source}" if row.source else file.documentation,
    }
    return Setting(**given)


def as_shipped(kind: str, lens: Lens, spec: Study | RunSpec) -> dict[str, Value]:
    """The candidate that changes nothing: the spec as it stands."""
    return {}


def chosen(kind: str, lens: Lens, space: Mapping[str, object], spec: Study | RunSpec | None = None) -> Chosen:
    """The settings and values of a table `[tune.space]`: NAME (short, or its dotted path) = a list of values,
    {from, to, step} or {from, to, factor}, or "all"; of the power limit, with `spec`, "all" is what its devices take.

    `spec`: what is tuned; with it, conditions on what the space does not vary are checked too. Raises BadInput (TL265)
    for an empty space, an unknown setting (with the nearest names), one that stands there twice, values of another type
    or outside the range, and a setting that has no effect with any value of another.
    """
    known = settings_of(kind, lens)
    if not space:
        raise _bad(f"the space to tune is empty; name a setting of {kind}: {', '.join(sorted(known))}")
    found: dict[str, tuple[Setting, tuple[Value, ...]]] = {}
    for word, asked in space.items():
        setting = _named(word, kind, lens, known)
        if setting.name in found:
            raise _bad(f"tune.space names {setting.name} twice, by its short name and as {setting.path}; leave one out")
        if setting.path == POWER_LIMIT and asked == "all" and spec is not None:
            found[setting.name] = (setting, limits_here(spec))
        else:
            found[setting.name] = (setting, _values(setting, asked, kind))
    for setting, values in found.values():
        _refuse_without_effect(setting, values, found, spec)
    return found


def _named(word: str, kind: str, lens: Lens, known: Mapping[str, Setting]) -> Setting:
    by_path = {each.path: each for each in known.values()}
    setting = known.get(word) or by_path.get(word)
    if setting is None:
        near = nearest(word, by_path if "." in word else known)
        raise _bad(f"tune.space names {word[:60]!r}, which is no setting of {kind} for {lens}; {near}")
    return setting


def _values(setting: Setting, asked: object, kind: str) -> tuple[Value, ...]:
    try:
        return read_values(asked, setting.values, setting.within, also=_unset(kind, setting.path))
    except ValueError as wrong:
        raise _bad(f"tune.space.{setting.name}: {wrong}") from None


def _unset(kind: str, path: str) -> tuple[Value, ...]:
    """The value by which an option of an executor asks for nothing; () for other fields."""
    name = path.removeprefix("executor.options.")
    option = capabilities(kind).options.get(name) if name != path else None
    return () if option is None else (option.default,)


def _refuse_without_effect(
    setting: Setting, values: tuple[Value, ...], found: Chosen, spec: Study | RunSpec | None
) -> None:
    for other, wanted in setting.only_with.items():
        had = _tried(other, found, spec)
        if had is not None and not any(same(one, each) for one in had for each in wanted):
            raise _bad(
                f"tune.space.{setting.name} has an effect only with {other} = {_any_of(wanted)}, and {other} is "
                f"{_any_of(had)}: leave {setting.name} out, or change {other}"
            )
    least = _tried(setting.not_below, found, None) if setting.not_below else None
    if least and max(_numbers(values), default=0) < min(_numbers(least), default=0):
        raise _bad(
            f"no value of tune.space.{setting.name} ({_any_of(values)}) is as large as one of {setting.not_below} "
            f"({_any_of(least)}), as {setting.name} has to be"
        )


def _tried(name: str, found: Chosen, spec: Study | RunSpec | None) -> tuple[Value, ...] | None:
    """The values of a setting, or of a path of the spec, in this tuning; None where nobody knows them."""
    for setting, values in found.values():
        if name in (setting.name, setting.path):
            return values
    return None if spec is None else _as_asked(name, spec)


def value_in(spec: Study | RunSpec, setting: Setting) -> Value | None:
    """What a spec has for a setting, as it says or by default; None where neither says anything."""
    return next(iter(_as_asked(setting.name, spec) or ()), None)


def _as_asked(name: str, spec: Study | RunSpec) -> tuple[Value, ...] | None:
    """The one value that a spec has at a setting or path, as asked or by default; None where it has no such field."""
    setting = settings_of(spec.executor.kind, spec.lens).get(name)
    path = setting.path if setting else name
    at: Any = spec.to_dict()
    for part in path.split("."):
        at = at.get(part, _NOTHING) if isinstance(at, Mapping) else _NOTHING
    return _unset(spec.executor.kind, path) or None if at is _NOTHING else (at,)


def refused(values: Mapping[str, Any], chosen: Chosen, spec: Study | RunSpec | None = None) -> str:
    """The condition that this combination of values breaks, in one sentence; "" where it breaks none.

    A setting without effect beside the others may only have the value that the spec has, or that asks for nothing.
    `spec`: what is tuned, where conditions are on what the combination does not name.
    """
    here: Chosen = {name: (chosen[name][0], (value,)) for name, value in values.items()}
    broken = (_without_effect(setting, value, here, spec) or _too_small(setting, value, values)
              for setting, (value,) in here.values())  # fmt: skip
    return next(filter(None, broken), "")


def _without_effect(setting: Setting, value: Value, here: Chosen, spec: Study | RunSpec | None) -> str:
    if spec is not None and any(same(value, each) for each in _as_asked(setting.name, spec) or ()):
        return ""
    for other, wanted in setting.only_with.items():
        had = _tried(other, here, spec)
        if had is not None and not any(same(had[0], each) for each in wanted):
            beside = f"{other} = {shown(had[0])}"
            return f"{setting.name} = {shown(value)} has no effect with {beside}, only with {_any_of(wanted)}"
    return ""


def _too_small(setting: Setting, value: Value, values: Mapping[str, Any]) -> str:
    both = _numbers((value, values.get(setting.not_below, "")))
    if len(both) < 2 or both[0] >= both[1]:
        return ""
    least = f"{setting.not_below} = {shown(both[1])}"
    return f"{setting.name} = {shown(value)} is less than {least}, which it may not be"


def _numbers(values: tuple[Value, ...]) -> tuple[float, ...]:
    return tuple(each for each in values if isinstance(each, int | float) and not isinstance(each, bool))


def _any_of(values: tuple[Value, ...]) -> str:
    return " or ".join(shown(value) for value in values)


def _bad(sentence: str) -> BadInput:
    return BadInput(sentence, code=UNUSABLE)
