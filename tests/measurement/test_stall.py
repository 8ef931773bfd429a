"""A forced stall: the server stands still for as long as asked, and always goes on."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

import psutil
import pytest

from twinlens.measurement.server.shared import paused
from twinlens.spec.protocol import Stall

# Says how late it wakes when it was stopped: a child of its own does the counting, as servers have workers.
COUNTING = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time\\nwhile True: time.sleep(0.01)"])
print(child.pid, flush=True)
child.wait()
"""


@pytest.fixture
def family() -> Iterator[tuple[psutil.Process, psutil.Process]]:
    parent = subprocess.Popen([sys.executable, "-c", COUNTING], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = psutil.Process(int(parent.stdout.readline()))
    try:
        yield psutil.Process(parent.pid), child
    finally:
        child.kill()
        parent.kill()
        parent.wait()
        parent.stdout.close()


def until(process: psutil.Process, status: str) -> bool:
    """Whether a process comes to be in a state within a minute."""
    give_up_s = time.monotonic() + 60
    while time.monotonic() < give_up_s:
        if (process.status() == psutil.STATUS_STOPPED) == (status == "stopped"):
            return True
        time.sleep(0.005)
    return False


def test_a_stalled_server_stands_still_with_its_children_and_goes_on(family) -> None:
    with paused(family[0].pid, Stall(at_s=0.0, for_s=0.3)):
        assert all(until(one, "stopped") for one in family)
        assert all(until(one, "running") for one in family)


def test_a_stall_ends_with_its_run_even_when_it_was_to_be_longer(family) -> None:
    with paused(family[0].pid, Stall(at_s=0.0, for_s=3600.0)):
        assert all(until(one, "stopped") for one in family)
    assert not any(one.status() == psutil.STATUS_STOPPED for one in family)


def test_a_stall_that_was_not_due_before_the_end_does_not_come(family) -> None:
    with paused(family[0].pid, Stall(at_s=3600.0, for_s=1.0)):
        pass
    assert not any(one.status() == psutil.STATUS_STOPPED for one in family)


def test_a_server_that_is_gone_is_left_in_peace() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    with paused(gone.pid, Stall(at_s=0.0, for_s=0.01)):
        pass
    assert not psutil.pid_exists(gone.pid)
