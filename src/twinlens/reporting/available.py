"""The lists of what is available here, as rows of plain data: `twinlens list` and `tl.list`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twinlens.errors import BadInput, nearest
from twinlens.reporting.catalogue_rows import CATALOGUE_ROWS, FIELDS_OF

if TYPE_CHECKING:
    from twinlens.executors.capabilities import Capabilities

Row = dict[str, Any]


def rows_of(kind: str, out: Path, name: str | None = None, catalogue: Path | None = None) -> list[Row]:
    """The rows of one kind, every field of one device or model, or every setting of an executor. `out`: where runs lie;
    `catalogue`: a user's own.

    Raises BadInput (TL204) with the nearest kind or name, and for a name in a kind whose entries have no more to say.
    """
    if kind not in _KINDS and kind not in CATALOGUE_ROWS:
        raise BadInput(f"cannot list {kind!r}; {nearest(kind, [*_KINDS, *CATALOGUE_ROWS])}", code="TL204")
    if name is not None:
        if kind == "settings":
            return _settings(out, name)
        if kind not in FIELDS_OF:
            raise BadInput(f"`list {kind}` takes no name; {nearest(kind, [*FIELDS_OF, 'settings'])}", code="TL204")
        return FIELDS_OF[kind](name, catalogue)
    return CATALOGUE_ROWS[kind](catalogue) if kind in CATALOGUE_ROWS else _KINDS[kind](out)


def _laws(_: Path) -> list[Row]:
    from twinlens.reporting.reference.law_page import law_rows

    return [*law_rows()]


def _kinds(_: Path) -> list[Row]:
    return [{"kind": kind} for kind in (*CATALOGUE_ROWS, *_KINDS) if kind != "kinds"]


def _precisions(_: Path) -> list[Row]:
    from twinlens.spec.precision import PRECISIONS

    return [
        {"precision": p.name, "lenses": ", ".join(p.lenses), "products in": p.compute, "method": p.method}
        for p in PRECISIONS.values()
    ]


def _executors(_: Path) -> list[Row]:
    from twinlens.executors.registry import executor, executor_names

    rows = []
    for name in executor_names():
        try:
            loaded = executor(name)
        except BadInput as error:  # a stranger's package that is broken hides no other
            unknown = {"lenses": "–", "precisions": "–", "kind": "–"}
            rows.append({"executor": name, **unknown, "runs here": "no", "why": str(error)})
            continue
        can = loaded.capabilities
        here, why = _runs_here(can)
        rows.append(
            {
                "executor": name,
                "lenses": ", ".join(loaded.lenses),
                "precisions": ", ".join(can.precisions or can.known_precisions) or "as its stack can",
                "kind": "a server of its own" if loaded.launcher else _KIND_OF[can.runs],
                "runs here": here,
                "why": why,
            }
        )
    return rows


_KIND_OF = {"here": "in this process", "elsewhere": "a server that is up", "recorded": "a recorded run"}


def _runs_here(can: Capabilities) -> tuple[str, str]:
    """Whether this machine can run it, and why not, or in which Python. A recorded run is read, wherever it ran."""
    from twinlens.executors.refuse import is_installed, python_beside

    if can.runs == "recorded":
        return "yes", ""
    if not is_installed(can.packages) and (python := python_beside(can)):
        return "yes", f'with executor.options.python = "{python}"'
    if not can.tried:
        return "recorded output only", "it could not be run where Twinlens was built"
    if not is_installed(can.packages):
        return "no", can.install or f"none of {', '.join(can.packages)} is installed"
    return "yes", ""


def _metrics(_: Path) -> list[Row]:
    from twinlens.stats.metrics.definition import METRICS

    return [{"metric": m.id, "lens": m.lens, "unit": m.unit, "label": m.label} for m in METRICS.values()]


def _examples(_: Path) -> list[Row]:
    from twinlens.spec.source.example import examples

    return [{"example": example.name, "group": example.group, "about": example.about} for example in examples()]


def _fields(_: Path) -> list[Row]:
    from twinlens.reporting.reference.option import option_rows
    from twinlens.spec.field import spec_fields

    rows = [*((field.path, field.default, field.description) for field in spec_fields() if field.type != "table")]
    rows += [(field.path, field.default, field.description) for field in option_rows()]
    return [{"field": path, "default": default, "means": description} for path, default, description in rows]


def _settings(_: Path, kind: str | None = None) -> list[Row]:
    from twinlens.reporting.reference.setting_page import settings_listed

    return [*settings_listed(kind)]


def _schema(_: Path) -> list[Row]:
    from twinlens.reporting.reference.schema import spec_schema

    return [spec_schema()]


def _runs(out: Path) -> list[Row]:
    return [_run(record.parent) for record in sorted(out.glob("**/run.json"))]


def _run(folder: Path) -> Row:
    """`state`: valid, provisional or not valid of a finished run, else how it ended. `why`: the cause; "" if valid."""
    from twinlens.measurement.summary_file import summary_of
    from twinlens.record.store import read_run
    from twinlens.reporting.wording.finding import label_words

    row = {"run": str(folder), "lens": "?", "model": "?"}
    try:
        run = read_run(folder)
        row |= {"lens": run.lens, "model": run.spec.workload.model}
        if not run.is_finished:
            return row | {"state": "unfinished" if run.state == "running" else run.state, "why": run.error or ""}
        summary = summary_of(run)
    except BadInput as error:
        return row | {"state": "unreadable", "why": str(error)}
    return row | {"state": summary.validity, "why": "" if summary.validity == "valid" else label_words(summary.label)}


_KINDS: dict[str, Callable[[Path], list[Row]]] = {
    "kinds": _kinds,
    "precisions": _precisions,
    "executors": _executors,
    "metrics": _metrics,
    "examples": _examples,
    "fields": _fields,
    "settings": _settings,
    "laws": _laws,
    "schema": _schema,
    "runs": _runs,
}
