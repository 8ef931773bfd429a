"""What all tests share: this folder is importable, and a test of a GPU says why it is skipped."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

# In continuous integration the same examples every time, and no deadline: a busy machine is no falsification.
settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("here", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "here")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    wanting = [item for item in items if item.get_closest_marker("gpu")]
    reason = _no_gpu() if wanting else None
    for item in wanting:
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))


def _no_gpu() -> str | None:
    try:
        import torch
    except ImportError:
        return "needs the torch extra"
    return None if torch.cuda.is_available() else "needs an NVIDIA GPU, and torch sees none here"
