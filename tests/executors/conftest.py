from __future__ import annotations

import json
from pathlib import Path

import pytest

_ONE_LAYER = {
    "model_type": "llama",
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "vocab_size": 64,
    "max_position_embeddings": 64,
    "tie_word_embeddings": False,
}


@pytest.fixture
def one_layer(tmp_path: Path) -> str:
    """The config of the smallest decoder there is: compiling takes seconds for every layer."""
    file = tmp_path / "one-layer.json"
    file.write_text(json.dumps(_ONE_LAYER))
    return str(file)
