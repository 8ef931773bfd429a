"""The usual estimate of training, to compare with: one median MFU per device, of dense models and of experts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from benchmarks.prediction.case import Case
from benchmarks.prediction.facts import TRAINING_KINDS, shape_of
from benchmarks.prediction.training import Training


def by_one_mfu(cases: Sequence[Case], *, own_model: bool) -> np.ndarray:
    """Predicted values, nan where a device has no other row. `own_model`: rows of the same model count too.

    MFU is FLOP of a step, causal attention included, over the rate in the row's format. Training rows only.
    """
    asked = Training(cases)
    work, layout = asked.work, asked.layout
    passes = 3.0 - layout.frozen
    active = work.dense_weights + work.head_weights + work.expert_weights * work.chosen / work.experts
    per_token = passes * (2.0 * active + work.prefill_pair_full * asked.length / 2.0)
    ideal_s = per_token * asked.batch * asked.length / (asked.rates.flop_per_s * asked.devices)
    tokens = asked.batch * asked.length / asked.devices
    step_s = np.where(asked.is_rate, tokens / asked.measured, asked.measured)
    groups: dict[tuple[str, bool], list[int]] = defaultdict(list)
    for i, case in enumerate(cases):
        assert case.kind in TRAINING_KINDS
        groups[(case.card.name, bool(shape_of(case).experts))].append(i)
    said_s = np.full(len(cases), np.nan)
    for members in groups.values():
        for i in members:
            known = [j for j in members if own_model or cases[j].model != cases[i].model]
            if known:
                said_s[i] = ideal_s[i] / np.median([ideal_s[j] / step_s[j] for j in known])
    return np.where(asked.is_rate, tokens / said_s, said_s)
