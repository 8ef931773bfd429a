"""Pictures of pages of a running `browse` for the docs: `python -m benchmarks.screens URL [NAME=PATH …]`.

Each becomes `docs/screens/NAME.png`, at most 150 kB: of 1280 × 900 points, or of less height where it would be more.
Without names: home, runs, plan, claim, lab.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

FOLDER = Path(__file__).parents[1] / "docs" / "screens"
PAGES = {"home": "/", "runs": "/runs", "plan": "/plan", "claim": "/claim", "lab": "/lab"}
MOST_BYTES = 150_000
WIDTH, HEIGHTS = 1280, (900, 760, 640, 520, 420)
_QUIET_MS = 400
"""After the last request: charts are drawn by then."""


def taken(url: str, pages: dict[str, str], to: Path) -> list[Path]:
    """A picture of each page, by name. Raises SystemExit for one that does not answer well."""
    from playwright.sync_api import sync_playwright

    to.mkdir(parents=True, exist_ok=True)
    made = []
    with sync_playwright() as driver:
        path = shutil.which("chromium") or shutil.which("google-chrome") or driver.chromium.executable_path
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        tab = browser.new_page(
            viewport={"width": WIDTH, "height": HEIGHTS[0]}, color_scheme="light", reduced_motion="reduce"
        )
        tab.goto(url)  # with its token, where it has one
        for name, place in pages.items():
            answer = tab.goto(urljoin(url, place), wait_until="load")
            if answer is None or not answer.ok:
                raise SystemExit(f"{place} did not answer well: {answer.status if answer else 'nothing'}")
            tab.set_viewport_size({"width": WIDTH, "height": HEIGHTS[0]})
            tab.wait_for_timeout(_QUIET_MS)
            made.append(to / f"{name}.png")
            made[-1].write_bytes(small(tab))
        browser.close()
    return made


def small(tab: Any) -> bytes:
    """A picture of at most `MOST_BYTES`: of less of the page where all of it would be more."""
    for height in HEIGHTS:
        tab.set_viewport_size({"width": WIDTH, "height": height})
        picture: bytes = tab.screenshot()
        if len(picture) <= MOST_BYTES:
            return picture
    raise SystemExit(f"{tab.url}: {len(picture):,} bytes at {height} points, and {MOST_BYTES:,} is the limit")


def main(words: list[str]) -> Any:
    if not words or not words[0].startswith("http"):
        return __doc__
    named = dict(word.split("=", 1) for word in words[1:] if "=" in word)
    for each in taken(words[0], named or PAGES, FOLDER):
        print(f"{each.relative_to(Path.cwd())} {each.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
