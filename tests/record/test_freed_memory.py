"""Memory that was freed stays in the process: a second array of the same size takes no new pages."""

from __future__ import annotations

import json
import platform
import subprocess
import sys

import pytest

from twinlens.system import freed_memory
from twinlens.system.freed_memory import keep_freed_memory

_FAULTS = """
import json, resource, sys
import numpy as np
import pyarrow as pa
if sys.argv[1] == "keep":
    from twinlens.system.freed_memory import keep_freed_memory
    keep_freed_memory()
np.ones(1 << 23)  # 64 MiB, more than glibc learns to keep by itself, freed at once
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
np.ones(1 << 23)
faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
print(json.dumps([pa.default_memory_pool().backend_name, faults]))
"""


def faults_of(way: str) -> tuple[str, int]:
    done = subprocess.run([sys.executable, "-c", _FAULTS, way], capture_output=True, text=True, check=True, timeout=60)
    pool, faults = json.loads(done.stdout)
    return pool, faults


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be asked to keep freed memory")
def test_a_second_array_of_the_same_size_takes_no_new_pages() -> None:
    pool, kept = faults_of("keep")
    assert pool == "system"
    assert kept < faults_of("as it is")[1]


def test_where_it_cannot_be_asked_for_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freed_memory.sys, "platform", "darwin")
    monkeypatch.setattr(freed_memory.ctypes, "CDLL", lambda name: pytest.fail("the C library was asked"))
    keep_freed_memory()


def test_a_c_library_that_has_no_mallopt_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freed_memory.sys, "platform", "linux")
    asked: list[None] = []
    monkeypatch.setattr(freed_memory.ctypes, "CDLL", lambda name: asked.append(name) or object())
    keep_freed_memory()
    assert asked == [None]
