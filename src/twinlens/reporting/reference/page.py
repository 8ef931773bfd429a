"""The page of a word that is a field of a spec, a setting, or an option of an executor or of a verb, as Markdown."""

from __future__ import annotations

from twinlens.executors.registry import capabilities, executor_names
from twinlens.pages.verbs import VerbOption, verb_options
from twinlens.reporting.reference.option import OptionRow, option_rows
from twinlens.reporting.reference.setting_page import setting_names, setting_rows, setting_sections
from twinlens.spec.field import SpecField, spec_fields

_HEEDED = ("executor.device", "executor.threads")


def field_page(word: str) -> str | None:
    """The page of a field, an option or a setting: by its path, by the end of one (`protocol.steady_s`), or by its
    name.

    Where several have this name, each has a section. None where none has it.
    """
    plain = word.strip().casefold().replace("-", "_")
    fields = [row for row in spec_fields() if _matches(row.path, plain)]
    options = [row for row in option_rows() if _matches(row.path, plain)]
    dashed = plain.lstrip("_").replace("_", "-")
    said = [option for option in verb_options() if dashed in (option.name, option.row["field"].replace("_", "-"))]
    tuned = setting_sections(plain)
    sections = [*(_field(row) for row in fields), *(_option(row) for row in options), *(_of_verbs(o) for o in said)]
    sections += [section for _, section in tuned]
    if not sections:
        return None
    paths = [*(row.path for row in fields), *(row.path for row in options), *(path for path, _ in tuned)]
    parents = sorted({path.split(".")[-2] for path in paths if "." in path})
    parent_pages = ", ".join(f"`twinlens explain {parent}`" for parent in parents)
    title = plain if paths else dashed
    return "\n".join([f"# {title}\n", *sections, f"See also: {parent_pages}\n" if parent_pages else ""]).rstrip() + "\n"


def field_words() -> tuple[str, ...]:
    """Every path and every name that has such a page."""
    names = (*_paths(), *(path.rpartition(".")[2] for path in _paths()), *(option.name for option in verb_options()))
    return tuple(dict.fromkeys((*names, *(word for row in setting_rows() for word in setting_names(row)))))


def field_paths(word: str) -> tuple[str, ...]:
    """The paths of the fields and options whose page a word names."""
    plain = word.strip().casefold().replace("-", "_")
    return tuple(path for path in _paths() if _matches(path, plain))


def _paths() -> tuple[str, ...]:
    return tuple(dict.fromkeys([*(row.path for row in spec_fields()), *(row.path for row in option_rows())]))


def _matches(path: str, plain: str) -> bool:
    return path == plain or path.endswith(f".{plain}")


def _field(row: SpecField) -> str:
    lines = [f"type: {row.type}", _default(row.default)]
    lines += [f"unit: {row.unit}"] if row.unit else []
    lines += [f"only where {row.where}"] if row.where else []
    if row.path in _HEEDED:
        name = row.path.rpartition(".")[2]
        heeding = [kind for kind in executor_names() if name in capabilities(kind).settings]
        lines.append(f"read by the executors {', '.join(heeding)}")
    lines += [f"example: `{example_of(row)}`"] if row.example else []
    lines += [f'"{word}": {meaning}' for word, meaning in row.choices]
    return _section(row.path, row.description, lines)


def _option(row: OptionRow) -> str:
    lines = [f"type: {row.type}"] if row.type else []
    lines += [_default(row.default)] + ([f"unit: {row.unit}"] if row.unit else [])
    return _section(row.path, row.description, [*lines, f"of the executors {', '.join(row.executors)}"])


def _of_verbs(option: VerbOption) -> str:
    known = [f"of `twinlens {verb}`" for verb in option.verbs]
    return _section(option.written or option.row["metavar"], option.row["help"], known)


def example_of(row: SpecField) -> str:
    """How a field is set: a point's with `--at`, others with `--set`, a table in the file."""
    parent, _, name = row.path.rpartition(".")
    if row.example.startswith("{"):
        return f"{name} = {row.example}"
    value = row.example.strip('"')
    return f"--at {name}={value}" if parent == "point" else f"--set {row.path}={value}"


def _default(default: str) -> str:
    return (
        f"default: {default}"
        if default and default != "null"
        else "default: none; it is required"
        if not default
        else "default: none"
    )


def _section(path: str, description: str, lines: list[str]) -> str:
    listed = "\n".join(f"- {line}" for line in lines)
    return f"## {path}\n\n{description}\n\n{listed}\n"
