"""Fields of a spec that have a default and that nobody said: of programs that Twinlens watches or reads."""

from __future__ import annotations

from typing import Any

from twinlens.spec.frozen import Spec

WATCHED, FROM_LOG = "own-loop", "trainer-log"
UNSAID = {"workload": ("learning_rate",), "protocol": ("seed", "duration_s")}
UNSAID_PATHS = tuple(f"{table}.{name}" for table, names in UNSAID.items() for name in names)


def without_unsaid(data: dict[str, Any], kind: str, **parts: Spec) -> dict[str, Any]:
    """`data` of a spec without the fields that belong to the program and that nobody said.

    `kind`: of the executor. `parts`: the tables as values, which know what was said. No spec file describes a watched
    loop, so nobody can have said them there.
    """
    if kind not in (WATCHED, FROM_LOG):
        return data
    for table, names in UNSAID.items():
        said = frozenset() if kind == WATCHED else parts[table].model_fields_set
        data[table] = {name: value for name, value in data[table].items() if name not in names or name in said}
    return data
