"""A process that only reads makes no data frame and looks for garbage seldom; what it imports itself it has."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys

import pytest

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
