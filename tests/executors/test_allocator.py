"""`executor.options.freed_memory = "kept"`: a step asks the system for no memory that the step before has freed."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from twinlens.errors import BadInput
from twinlens.executors.torch import device

BLOCK = 40 << 20  # above what glibc ever keeps unasked
COUNT = """
import ctypes, resource, sys
if sys.argv[1] == "kept":
    from twinlens.executors.torch.device import keep_freed_memory
    keep_freed_memory()
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
def touch():
    block = libc.malloc(int(sys.argv[2]))
    ctypes.memset(block, 1, int(sys.argv[2]))
    libc.free(block)
touch()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
touch()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(how: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", COUNT, how, str(BLOCK)], capture_output=True, text=True, timeout=60, check=True
    )
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="freed_memory is a setting of glibc's malloc")
def test_a_block_that_was_freed_is_had_again_without_page_faults() -> None:
    assert faults("returned") > 10 * max(1, faults("kept"))


def test_another_c_library_is_refused_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device.platform, "libc_ver", lambda: ("musl", "1.2"))
    with pytest.raises(BadInput, match="needs glibc") as refused:
        device.keep_freed_memory()
    assert refused.value.code == "TL207"
