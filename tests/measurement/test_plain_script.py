"""A script that measures over HTTP in its own process, and does not ask whether it is `__main__`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from twinlens.network.null_server import null_server

SCRIPT = """
import sys
import twinlens as tl
print("once")
short = ["protocol.duration_s=0.5", "protocol.steady_s=0", "protocol.isolate=false", "protocol.retakes=0",
         "protocol.repeats=1", "workload.output_tokens.value=4", "point.rate_per_s=20"]
outcome = tl.measure(tl.attach(sys.argv[1], None, short), sys.argv[2], watch=None)
print([run.state for run in outcome.runs])
"""


def test_processes_started_by_a_run_do_not_run_the_script_again(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    with null_server(0.01, 0.001) as server:
        done = subprocess.run(
            [sys.executable, str(script), server.url, str(tmp_path / "runs")], capture_output=True, text=True
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n") == ["once", "['finished']", ""]
