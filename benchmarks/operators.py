"""Where the time of one call goes, operator by operator: the sentence below a missed target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twinlens.executors.torch.evidence.trace import kernels_seen

_MARKS = ("ProfilerStep", "cudaDevice")
_PRODUCTS = ("mm", "linear", "attention", "conv", "packed")  # in the names of operators that multiply matrices


def operator_profile(call: Callable[[], Any], most: int = 6) -> str:
    """Shares of the profiled time: operators that multiply matrices, then the longest of the others.

    The profiler slows small operators more than large ones: the shares of the small ones are upper bounds.
    """
    call()
    by_name: dict[str, tuple[int, float]] = {}
    for kernel in kernels_seen(call):
        if not kernel.name.startswith(_MARKS):
            calls, spent_s = by_name.get(kernel.name, (0, 0.0))
            by_name[kernel.name] = (calls + kernel.calls, spent_s + kernel.self_time_s)
    total_s = sum(spent_s for _, spent_s in by_name.values())
    products_s = sum(spent_s for name, (_, spent_s) in by_name.items() if _multiplies(name))
    calls = sum(count for count, _ in by_name.values())
    longest = sorted(by_name.items(), key=lambda item: -item[1][1])[:most]
    shown = ", ".join(f"{name.removeprefix('aten::')} {s / total_s:.0%} ({n}×)" for name, (n, s) in longest)
    return f"products and attention {products_s / total_s:.0%} of profiled time in {calls} operators: {shown}"


def _multiplies(name: str) -> bool:
    return any(word in name for word in _PRODUCTS)
