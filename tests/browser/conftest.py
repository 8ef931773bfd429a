from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from firefox import FirefoxTab, firefox_here

_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
NO_BROWSER = "TWINLENS_NO_BROWSER"


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A real Chromium, headless. Its absence fails the tests unless somebody says that there is none."""
    if os.environ.get(NO_BROWSER) == "1":
        pytest.skip(f"{NO_BROWSER}=1 says that this machine has no browser")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        pytest.fail(f"playwright is missing: install the dev extra, or set {NO_BROWSER}=1 to go without")
    with sync_playwright() as driver:
        path = shutil.which("chromium") or shutil.which("google-chrome") or driver.chromium.executable_path
        if not Path(path).exists():
            pytest.fail(
                "no Chromium was found: apt-get install chromium or playwright install chromium, "
                f"or set {NO_BROWSER}=1 to say that this machine has none"
            )
        opened = driver.chromium.launch(executable_path=path, headless=True, args=_ARGUMENTS)
        yield opened
        opened.close()


@pytest.fixture
def firefox(tmp_path: Path) -> Iterator[Callable[..., FirefoxTab]]:
    """Opens one tab of a real Firefox. Only the system brings one: where it could not, the tests say so."""
    if os.environ.get(NO_BROWSER) == "1":
        pytest.skip(f"{NO_BROWSER}=1 says that this machine has no browser")
    if not firefox_here():
        pytest.skip("no Firefox is here, and `make firefox` could install none (it takes apt-get and root)")
    (tmp_path / "profile").mkdir()
    tabs: list[FirefoxTab] = []

    def opened(url: str, width: int = 1280, *, is_dark: bool = False) -> FirefoxTab:
        tabs.append(FirefoxTab(tmp_path / "profile", url, width, is_dark=is_dark))
        return tabs[-1]

    yield opened
    for each in tabs:
        each.end()
