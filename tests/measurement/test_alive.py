"""A process is told by its pid and when it began, as two processes that read it may see a second apart."""

from __future__ import annotations

import os
import subprocess
import sys

import psutil

from each import each
from twinlens.system.processes import is_alive


@each([0.0, 1.0, -1.0, 2.0])
def test_a_process_lives_though_the_clock_was_set_since_it_was_seen(apart_s: float) -> None:
    assert is_alive(os.getpid(), psutil.Process().create_time() + apart_s)


@each([-3600.0, 60.0])
def test_another_process_of_that_number_is_not_the_one_that_was_meant(apart_s: float) -> None:
    assert not is_alive(os.getpid(), psutil.Process().create_time() + apart_s)


def test_a_process_that_has_ended_does_not_live() -> None:
    done = subprocess.Popen([sys.executable, "-c", ""])
    born_s = psutil.Process(done.pid).create_time()
    done.wait()
    assert not is_alive(done.pid, born_s)
