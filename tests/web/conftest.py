"""The site that tests of pages ask."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from served_site import site

Served = Callable[..., AbstractContextManager[str]]


@pytest.fixture(scope="session")
def served() -> Served:
    """`with served(folder, …) as url:` – the site of some folders, with its address ending in "/"."""
    return site
