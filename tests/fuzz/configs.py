"""Model configs of the catalogue, spoilt: each gives a shape whose parameters can be counted, or one sentence."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from frame import one_sentence

from twinlens.errors import BadInput
from twinlens.spec.model.config import shape_from_config
from twinlens.theory.parameter import parameters

_FOLDER = Path(__file__).parents[2] / "src/twinlens/spec/catalog/models"
_SHIPPED = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(_FOLDER.glob("*.json"))]
_VALUES: list[Any] = [
    0, -1, 1, 7, 2**40, 10**30, 1.5, float("nan"), True, None, "", "x", "llama", [], [1], [0] * 4, {}, {"a": 1},
]  # fmt: skip


def check(source: random.Random) -> None:
    """One config with a few fields spoilt, dropped, or taken from another's."""
    config = dict(source.choice(_SHIPPED))
    for _ in range(source.choice([1, 1, 2, 4])):
        other = source.choice(_SHIPPED)
        name = source.choice(sorted({*config, *other}))
        if source.random() < 0.2:
            config.pop(name, None)
        else:
            config[name] = source.choice([other.get(name), *_VALUES])
    try:
        total = parameters(shape_from_config(config)).total
    except BadInput as refused:
        one_sentence(refused)
        return
    assert total > 0
