"""What a client does once, before time zero, so that it need not wait later."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hostile_server import good, hostile

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
from twinlens.network.limits import make_room
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
from twinlens.system.processes import load_numpy
load_numpy()
{STATUS}
print(int(status["Threads"]), os.environ.get("OPENBLAS_NUM_THREADS"))
"""
    assert said_by(code) == "1 None"


def test_what_the_user_says_of_numpys_threads_stands() -> None:
    code = "import os; from twinlens.system.processes import load_numpy; load_numpy(); "
    code += "print(os.environ['OPENBLAS_NUM_THREADS'])"
    assert said_by(code, OPENBLAS_NUM_THREADS="2") == "2"


def test_a_run_over_http_loads_no_engine_no_chart_and_no_template(tmp_path: Path) -> None:
    """What a client loads, it loads before its first request, in the time of whoever waits for one."""
    with hostile(good) as server:
        code = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from pathlib import Path
from material import fixed, inference, measured
asked = inference(
    "openai-http", options={{"url": {server.url!r}, "probe": False}}, output_tokens=fixed(4),
    arrival={{"kind": "closed"}}, point={{"concurrency": 1}}, protocol={{"duration_s": 0.001, "min_rows": 3}},
)
run = measured(Path({str(tmp_path)!r}), asked)
heavy = {{"torch", "transformers", "tokenizers", "altair", "vl_convert", "jinja2", "ray", "matplotlib"}}
print(run.table.num_rows, sorted(heavy & set(sys.modules)))
"""
        rows, loaded = said_by(code).splitlines()[-1].split(" ", 1)
    assert int(rows) >= 3
    assert loaded == "[]"
