"""An inference request that is given its inputs in place: a tensor made for each token takes a tenth of a small one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import openvino


class InPlace:
    """`request`: OpenVINO's own. Its inputs lie in arrays of ours, which are written again while their shapes stay.

    `request.infer` of a mapping looks up, converts and copies each input, and copies all outputs: 0.4 ms were seen.
    """

    def __init__(self, request: Any) -> None:
        self.request = request
        self._inputs: dict[str, tuple[np.ndarray, np.ndarray]] = {}  # what was given last, and where it lies

    def logits(self, inputs: Mapping[str, np.ndarray]) -> np.ndarray:
        """The tensor of logits, by the graph's inputs, each of its own element type; a view. Arrays are not changed
        after they were given."""
        for name, given in inputs.items():
            last, held = self._inputs.get(name, (None, None))
            if last is given:
                continue  # the same constant as before
            if held is not None and held.shape == given.shape:
                held[...] = given
            else:
                held = np.array(given, order="C")
                self.request.set_tensor(name, openvino.Tensor(held, shared_memory=True))
            self._inputs[name] = given, held
        self.request.infer(share_outputs=True)
        logits: np.ndarray = self.request.get_tensor("logits").data
        return logits


def positions(rows: int, length: int, at: int) -> np.ndarray:
    """(rows, length): `at` and after, in each row."""
    one = np.arange(at, at + length)[None]
    return one if rows == 1 else one.repeat(rows, axis=0)
