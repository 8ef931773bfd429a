"""The benchmarks are run by hand; that they still start is held here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted(file for file in (ROOT / "benchmarks").rglob("*.py") if file.name not in ("__init__.py", "__main__.py"))
NAMES = [".".join(file.relative_to(ROOT).with_suffix("").parts) for file in FILES]
IMPORT = "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name)"


def test_every_benchmark_finds_what_it_imports() -> None:
    pytest.importorskip("torch", reason="needs the torch extra")
    assert len(NAMES) > 20
    done = subprocess.run(
        [sys.executable, "-c", IMPORT, *NAMES], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
