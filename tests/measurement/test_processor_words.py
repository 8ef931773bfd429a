"""What the kernel says of the processor."""

from __future__ import annotations

from pathlib import Path

import pytest

from twinlens.system.processor import x86_lacks


@pytest.mark.parametrize(
    ("text", "lacks"),
    [
        ("flags\t\t: fpu sse2 avx2\n", True),
        ("flags\t\t: fpu sse2 avx2 avx512f\n", False),
        ("Features\t: fp asimd\n", False),
        ("", False),
    ],
)
def test_only_an_x86_processor_that_lists_its_flags_lacks_one(tmp_path: Path, text: str, lacks: bool) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "cpuinfo").write_text(text)
    assert x86_lacks("avx512f", tmp_path) == lacks
