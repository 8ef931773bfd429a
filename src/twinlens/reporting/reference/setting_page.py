"""Settings that a tuning may vary, for reading: pages, their table in the reference, rows of `list settings`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from twinlens.errors import BadInput, nearest
from twinlens.tuning.setting import Setting, shipped, tunable_kinds
from twinlens.tuning.values import shown


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One setting and the kinds of executor that have it alike, each with the source of it."""

    setting: Setting
    sources: tuple[tuple[str, str], ...]

    @property
    def kinds(self) -> str:
        return ", ".join(dict.fromkeys(kind for kind, _ in self.sources))


@lru_cache(maxsize=1)
def setting_rows() -> tuple[SettingRow, ...]:
    """By kind, then as its file has them; what several kinds have alike stands once."""
    found: dict[str, tuple[Setting, tuple[tuple[str, str], ...]]] = {}
    for kind in tunable_kinds():
        for each in shipped(kind):
            alike = replace(each, source="", lenses=())
            first, sources = found.get(repr(alike), (each, ()))
            found[repr(alike)] = (first, (*sources, (kind, each.source)))
    return tuple(SettingRow(first, sources) for first, sources in found.values())


def setting_sections(word: str) -> list[tuple[str, str]]:
    """Path and Markdown section of each setting of this name or path, or of the end of one."""
    rows = [row for row in setting_rows() if word in setting_names(row) or row.setting.path.endswith(f".{word}")]
    return [(row.setting.path, _section(row)) for row in rows]


def setting_names(row: SettingRow) -> tuple[str, str]:
    """The words by which a space names it."""
    return row.setting.name, row.setting.path


def _section(row: SettingRow) -> str:
    setting = row.setting
    lines = [f'tried by "all": {", ".join(map(shown, setting.values))}']
    if setting.within is not None:
        lines.append(f"numbers from {_number(setting.within[0])} to {_number(setting.within[1])}")
    lines += [f"varied from the tier {setting.tier} on"]
    lines += ["the server or process is started again for it"] if setting.restart else []
    lines += [f"only with {condition}" for condition in _conditions(setting)]
    lines += [_CHEAPER[setting.cheaper]] if setting.cheaper else []
    lines += [f"of {kind}: {source}" for kind, source in row.sources]
    listed = "\n".join(f"- {line}" for line in lines)
    return f"## {setting.name}, a setting of {row.kinds} that a tuning may vary\n\n{setting.about}\n\n{listed}\n"


_CHEAPER = {
    "less": "smaller values take less of the machine",
    "more": "larger values take less of the machine",
}


def _conditions(setting: Setting) -> list[str]:
    said = [f"{other} = {' or '.join(map(shown, values))}" for other, values in setting.only_with.items()]
    return said + ([f"at least as much as {setting.not_below}"] if setting.not_below else [])


def setting_table() -> Iterator[str]:
    """The lines of their table in the reference."""
    yield from (
        '| setting | path | "all" tries | tier | only with | means | executors |',
        "|---|---|---|---|---|---|---|",
    )
    for row in setting_rows():
        each = row.setting
        cells = (f"`{each.name}`", f"`{each.path}`", ", ".join(map(shown, each.values)), each.tier)
        yield f"| {' | '.join((*cells, '; '.join(_conditions(each)), each.about, row.kinds))} |"


def settings_listed(kind: str | None) -> list[dict[str, str]]:
    """Kinds of executor with the names of their settings; of one kind each setting. Raises BadInput (TL204)."""
    if kind is None:
        return [
            {"executor": each, "settings": ", ".join(dict.fromkeys(one.name for one in shipped(each)))}
            for each in tunable_kinds()
        ]
    if kind not in tunable_kinds():
        raise BadInput(f"no settings ship for {kind[:40]!r}; {nearest(kind, tunable_kinds())}", code="TL204")
    return [
        {
            "setting": each.name,
            "lens": ", ".join(each.lenses),
            "tier": each.tier,
            "all": ", ".join(map(shown, each.values)),
            "means": each.about,
        }
        for each in shipped(kind)
    ]


def _number(value: float) -> str:
    return f"{value:g}" if value < 1e6 or value % 1 else f"{value:,.0f}"
