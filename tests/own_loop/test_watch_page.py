"""The scripts in docs/your-own-loop.md, word for word."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import twinlens as tl

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "your-own-loop.md").read_text(encoding="utf-8")
SCRIPTS = dict(re.findall(r"```python\n# ([\w.]+)\n(.*?)```", PAGE, re.DOTALL))


def test_the_scripts_of_the_page_make_the_runs_that_it_says(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="needs the torch extra")
    pytest.importorskip("accelerate", reason="comes with the serve extra")
    assert set(SCRIPTS) == {"own_loop.py", "evaluation.py", "prepared.py", "anything.py"}
    together = "\n".join(SCRIPTS.values())  # one start of Python for all of them
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", together], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    runs = {run.spec.name: run for run in tl.read(tmp_path / "runs")}
    assert {name: run.state for name, run in runs.items()} == dict.fromkeys(
        ("mine", "looks", "prepared", "anything"), "finished"
    )
    assert runs["mine"].steps.tokens.tolist() == [8 * 64] * 50
    assert runs["looks"].steps.kind.tolist().count("evaluate") == 2
    assert runs["prepared"].steps.samples.tolist() == [2 * 4] * 5
    assert len(runs["anything"].steps) == 20
