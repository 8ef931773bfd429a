"""A process that only reads makes no data frame and looks for garbage seldom; what it imports itself it has."""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import json
import os
import ssl
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from aiohttp import TCPConnector

from twinlens.gateway.relay.connections import session
from twinlens.system.reading_process import beginning

_READING = """
import json, sys
from twinlens.system.reading_process import only_read
only_read()
import gc
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
table = pa.table({"time_ns": pa.array(np.arange(3)), "source": ["host", None, "host"], "power_w": [1, None, 2]})
values = table.filter(pc.equal(table.column("source"), "host")).column("power_w").to_numpy(zero_copy_only=False)
known = ["pandas" in sys.modules, gc.get_threshold()[0], values.tolist()]
import pandas
print(json.dumps([*known, pandas.DataFrame({"a": [1]}).shape]))
"""


@pytest.mark.skipif(importlib.util.find_spec("pandas") is None, reason="pandas is not installed")
def test_arrow_is_read_without_pandas_which_may_be_imported_all_the_same() -> None:
    done = subprocess.run([sys.executable, "-c", _READING], capture_output=True, text=True, check=True, timeout=120)
    assert json.loads(done.stdout) == [False, 200_000, [1, 2], [1, 1]]


def test_a_beginning_leaves_environment_and_garbage_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    """Roots and plugins that the user named are there again, and what was not named is gone."""
    monkeypatch.setenv("SSL_CERT_FILE", "/mine.pem")
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    before = dict(os.environ)
    with beginning():
        assert os.environ["SSL_CERT_FILE"] == os.devnull
        assert not gc.isenabled()
    assert dict(os.environ) == before
    assert gc.isenabled()
    gc.unfreeze()


async def _context_of(url: str) -> object:
    async with session(url, longest_s=1.0) as asking:
        assert isinstance(asking.connector, TCPConnector)
        return asking.connector._ssl


def _found(url: str) -> object:
    with ThreadPoolExecutor(1) as pool:  # a test with a browser may have left a loop in this thread
        return pool.submit(lambda: asyncio.run(_context_of(url))).result()


def test_whoever_asks_over_https_brings_roots_of_its_own() -> None:
    """aiohttp's own contexts have none where a site loaded it; asked over http they are not touched."""
    found = _found("https://127.0.0.1:1/v1")
    assert isinstance(found, ssl.SSLContext)
    assert (found.check_hostname, found.verify_mode) == (True, ssl.CERT_REQUIRED)
    assert found.cert_store_stats() == ssl.create_default_context().cert_store_stats()
    assert _found("http://127.0.0.1:1/v1") is True
