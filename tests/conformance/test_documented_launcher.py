"""The launcher in docs/launching-servers.md, installed word for word: it starts a server, and runs are measured."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from documented_package import installed, run, written

SMALL_SERVER = Path(__file__).parents[1] / "executors" / "launch" / "small_server.py"
CONFIG = {
    "model_type": "llama",
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "vocab_size": 64,
    "max_position_embeddings": 512,
}
SPEC = """
    [executor]
    kind = "my-server"
    device = "cpu"
    threads = 1
    [workload]
    kind = "inference"
    model = "./model"
    input_tokens = { kind = "fixed", value = 8 }
    output_tokens = { kind = "fixed", value = 4 }
    arrival = { kind = "closed" }
    [point]
    concurrency = 2
    precision = "bf16"
    [protocol]
    duration_s = 1.0
    repeats = 1
    min_rows = 4
    steady_s = 0
    extend = 0
"""


@pytest.mark.skipif(os.name != "posix", reason="servers are launched on POSIX systems")
def test_the_documented_launcher_starts_a_server_and_measures_it(tmp_path: Path) -> None:
    package, site, work = tmp_path / "package", tmp_path / "site", tmp_path / "work"
    assert {"my_launcher.py", "pyproject.toml"} <= written("launching-servers.md", package)
    installed(package, site)
    shutil.copy(SMALL_SERVER, site / "my_server.py")
    info = site / "my_server-3.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-server\nVersion: 3.0\n")
    (work / "model").mkdir(parents=True)
    (work / "model" / "config.json").write_text(json.dumps(CONFIG))
    (work / "model" / "model.safetensors").write_bytes(b"weights")
    (work / "model" / "tokenizer.json").write_text("{}")
    (work / "mine.toml").write_text(SPEC)
    done = run(site, work, "-m", "twinlens", "measure", "mine.toml", TWINLENS_CACHE=str(tmp_path / "cache"))
    assert done.returncode == 0, done.stderr
    (path,) = work.glob("runs/*/*/run.json")
    record = json.loads(path.read_text())
    facts = record["facts"]["executor"]
    assert record["server"]["kind"] == "my-server"
    assert facts["serving.max_sequences"]["value"] == 7
    assert facts["serving.max_sequences"]["capture"] == "declared", "a server's word is not an observation"
    assert facts["software.runtime.version"]["value"] in ("1.2.3", "3.0")
