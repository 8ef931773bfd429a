from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.fixture
def small_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The executor `small-server`, installed for this test and the processes that it starts, and a cache of its own."""
    from small_recipe import ENTRY_POINTS

    site = tmp_path / "site"
    info = site / "small_server-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: small-server\nVersion: 1\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(str(site))
    paths = [str(site), str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    monkeypatch.setenv("TWINLENS_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    yield model_folder(tmp_path / "model")
    shutil.rmtree(site)


def model_folder(folder: Path) -> Path:
    """What a launcher takes for a model: a config, weights and a tokenizer, none of which the small server reads."""
    folder.mkdir()
    config = '{"model_type": "llama", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1,'
    config += '"num_attention_heads": 2, "vocab_size": 64, "max_position_embeddings": 512}'
    (folder / "config.json").write_text(config)
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "tokenizer.json").write_text("{}")
    return folder
