"""Two real vLLM servers behind a gateway, one killed in mid-answer: greedy text is the uninterrupted one."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import pytest
from tests.gateway.scripted import Kept, in_loop, text_of

from twinlens.gateway.app import App
from twinlens.gateway.backend import Backend
from twinlens.gateway.launching import backends_of, backends_up
from twinlens.gateway.limits.gate import Gate
from twinlens.gateway.serve import listen, running, url_of
from twinlens.gateway.settings import GatewaySettings

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".venv-vllm" / "bin" / "python"
TOKENS, LOST_AFTER = 120, 30
# Penalties of repetition count the prompt too, so they are the same after an answer went on; without them such a small
# model says one word for ever, and nothing could be told apart.
ASKED = {
    "messages": [{"role": "user", "content": "once upon a time"}], "max_tokens": TOKENS, "temperature": 0,
    "repetition_penalty": 1.7, "ignore_eos": True, "stream": True, "stream_options": {"include_usage": True},
}  # fmt: skip

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(not PYTHON.exists(), reason="needs .venv-vllm: make test-vllm builds it and runs this"),
]


def test_with_continue_the_text_is_the_uninterrupted_one_token_for_token(tmp_path: Path) -> None:
    listed = []
    for name, cpu in (("a", 0), ("b", 1)):
        (tmp_path / f"{name}.toml").write_text(_spec(cpu))
        listed.append({"name": name, "launch": f"{name}.toml", "weights": "one"})
    plain = {"policy": "round-robin", "stream_failure": "continue", "backend": listed}
    settings = GatewaySettings.model_validate_json(json.dumps(plain))
    with backends_up(settings, tmp_path, tmp_path / "out", lambda sentence: None) as ups:
        in_loop(_one_is_killed(settings, backends_of(settings, ups)))


async def _one_is_killed(settings: GatewaySettings, backends: tuple[Backend, ...]) -> None:
    kept, listening = Kept(), listen("127.0.0.1", 0)
    app = App(settings, backends, Gate(settings), kept)
    async with running(app, listening), aiohttp.ClientSession() as client:
        assert all(each.gives_token_ids for each in app.router.backends)
        whole, _ = await _asked(client, url_of(listening), {})
        again, _ = await _asked(client, url_of(listening), {})
        assert whole == again, "two servers of one model say the same"
        assert len(set(whole.split())) > 3
        joined, usage = await _asked(client, url_of(listening), {each.name: each.url for each in backends})
    assert joined == whole
    told = kept.outcomes[-1]
    assert [each.failure for each in told.attempts] == ["broken", ""]
    assert told.ending == "ok"
    assert usage == {"prompt_tokens": told.input_tokens, "completion_tokens": TOKENS,
                     "total_tokens": (told.input_tokens or 0) + TOKENS}  # fmt: skip


async def _asked(client: aiohttp.ClientSession, url: str, killed: dict[str, str]) -> tuple[str, Any]:
    """The text and the counts of an answer; with `killed` its backend is, in the middle."""
    data, events = b"", 0
    async with client.post(f"{url}/chat/completions", json=ASKED) as answer:
        async for read in answer.content.iter_any():
            data, events = data + read, events + read.count(b"\n\n")
            if killed and events >= LOST_AFTER:
                port = int(killed[answer.headers["X-Twinlens-Backend"]].removesuffix("/v1").rpartition(":")[2])
                os.kill(_listener(port), signal.SIGKILL)
                killed = {}
    last = [json.loads(each[6:]) for each in data.split(b"\n\n") if each[:7] == b"data: {"][-1]
    return text_of(data), last["usage"]


def _listener(port: int) -> int:
    return next(
        each.pid
        for each in psutil.net_connections("tcp")
        if each.status == "LISTEN" and each.laddr.port == port and each.pid
    )


def _spec(cpu: int) -> str:
    return f"""schema = 1
name = "behind-a-gateway"
[executor]
kind = "vllm"
device = "cpu"
threads = 1
[executor.options]
graph = "eager"
python = "{PYTHON}"
cpus = [{cpu}]
env = {{ VLLM_CPU_KVCACHE_SPACE = "1" }}
args = ["--max-num-seqs", "4"]
start_timeout_s = 600
[workload]
kind = "inference"
model = "small"
input_tokens = {{ kind = "fixed", value = 16 }}
output_tokens = {{ kind = "fixed", value = 16 }}
arrival = {{ kind = "poisson" }}
[point]
precision = "bf16"
rate_per_s = 1
"""
