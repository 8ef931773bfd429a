"""Headers of weight files, spoilt: a model with sizes that can be, or one sentence."""

from __future__ import annotations

import random
import struct
import tempfile
from pathlib import Path

from frame import mutated, one_sentence

from twinlens.errors import BadInput
from twinlens.spec.model.header import read_gguf, read_safetensors
from weight_files import gguf, safetensors

_GGUF = gguf(held=0)
_SAFE = safetensors({"a.weight": ("BF16", (8, 4), 64), "b.weight": ("F32", (3,), 12)})
WORDS = [
    b"\xff" * 8, b"\x00" * 8, struct.pack("<Q", 2**63), struct.pack("<I", 9), b"GGUF", b"BF16", b"null", b"[", b"{",
    b"-1", b"9" * 30, b'"', b"\n", b"I64", b"1e9", b"[[[[[[[[",
]  # fmt: skip


def check(source: random.Random) -> None:
    """One file of either kind; with the bytes of its tensors, or cut off."""
    is_gguf = source.random() < 0.5
    data = mutated(source, _GGUF if is_gguf else _SAFE, WORDS) + bytes(source.choice([0, 0, 200_000]))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        path.write_bytes(data)
        try:
            found = read_gguf(path) if is_gguf else read_safetensors([path])
        except BadInput as refused:
            one_sentence(refused)
            return
        assert 0 < found.bytes < 2**51
        assert found.parameters is None or found.parameters > 0
