"""`--set path=value`: fields changed from outside a file, before the spec is checked. What is set is what runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, get_args

from twinlens.errors import BadInput, nearest
from twinlens.spec.study import put_at, tables_of
from twinlens.spec.workload.workload import InferenceWorkload
from twinlens.system.document import Unreadable, toml_value

_DEFAULT_KINDS = {"workload.data": "markov", "workload.input_tokens": "fixed", "workload.output_tokens": "fixed"}
_LOADS = {"rate_per_s": ("closed", "single-stream"), "concurrency": ("constant", "poisson", "gamma")}
"""The two ways of saying how hard, each with the kinds of arrival that only the other one drives."""


def apply_settings(data: dict[str, Any], settings: Iterable[str]) -> None:
    """Change spec data in place. Raises BadInput (TL204) for what is no setting."""
    settings = tuple(settings)
    given = {setting.partition("=")[0].strip() for setting in settings}
    for setting in settings:
        _apply(data, setting, given)
    _one_load(data, given)


def _apply(data: dict[str, Any], setting: str, given: set[str]) -> None:
    path, equals, text = setting.partition("=")
    path, text = path.strip(), text.strip()
    if not equals or not path:
        raise BadInput(f"--set wants path=value, not {setting!r}; for example --set point.batch=8", code="TL204")
    if not text:
        _unset(data, path)
        return
    try:
        value = toml_value(text)
    except Unreadable as error:
        raise BadInput(f"--set {path} cannot be read: {error}", code="TL204") from None
    try:
        _of_kind(data, path, value, given)
        put_at(data, path, value)
        for union, kind in _DEFAULT_KINDS.items():  # a field of a table that the file leaves out: of its default kind
            if path.startswith(f"{union}."):
                data["workload"][union.partition(".")[2]].setdefault("kind", kind)
    except TypeError as error:
        raise BadInput(f"--set {setting}: {error}", code="TL204") from None
    _replace(data, path, value)


def _of_kind(data: dict[str, Any], path: str, kind: Any, given: set[str]) -> None:
    """Where a `kind` is changed, drop what the new one does not have and no setting gave; the longest length stays."""
    of, _, last = path.rpartition(".")
    parent, _, name = of.rpartition(".")
    field = InferenceWorkload.model_fields.get(name) if (parent, last) == ("workload", "kind") else None
    known = {} if field is None else _kinds(field.annotation)
    table = _table(_table(data, "workload"), name)
    if not isinstance(kind, str) or kind not in known or table.get("kind", _DEFAULT_KINDS.get(of)) == kind:
        return
    longest = table.get("value", table.get("max"))
    for other in [key for key in table if key not in known[kind] and f"{of}.{key}" not in given]:
        del table[other]
    if longest is not None and "most" in known[kind]:
        table.setdefault("most", longest)


def _kinds(union: Any) -> dict[str, set[str]]:
    """The fields of each kind of a union of tables."""
    tables = [each for each in get_args(union) if "kind" in getattr(each, "model_fields", {})]
    return {kind: set(each.model_fields) for each in tables for kind in get_args(each.model_fields["kind"].annotation)}


def _unset(data: dict[str, Any], path: str) -> None:
    """`--set path=`: as if the file did not say it. A text that is empty is written `--set path='""'`."""
    *parents, last = tables_of(path)
    table: Any = data
    for parent in parents:
        table = table.get(parent) if isinstance(table, dict) else None
    if not isinstance(table, dict) or last not in table:
        raise BadInput(f"--set {path}= would unset {path}, and this spec does not set it; leave it out", code="TL204")
    del table[last]


def _replace(data: dict[str, Any], path: str, value: Any) -> None:
    """A value replaces a sweep and a search over the same field, and a search both others."""
    kind, _, field = path.partition(".")
    if path == "search.over":
        kind, field = "search", str(value)
    if path in ("sweep.executor.kind", "executor.kind") and variants_in(data):
        _narrow(data, value)
        return
    if field.startswith("executor.options."):  # an option belongs to the executors of the variants that name it
        named = [grid for grid in variants_in(data) if field in grid]
        for grid in named:
            grid[field] = value
        if named:
            del data["sweep"][field]
            return
    if kind == "sweep":  # a variant's own values would go before it
        _drop({"variants": variants_in(data)}, "sweep", field.removeprefix("point."))
    if kind in ("executor", "workload", "protocol"):
        kind, field = "point", path
    holders = {"point": ("sweep", "search"), "sweep": ("search",), "search": ("sweep", "point")}.get(kind, ())
    for holder in holders:
        _drop(data, holder, field)


def _narrow(data: dict[str, Any], asked: Any) -> None:
    """Keep the variants of the executors that are asked for: what else a variant says is meant for its own executor.

    Raises BadInput (TL204) where an executor that is asked for has no variant."""
    _table(data, "sweep").pop("executor.kind", None)
    base = _table(data, "executor").get("kind", "torch")
    kinds = [_listed(grid.get("executor.kind", base)) for grid in variants_in(data)]
    known = dict.fromkeys(str(kind) for each in kinds for kind in each)
    asked = _listed(asked)
    for kind in asked:
        if kind not in known:
            raise BadInput(
                f"executor.kind={kind}: no variant of this spec has that executor; {nearest(str(kind), known)}",
                code="TL204",
            )
    kept = []
    for grid, own in zip(variants_in(data), kinds, strict=True):
        if left := [kind for kind in own if kind in asked]:
            kept.append(grid | ({"executor.kind": left} if "executor.kind" in grid else {}))
    data["variants"] = kept


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _drop(data: dict[str, Any], holder: str, field: str) -> None:
    table = data.get(holder)
    if holder == "sweep":
        for variant in variants_in(data):
            variant.pop(field, None)
            variant.pop(f"point.{field}", None)
    if not isinstance(table, dict):
        return
    if holder != "search":
        table.pop(field, None)
    elif field == table.get("over", "rate_per_s"):
        del data["search"]


def _one_load(data: dict[str, Any], paths: set[str]) -> None:
    """A rate that is set takes the place of the file's concurrency and closed loop, and the reverse."""
    searched = _table(data, "search").get("over", "rate_per_s") if "search.over" in paths else None
    given = [field for field in _LOADS if searched == field or paths & {f"point.{field}", f"sweep.{field}"}]
    if len(given) != 1:
        return
    (other,) = set(_LOADS) - set(given)
    for holder in ("point", "sweep", "search"):
        _drop(data, holder, other)
    workload = _table(data, "workload")
    is_free = not any(path.startswith("workload.arrival") for path in paths)
    if is_free and _table(workload, "arrival").get("kind") in _LOADS[given[0]]:
        del workload["arrival"]


