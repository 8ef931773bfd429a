"""KServe's own Python server, from an environment of its own: its scores are those of the same arithmetic here."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from kserve_model import CLASSES, SHAPE, scores

from material import IMAGES, inference, measured, quiet, spec_of
from twinlens.executors.kserve.entry import kserve_target
from twinlens.executors.kserve.executor import KServeServer
from twinlens.network.discovery import asked, reachable
from twinlens.network.target import Address
from twinlens.schedule.request import ScheduledRequest
from twinlens.stats.run_summary import summarise

ROOT = Path(__file__).parents[2]
PYTHON = Path(os.environ.get("TWINLENS_KSERVE_PYTHON", ROOT / ".venv-kserve" / "bin" / "python"))
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PYTHON.exists(), reason="no .venv-kserve: `make .venv-kserve/ready` builds it"),
]
_START_S = 90.0


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    log = tmp_path_factory.mktemp("kserve") / "log"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with log.open("wb") as out:
        process = subprocess.Popen(
            [PYTHON, Path(__file__).with_name("kserve_model.py"), str(port)], stdout=out, stderr=out, env=environment
        )
    found = f"http://127.0.0.1:{port}"
    try:
        until = time.monotonic() + _START_S
        while not _is_ready(found):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < until, log.read_text()
            time.sleep(0.2)
        yield found
    finally:
        process.terminate()
        process.wait(20)


def _is_ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/v2/health/ready", timeout=2) as page:
            return bool(page.status == 200)
    except OSError:
        return False


def test_scores_over_http_are_those_of_the_same_arithmetic_here(url: str) -> None:
    data = inference(
        "kserve-http", "classifier", options={"url": url}, data=IMAGES, task={"kind": "classify", "images": 3},
        arrival={"kind": "closed"}, point={"concurrency": 1},
    )  # fmt: skip
    spec = spec_of(data)
    server = KServeServer()
    facts = server.open(spec, quiet)
    target = kserve_target(spec.executor.options, spec.workload.model)
    payload = server.network_client.endpoint().requests.of(ScheduledRequest(5, 5, 0, 0, 0, (1, 2)))
    address: Address = reachable(target.target)
    ended, _ = asked(target.target, address, payload, 30.0)
    server.close()
    sent = json.loads(payload.partition(b"\r\n\r\n")[2])["inputs"][0]
    there = np.array((ended.answer.said or {})["outputs"][0]["data"], np.float32).reshape(3, CLASSES)
    here = scores(np.array(sent["data"], np.float32).reshape(3, *SHAPE))
    np.testing.assert_allclose(there, here, rtol=1e-4, atol=1e-3)
    assert facts.executor.value("software.runtime.name") == "kserve"


def test_a_run_on_it_has_no_failure_and_its_rates(url: str, tmp_path: Path) -> None:
    data = inference(
        "kserve-http", "classifier", options={"url": url}, data=IMAGES, task={"kind": "classify", "images": 2},
        arrival={"kind": "poisson"}, point={"rate_per_s": 10}, protocol={"duration_s": 6.0, "min_rows": 20},
    )  # fmt: skip
    metrics = summarise(measured(tmp_path, data)).metrics
    assert metrics["failed_share"].value == 0
    assert metrics["inference_images_per_s"].value == pytest.approx(2 * metrics["requests_per_s"].value)
    assert metrics["ttft_s_p50"].value is None
