"""A server's process: started, ready or not, and gone, whatever happens to it, to the guard and to us."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from small_recipe import RECIPE

from twinlens.errors import ExecutorFailed
from twinlens.executors.launch.process import Process
from twinlens.executors.launch.ready import free_port, page, wait_until_ready
from twinlens.executors.launch.server import LaunchedServer

SCRIPT = Path(__file__).with_name("small_server.py")


def command(port: int, *manner: str) -> list[str]:
    return [sys.executable, str(SCRIPT), "--port", str(port), *manner]


def lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def waited(true: Callable[[], bool], limit_s: float = 20.0) -> None:
    """Poll real processes; they have no virtual clock."""
    deadline_s = time.monotonic() + limit_s
    while not true():
        assert time.monotonic() < deadline_s, "waited in vain"
        time.sleep(0.02)


def started(tmp_path: Path, *manner: str, grace_s: float = 5.0) -> tuple[Process, int]:
    """A small server that is ready, and its port."""
    port = free_port()
    process = Process(command(port, *manner), os.environ, tmp_path / "log", grace_s)
    wait_until_ready(process, "it", port, "/health", tmp_path / "log", 20.0, lambda phrase: None)
    return process, port


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="only Linux keeps a process to processors")
def test_a_server_and_what_it_starts_are_kept_to_the_processors_asked_for(tmp_path: Path) -> None:
    first = min(os.sched_getaffinity(0))
    process = Process([sys.executable, "-c", "input()"], os.environ, tmp_path / "log", cpus=[first])
    try:
        assert psutil.Process(process.pid).cpu_affinity() == [first]
    finally:
        process.stop()


def test_a_client_keeps_off_the_processors_of_its_server_where_there_are_others() -> None:
    usable = os.sched_getaffinity(0)
    server = LaunchedServer(RECIPE)
    server._keep_off(usable)
    assert os.sched_getaffinity(0) == usable, "there is no other: it shares"
    server._keep_off([min(usable)])
    try:
        assert os.sched_getaffinity(0) == (usable - {min(usable)} or usable)
    finally:
        server.close()
    assert os.sched_getaffinity(0) == usable


def test_a_server_is_ready_runs_and_is_gone_after_it_is_stopped(tmp_path: Path) -> None:
    process, port = started(tmp_path)
    assert process.exit_code() is None
    assert os.getpgid(process.pid) == process.pid != os.getpgid(0)
    process.stop()
    assert not lives(process.pid)
    assert process.exit_code() == -signal.SIGTERM
    assert page(port, "/health")[0] == 0
    process.stop()
    assert (tmp_path / "log").read_text().startswith("the small server starts")


def test_a_server_that_ends_at_once_is_told_by_the_last_line_that_it_raised(tmp_path: Path) -> None:
    process = Process(command(free_port(), "error"), os.environ, tmp_path / "log")
    with pytest.raises(ExecutorFailed, match="it ended with code 1 before it was ready") as caught:
        wait_until_ready(process, "it", 1, "/health", tmp_path / "log", 20.0, lambda phrase: None)
    process.stop()
    assert caught.value.code == "TL303"
    assert "RuntimeError: no weights here; its log is" in str(caught.value)
    assert str(tmp_path / "log") in str(caught.value)


def test_a_server_that_is_never_ready_is_given_up_with_progress_in_between(tmp_path: Path) -> None:
    port, phrases = free_port(), list[str]()
    process = Process(command(port, "never"), os.environ, tmp_path / "log")
    with pytest.raises(ExecutorFailed, match=r"not ready after 1\.5 s .*start_timeout_s") as caught:
        wait_until_ready(process, "it", port, "/health", tmp_path / "log", 1.5, phrases.append)
    assert caught.value.code == "TL304"
    assert phrases == ["it is starting, 1 s"]
    assert process.exit_code() is None
    process.stop()
    assert not lives(process.pid)


def test_a_program_that_is_not_there_is_said_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ExecutorFailed, match="cannot be started") as caught:
        Process(["/no/such/program"], os.environ, tmp_path / "log")
    assert caught.value.code == "TL303"


def test_a_server_deaf_to_the_polite_signal_is_killed_after_the_grace(tmp_path: Path) -> None:
    process, _ = started(tmp_path, "deaf", grace_s=0.3)
    process.stop()
    assert process.exit_code() == -signal.SIGKILL
    assert not lives(process.pid)


def child_of(port: int) -> int:
    file = Path(f"family-{port}.pid")
    waited(lambda: file.exists() and file.read_text() != "")
    return int(file.read_text())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a guard adopt what a server leaves behind")
def test_a_child_in_a_session_of_its_own_goes_with_its_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    process, port = started(tmp_path, "family")
    child = child_of(port)
    assert os.getpgid(child) != process.pid
    process.stop()
    assert not lives(child)
    assert not lives(process.pid)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a guard adopt what a server leaves behind")
def test_a_server_that_is_killed_leaves_no_child_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    process, port = started(tmp_path, "family")
    child = child_of(port)
    os.kill(process.pid, signal.SIGKILL)
    waited(lambda: not lives(child))
    waited(lambda: process.exit_code() is not None)
    assert process.exit_code() == -signal.SIGKILL
    process.stop()


PARENT = """
import os, sys, time
from pathlib import Path
from twinlens.executors.launch.process import Process
process = Process(sys.argv[2:], os.environ, Path(sys.argv[1]))
print(process.pid, process._guard.pid, flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a guard adopt what a server leaves behind")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_a_parent_that_goes_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    monkeypatch.chdir(tmp_path)
    port = free_port()
    words = [sys.executable, "-c", PARENT, str(tmp_path / "log"), *command(port, "family")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as parent:
        assert parent.stdout is not None
        server, guard = map(int, parent.stdout.readline().split())
        child = child_of(port)
        parent.send_signal(number)
        parent.wait()
    waited(lambda: not (lives(server) or lives(guard) or lives(child)))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with the one that started it")
def test_a_guard_that_is_killed_takes_its_server_along(tmp_path: Path) -> None:
    process, _ = started(tmp_path)
    process._guard.kill()
    waited(lambda: not lives(process.pid))
    process.stop()