def choose_arrival(data: dict[str, Any]) -> None:
    """Give a workload of requests that names no arrival the one that its point implies: Poisson for a rate, a closed
    loop for a concurrency."""
    workload = _table(data, "workload")
    if workload.get("kind") != "inference" or "arrival" in workload:
        return
    swept = swept_fields(data)
    over = _table(data, "search").get("over", "rate_per_s") if "search" in data else None
    for field, kind in (("rate_per_s", "poisson"), ("concurrency", "closed")):
        if field in _table(data, "point") or field in swept or field == over:
            workload["arrival"] = {"kind": kind}
            return


def swept_fields(data: dict[str, Any]) -> set[str]:
    """The fields that the sweep or a variant of spec data names; those of the point without their table's name."""
    return {path.removeprefix("point.") for grid in (_table(data, "sweep"), *variants_in(data)) for path in grid}


def variants_in(data: dict[str, Any]) -> list[dict[str, Any]]:
    """The variants of spec data that are tables; whatever else stands there is refused by the check of types."""
    variants = data.get("variants")
    return [grid for grid in variants if isinstance(grid, dict)] if isinstance(variants, list) else []


def _table(data: Any, name: str) -> dict[str, Any]:
    table = data.get(name)
    return table if isinstance(table, dict) else {}
