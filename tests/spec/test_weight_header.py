"""Headers of weight files: what they tell of a model without a weight being read, and what hostile ones get."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

import twinlens as tl
from twinlens.errors import BadInput
from twinlens.record.codec import encode
from twinlens.spec.model.header import read_gguf, read_safetensors
from weight_files import LLAMA, TENSOR_BYTES, gguf, safetensors


def written(tmp_path: Path, data: bytes, name: str = "model.gguf") -> Path:
    path = tmp_path / name
    path.write_bytes(data)
    return path


def test_a_gguf_tells_its_layers_its_parameters_and_its_bytes(tmp_path: Path) -> None:
    found = read_gguf(written(tmp_path, gguf()))
    assert (found.parameters, found.bytes, found.format) == (256_000 + 65_536 + 256, TENSOR_BYTES, "q4_k_m")
    assert found.shape is not None
    assert (found.shape.layers, found.shape.kv_heads, found.shape.head_dim, found.shape.vocab) == (2, 2, 64, 1000)


def test_an_architecture_that_is_not_read_still_has_its_size(tmp_path: Path) -> None:
    facts = {key.replace("llama", "mystery"): value for key, value in LLAMA.items()} | {
        "general.architecture": "mystery"
    }
    found = read_gguf(written(tmp_path, gguf(facts)))
    assert found.shape is None
    assert found.bytes == TENSOR_BYTES


def test_a_plan_takes_a_gguf_as_it_is_stored(tmp_path: Path) -> None:
    path = written(tmp_path, gguf())
    found = tl.plan.fit(str(path), device="L4", context=512)
    weights = next(each for each in found.answer.asked.parts if each.name == "weights")
    assert weights.value == TENSOR_BYTES
    assert "header of model.gguf" in str(encode(weights))


def test_a_folder_with_its_config_has_layers_and_the_bytes_of_its_files(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(
        '{"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, '
        '"num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 100, "max_position_embeddings": 512}'
    )
    written(tmp_path, safetensors({"a": ("BF16", (1000,), 2000)}), "model-1.safetensors")
    written(tmp_path, safetensors({"b": ("BF16", (500, 2), 2000)}), "model-2.safetensors")
    found = tl.plan.fit(str(tmp_path), device="L4", context=512)
    subject = found.answer.plan.subject
    assert (subject.params, subject.stored_bytes, subject.stored_format) == (2000, 4000, "bf16")
    assert subject.shape is not None


def test_packed_integers_say_no_number_of_weights(tmp_path: Path) -> None:
    path = written(tmp_path, safetensors({"q": ("I32", (1_100_000,), 4_400_000)}), "model.safetensors")
    assert read_safetensors([path]).parameters is None
    with pytest.raises(BadInput, match="packed integers"):
        tl.plan.fit(str(path))


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "ends within"),
        (b"PK\x03\x04" + bytes(100), "no GGUF"),
        (b"GGUF" + struct.pack("<IQQ", 9, 1, 1), "version 9"),
        (b"GGUF" + struct.pack("<IQQ", 3, 2**60, 1), "more than any model"),
        (b"GGUF" + struct.pack("<IQQ", 3, 1, 2**60), "more than any model"),
        (gguf()[:200], "cut off"),
        (gguf(held=10), "shorter than its tensors"),
        (gguf(tensors={"a": (0, (2**40, 2**40))}), "larger than any"),
        (gguf(tensors={"a": (200, (2,))}), "unknown type 200"),
        (gguf(tensors={}), "no tensor"),
        (gguf({"split.count": 5}), "one of 5 parts"),
    ],
)
def test_a_hostile_gguf_is_one_sentence(tmp_path: Path, data: bytes, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        read_gguf(written(tmp_path, data))


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "no safetensors"),
        (struct.pack("<Q", 2**62) + b"{}", "no safetensors"),
        (struct.pack("<Q", 3) + b"{{{" + bytes(10), "no JSON"),
        (struct.pack("<Q", 2) + b"[]", "no table"),
        (struct.pack("<Q", 2) + b"{}", "no tensor"),
        (safetensors({"a": ("BF16", (4,), 9)}), "does not fill its place"),
        (safetensors({"a": ("BF16", (4,), 8)})[:-2], "does not fill its place"),
        (safetensors({"a": ("X9", (4,), 8)}), "unknown type"),
        (safetensors({"a": ("BF16", (-4,), 8)}), "no shape"),
    ],
)
def test_a_hostile_safetensors_is_one_sentence(tmp_path: Path, data: bytes, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        read_safetensors([written(tmp_path, data, "model.safetensors")])
