"""`python -m twinlens.acceptance.driving.worker`: the process that works out fixed products, one line of JSON.

By torch where it is installed, on every device, and by numpy elsewhere; on as many threads every time.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import numpy as np

from twinlens.acceptance.driving.counters import PROCESSOR
from twinlens.acceptance.driving.products import digest_of
from twinlens.system.processes import usable_cores

SIZES = {PROCESSOR: 512, "cuda": 4096}
TIMES = {PROCESSOR: 3, "cuda": 30}
_SEED = 20260


def digests() -> dict[str, dict[str, str]]:
    """The digests, worked out in this process."""
    try:
        from twinlens.executors.torch.fixed_products import products
    except ImportError:
        return {PROCESSOR: {"product fp32": _repeated(_by_numpy, TIMES[PROCESSOR])}}
    found: dict[str, dict[str, str]] = {}
    for device, format, product in products(_inputs, SIZES, usable_cores()):
        kind = PROCESSOR if device == PROCESSOR else "cuda"
        found.setdefault(device, {})[f"product {format}"] = _repeated(product, TIMES[kind])
    return found


def _by_numpy() -> bytes:
    left, right = _inputs(SIZES[PROCESSOR])
    return bytes((left @ right).tobytes())


def _inputs(size: int) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(_SEED)
    left, right = (draw.standard_normal((size, size), dtype=np.float32) for _ in range(2))
    return left, right


def _repeated(product: Callable[[], bytes], times: int) -> str:
    """The digest of a product worked out several times; of several that differ, one that says how many there are."""
    found = sorted({digest_of(product()) for _ in range(times)})
    return found[0] if len(found) == 1 else f"{len(found)} of {times} differ: {digest_of(repr(found).encode())}"


if __name__ == "__main__":
    sys.stdout.write(json.dumps(digests()) + "\n")
