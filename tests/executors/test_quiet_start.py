"""What a client does once, before time zero, so that it need not wait later."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc, which only Linux has")


def said_by(code: str, **environment: str) -> str:
    """What a fresh interpreter prints."""
    plain = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    done = subprocess.run([sys.executable, "-c", code], env=plain | environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


STATUS = "status = dict(line.split(':', 1) for line in open('/proc/self/status'))"


@linux_only
def test_the_table_of_open_files_is_large_before_the_first_connection_and_no_file_is_left_open() -> None:
    code = f"""
import os, resource
from twinlens.executors.http_client.limits import make_room
resource.setrlimit(resource.RLIMIT_NOFILE, (5000, 5000))
before = len(os.listdir("/proc/self/fd"))
make_room()
{STATUS}
print(int(status["FDSize"]) >= 4900, len(os.listdir("/proc/self/fd")) == before)
"""
    assert said_by(code) == "True True"


@linux_only
def test_numpy_is_loaded_without_threads_and_what_is_started_later_does_not_inherit_that() -> None:
    code = f"""
import os
from twinlens.system.numpy_threads import load_numpy
load_numpy()
{STATUS}
print(int(status["Threads"]), os.environ.get("OPENBLAS_NUM_THREADS"))
"""
    assert said_by(code) == "1 None"


def test_what_the_user_says_of_numpys_threads_stands() -> None:
    code = "import os; from twinlens.system.numpy_threads import load_numpy; load_numpy(); "
    code += "print(os.environ['OPENBLAS_NUM_THREADS'])"
    assert said_by(code, OPENBLAS_NUM_THREADS="2") == "2"
