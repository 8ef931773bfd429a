"""A burn-in of the fake executor: no machine, no waiting, and everything else as it is."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from twinlens.acceptance.driving.counters import Reading
from twinlens.acceptance.driving.drive import Means
from twinlens.acceptance.driving.products import Digests
from twinlens.acceptance.window import Window, read_burnin
from twinlens.api.measuring.burnin import BurninResult, burnin
from twinlens.spec.load import parse
from twinlens.spec.study import Study

SOUND = {"cpu": {"product fp32": "0123456789abcdef"}}


def means(products: Sequence[Digests] = (SOUND,), counters: Callable[[], Sequence[Reading]] | None = None) -> Means:
    """Without a machine; `products`: what they give one after another, the last one for ever."""
    given = itertools.chain(products, itertools.repeat(products[-1]))
    read = counters or (lambda: (Reading("cpu", {"ecc_corrected": 0}, temperature_c=50.0),))
    return Means(lambda: (next(given), ""), read, sleep=lambda seconds: None)


def training(name: str = "training", **options: Any) -> Study:
    return _study(name, {"kind": "training", "model": "tiny", "global_batch": 4, "seq_len": 64}, options)


def decode(name: str = "decode", **options: Any) -> Study:
    lengths = {"input_tokens": {"kind": "fixed", "value": 64}, "output_tokens": {"kind": "fixed", "value": 12}}
    return _study(name, {"kind": "inference", "model": "tiny", **lengths}, options)


def _study(name: str, workload: dict[str, Any], options: dict[str, Any]) -> Study:
    protocol = {"isolate": False, "telemetry_s": 100.0}
    return parse({"name": name, "executor": {"kind": "fake", "options": options}, "workload": workload,
                  "protocol": protocol})  # fmt: skip


def driven(out: Path, *studies: Study, by: Means | None = None, **words: Any) -> BurninResult:
    """Two minutes of two workloads in turns of half a minute and windows of ten seconds, unless said otherwise."""
    asked = {"for_": "120s", "turn": "30s", "window": "10s", "rest": "0s", "out": out} | words
    return burnin(*(studies or (training(), decode())), watch=None, means=by or means(), **asked)


def folder_of(out: Path) -> Path:
    (only,) = out.glob("*_burnin_*")
    return only


def refuse_unsound(out: Path) -> tuple[Window, ...]:
    """The windows of the only burn-in: numbered without a gap, each once, one after another on the test's clock."""
    _, windows = read_burnin(folder_of(out))
    assert [each.number for each in windows] == list(range(1, len(windows) + 1))
    assert len({(each.turn, each.begin_s) for each in windows}) == len(windows)
    assert all(later.begin_s >= one.begin_s + one.seconds - 1e-6 for one, later in itertools.pairwise(windows))
    return windows
