"""The gateways, each in a process of its own before the same server: how each is started, and what it spends."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

HERE = Path(__file__).parent
_OFFLINE = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_TELEMETRY": "False", "LITELLM_LOG": "ERROR",
            "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
            "NO_PROXY": "*", "HF_HUB_OFFLINE": "1"}  # fmt: skip
_UP_S = 90.0


@dataclass(slots=True)
class Way:
    """One that is up. `url`: as far as the port; `start_s`: processor seconds until it answered."""

    name: str
    url: str
    process: psutil.Process
    start_s: float = 0.0

    def spent_s(self) -> float:
        """Processor seconds of it and its children so far, by the scheduler's own count of each thread."""
        return sum(_of(each) for each in [self.process, *self.process.children(recursive=True)])

    def resident_bytes(self) -> int:
        """Of it and its children."""
        return sum(each.memory_info().rss for each in [self.process, *self.process.children(recursive=True)])


def _of(process: psutil.Process) -> float:
    try:
        threads = list(Path(f"/proc/{process.pid}/task").iterdir())
        return sum(int((each / "schedstat").read_text().split()[0]) for each in threads) / 1e9
    except OSError:
        times = process.cpu_times()
        return float(times.user + times.system)


def free_port() -> int:
    """One that nobody listens at now."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def commands(peers: Path, folder: Path, upstream: str) -> dict[str, tuple[list[str], int]]:
    """Command and port of each that can be started here. `peers`: a folder with an environment for each peer."""
    found: dict[str, tuple[list[str], int]] = {}
    port = free_port()
    found["bare aiohttp"] = [sys.executable, str(HERE / "splice.py"), str(port), upstream], port
    port = free_port()
    found["bare sockets"] = [sys.executable, str(HERE / "sockets.py"), str(port), upstream], port
    port = free_port()
    config = folder / "ours.toml"
    config.write_text(f'port = {port}\nout = "rows"\n\n[[backend]]\nname = "null"\nurl = "{upstream}/v1"\n')
    found["ours"] = [sys.executable, "-m", "twinlens.cli.main", "gateway", str(config)], port
    for name, words in (("vllm-router", []), ("sglang-router", ["launch"])):
        program, port = peers / name / "bin" / name, free_port()
        if program.exists():
            told = ["--worker-urls", upstream, "--host", "127.0.0.1", "--port", str(port), "--policy", "round_robin",
                    "--prometheus-port", str(free_port()), "--log-level", "error"]  # fmt: skip
            found[name] = [str(program), *words, *told], port
    program, port = peers / "litellm" / "bin" / "litellm", free_port()
    if program.exists():
        config = folder / "litellm.yaml"
        config.write_text(
            "model_list:\n  - model_name: 'null'\n    litellm_params:\n      model: openai/null\n"
            f"      api_base: {upstream}/v1\n      api_key: none\n"
        )
        found["LiteLLM"] = [str(program), "--config", str(config), "--host", "127.0.0.1", "--port", str(port)], port
    return found


def versions(peers: Path) -> dict[str, str]:
    """Of the peers that are there."""
    found = {}
    for name in ("vllm-router", "sglang-router", "litellm"):
        folders = list((peers / name).glob(f"lib/python*/site-packages/{name.replace('-', '_')}-*.dist-info"))
        if folders:
            found[name] = folders[0].name.removesuffix(".dist-info").rpartition("-")[2]
    return found


@contextlib.contextmanager
def up(name: str, command: Sequence[str], port: int, folder: Path) -> Iterator[Way]:
    """The process, once it answers a plain request. Raises RuntimeError with its last words where it does not."""
    log = folder / f"{name.replace(' ', '-')}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, cwd=folder, env=os.environ | _OFFLINE)
    try:
        way, until = Way(name, f"http://127.0.0.1:{port}", psutil.Process(process.pid)), time.monotonic() + _UP_S
        while not _answers(way.url):
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"{name} does not answer: {log.read_text(errors='replace')[-600:].strip()}")
            time.sleep(0.2)
        way.start_s = way.spent_s()
        yield way
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _answers(url: str) -> bool:
    body = b'{"model":"null","messages":[{"role":"user","content":"hi"}],"max_tokens":4}'
    request = urllib.request.Request(f"{url}/v1/chat/completions", body, {"Content-Type": "application/json"})
    with contextlib.suppress(OSError, urllib.error.URLError), urllib.request.urlopen(request, timeout=10) as answer:
        return bool(answer.status == 200)
    return False
