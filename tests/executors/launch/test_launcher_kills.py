"""Every launcher's own command line under SIGKILL: the runtime is a stand-in, the guard and the processes are real."""

from __future__ import annotations

import os
import signal
import socket
import stat
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from small_recipe import RECIPE
from test_launch_process import child_of, lives, waited
from test_launch_study import served

from material import fixed, inference, spec_of
from twinlens.errors import ExecutorFailed
from twinlens.executors.launch import server as launching
from twinlens.executors.launch.options import settings_of
from twinlens.executors.launch.process import Process
from twinlens.executors.launch.ready import free_port, wait_until_ready
from twinlens.executors.launch.recipe import Recipe
from twinlens.executors.launch.runtime import llama_cpp, sglang, tensorrt_llm, transformers_serve, vllm
from twinlens.executors.launch.server import LaunchedServer, order_of
from twinlens.system import log as log_folders

SCRIPT = Path(__file__).with_name("small_server.py")
RECIPES = [transformers_serve.RECIPE, vllm.RECIPE, llama_cpp.RECIPE, sglang.RECIPE, tensorrt_llm.RECIPE]


def stand_in(folder: Path) -> str:
    """An interpreter, and a trtllm-serve beside it, that is the small server whatever it is asked to run."""
    for name in ("python", "trtllm-serve"):
        script = folder / name
        script.write_text(f'#!/bin/sh\nexec {sys.executable} {SCRIPT} "$@" family\n')
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return str(folder / "python")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a guard adopt what a server leaves behind")
@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.kind)
def test_a_killed_server_of_any_launcher_leaves_no_process(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.gguf").write_bytes(b"GGUF")
    options = {"gguf": str(tmp_path / "x.gguf")} if recipe.needs_gguf else {}
    spec = spec_of(inference(recipe.kind, "small", options=options, point={"precision": "bf16"}, input_tokens=fixed(8)))
    settings = settings_of(recipe.kind, options, stand_in(tmp_path), recipe.graphs, recipe.switches)
    port = free_port()
    made = recipe.command(order_of(recipe, spec, settings, folder="/models/small", port=port))
    log = tmp_path / "log"
    process = Process(made.argv, {**os.environ, **made.environment}, log)
    try:
        wait_until_ready(process, recipe.name, port, recipe.ready, log, 20.0, lambda phrase: None)
        child = child_of(port)
        os.kill(process.pid, signal.SIGKILL)
        waited(lambda: process.exit_code() is not None)
        waited(lambda: not lives(child))
        assert process.exit_code() == -signal.SIGKILL
    finally:
        process.stop()
    assert not lives(process.pid)


def test_another_program_on_the_port_is_not_taken_for_the_server(
    tmp_path: Path, small_server: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = spec_of(served(small_server))
    port = free_port()
    other = Process([sys.executable, str(SCRIPT), "--port", str(port)], os.environ, tmp_path / "other")
    try:
        wait_until_ready(other, "it", port, "/health", tmp_path / "other", 20.0, lambda phrase: None)
        ports = iter([port, free_port()])
        monkeypatch.setattr(launching, "free_port", lambda: next(ports))
        up = LaunchedServer(RECIPE).launch(spec, tmp_path / "log", lambda phrase: None)
        try:
            assert not up.running.url.endswith(f":{port}/v1"), "the second try took another port"
        finally:
            up.stop()
        monkeypatch.setattr(launching, "free_port", lambda: port)
        with pytest.raises(ExecutorFailed, match=r"in use") as caught:
            LaunchedServer(RECIPE).launch(spec, tmp_path / "log", lambda phrase: None)
        assert caught.value.code == "TL303"
    finally:
        other.stop()


def test_a_folder_for_logs_goes_with_its_server_or_when_its_owner_is_gone(
    tmp_path: Path, small_server: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr(log_folders.tempfile, "gettempdir", lambda: str(temporary))
    monkeypatch.setattr(log_folders.tempfile, "tempdir", str(temporary))
    me = f"{os.getpid()} {psutil.Process().create_time()!r}"
    left: dict[str, Any] = {"dead": f"{os.getpid()} 1.0", "mine": me, "being-made": None, "broken": "x"}
    for name, owner in left.items():
        (temporary / f"twinlens-server-{name}").mkdir()
        if owner is not None:
            (temporary / f"twinlens-server-{name}" / "owner").write_text(owner)
    server = LaunchedServer(RECIPE)
    server.open(spec_of(served(small_server)), lambda phrase: None)
    try:
        names = {path.name.removeprefix("twinlens-server-") for path in temporary.glob("twinlens-server-*")}
        assert len(names - {"mine", "being-made", "broken"}) == 1, "its own; that of a dead owner is gone"
    finally:
        server.close()
    assert {path.name.removeprefix("twinlens-server-") for path in temporary.iterdir()} == {
        "mine",
        "being-made",
        "broken",
    }


def test_a_port_is_known_to_be_free_or_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert launching.is_taken(listener.getsockname()[1])
