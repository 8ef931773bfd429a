"""Random weights in 16 bits are those of fp32, rounded, for every chunk and kind of layer."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="needs the torch extra")

from twinlens.executors.torch.model import build  # noqa: E402
from twinlens.executors.torch.model.build import build_model  # noqa: E402
from twinlens.executors.torch.model.quantize import cast  # noqa: E402
from twinlens.spec.model.reference import load_model  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("model", ["tiny", "vit-tiny"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_model_made_in_16_bits_is_the_fp32_model_rounded(
    model: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "_CHUNK", 1 << 10)
    cpu = torch.device("cpu")
    wide = cast(build_model(load_model(model), "sdpa", 3, cpu), dtype).state_dict()
    made = build_model(load_model(model), "sdpa", 3, cpu, dtype).state_dict()
    assert wide.keys() == made.keys()
    for name, tensor in wide.items():
        assert torch.equal(tensor, made[name]), name


@pytest.mark.parametrize("elements", [1, 16, 1024, 1025, 1039, 1040, 1041, 4096 + 7])
def test_chunks_end_in_whole_blocks_and_cover_everything(elements: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "_CHUNK", 1 << 10)
    chunks = build._chunks(elements)
    assert (chunks[0][0], chunks[-1][1]) == (0, elements)
    assert all(begin % 1024 == 0 for begin, _ in chunks)
    assert len(chunks) == 1 or chunks[-1][1] - chunks[-1][0] >= 16
    torch.manual_seed(5)
    whole = torch.empty(elements).normal_().to(torch.bfloat16)
    torch.manual_seed(5)
    with build.DrawnInFp32():
        assert torch.equal(torch.empty(elements, dtype=torch.bfloat16).normal_(), whole)
