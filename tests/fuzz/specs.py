"""Specs that shipped, spoilt: each loads and survives being written and read, or is refused with one sentence."""

from __future__ import annotations

import copy
import random
import tomllib
from pathlib import Path
from typing import Any

from frame import one_sentence

from twinlens.errors import BadInput
from twinlens.spec.load import dump, parse

_ROOT = Path(__file__).parents[2]
_SHIPPED = [
    tomllib.loads(path.read_text(encoding="utf-8")) for path in sorted((_ROOT / "src/twinlens/examples").glob("*.toml"))
]
_VALUES: list[Any] = [
    0, -1, 1, 2, 3.5, 1e99, 1e-99, 2**63, 10**30, True, False, "", "x", "a.b", "fp32", "free", [], [1], ["a"], [1, "a"],
    {}, {"a": 1}, {"kind": "fixed"}, {"kind": "free", "most": 3}, "\x00", "é\u2028", "a\nb", [[]], [{}], "search", "5m",
    float("nan"), float("inf"), None, [None], list(range(300)),
    {"kind": "lognormal", "mean": 2.0, "cv": 9.0, "max": 10**12},
]  # fmt: skip
_FIELDS = [
    "batch", "precision", "rate_per_s", "point.batch", "executor.options.a", "workload.global_batch", "protocol.seed",
    "protocol.repeats", "workload.input_tokens", "workload.data", "name", "repeat", "executor", "x", "kind",
]  # fmt: skip


def check(source: random.Random) -> None:
    """One spec with a few fields spoilt, dropped or added."""
    data = copy.deepcopy(source.choice(_SHIPPED))
    for _ in range(source.choice([1, 1, 1, 2, 3, 6])):
        _spoil(source, data)
    try:
        study = parse(copy.deepcopy(data))
    except BadInput as refused:
        one_sentence(refused)
        return
    again = parse(tomllib.loads(dump(study)))
    assert (again, again.fingerprint()) == (study, study.fingerprint())


def _spoil(source: random.Random, data: dict[str, Any]) -> None:
    table: Any = data
    while True:
        inner = [value for value in table.values() if isinstance(value, dict)]
        if not inner or source.random() < 0.3:
            break
        table = source.choice(inner)
    if source.random() < 0.3:
        sweep = data.setdefault("sweep", {})
        table = sweep if isinstance(sweep, dict) else table
        value = [copy.deepcopy(source.choice(_VALUES)) for _ in range(source.randrange(4))]
        table[source.choice(_FIELDS)] = value
        return
    name = source.choice([*table, source.choice(_FIELDS)])
    if source.random() < 0.15:
        table.pop(name, None)
    else:
        table[name] = copy.deepcopy(source.choice(_VALUES))
