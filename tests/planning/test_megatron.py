"""Memory of Megatron's GPTs against the figures of the paper that measured them."""

from __future__ import annotations

import pytest
from benchmarks.prediction.megatron import megatron_bytes, megatron_state_bytes

from twinlens.spec.model.reference import load_model
from twinlens.theory.memory import LAYOUTS

EACH = LAYOUTS["16-bit-fp32-master-and-gradients"].total
GIB = 2.0**30


def test_megatrons_memory_is_that_of_the_paper() -> None:
    """Korthikanti et al., arXiv 2205.05198: 22B on 8 devices, 530B on 280 with an interleaved pipeline."""
    small, large = load_model("megatron-22b").shape, load_model("megatron-530b").shape
    assert megatron_state_bytes(small, EACH, tensor=8) / GIB == pytest.approx(45.5625, rel=1e-3)
    assert megatron_bytes(small, 4, 2048, tensor=8) / GIB == pytest.approx(59.25, rel=1e-3)
    split = {"tensor": 8, "pipeline": 35, "chunks": 3, "sequence_parallel": True}
    assert megatron_bytes(large, 1, 2048, "selective", **split) / GIB == pytest.approx(23.076, rel=1e-3)
