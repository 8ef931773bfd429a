"""Options of the executors installed here, as rows of the same table as the fields of a spec."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from twinlens.errors import BadInput
from twinlens.executors.capabilities import Option
from twinlens.executors.registry import capabilities, executor_names
from twinlens.spec.field import toml, unit_of


@dataclass(frozen=True, slots=True)
class OptionRow:
    """One option and the executors that have it. `default` and `type` as in `SpecField`."""

    name: str
    description: str
    type: str
    default: str
    unit: str
    executors: tuple[str, ...]

    @property
    def path(self) -> str:
        return f"executor.options.{self.name}"


@lru_cache(maxsize=1)
def option_rows() -> tuple[OptionRow, ...]:
    """By executor, then as it declares them; an option that several declare alike stands once."""
    kinds_by_option: dict[tuple[str, str, str, str], tuple[str, ...]] = {}
    for kind in executor_names():
        try:
            options = capabilities(kind).options
        except BadInput:  # a stranger's package that is broken hides no other
            continue
        for name, option in options.items():
            key = (name, option.description, _type(option), toml(option.default))
            kinds_by_option[key] = (*kinds_by_option.get(key, ()), kind)
    return tuple(
        OptionRow(name, description, type_, default, unit_of(name), kinds)
        for (name, description, type_, default), kinds in kinds_by_option.items()
    )


def _type(option: Option) -> str:
    if option.type:
        return option.type
    if option.choices:
        return " or ".join(f'"{choice}"' for choice in option.choices)
    names = {bool: "true or false", int: "number", float: "number", str: "text", list: "list", dict: "table"}
    return names.get(type(option.default), "")
