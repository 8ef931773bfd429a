"""The folder of a site: made beside the one that is there, and put in its place when it is whole."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from twinlens.errors import BadInput
from twinlens.system.document import read_json
from twinlens.web.published.packs import CODE

MANIFEST = "site.json"
"""What stands in a site, for programs; and the mark by which a folder is known to be one."""
_MARK = "twinlens_site"


@contextlib.contextmanager
def fresh_site(to: Path) -> Iterator[Path]:
    """A new folder that takes the place of `to` at the end; where anything fails, `to` stays as it was.

    Raises BadInput (TL274) for a folder that is no site, or whose parent is not there.
    """
    target = to.resolve()
    refuse_foreign(target)
    try:
        place = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    except OSError as error:
        raise BadInput(f"the site cannot be written beside {to}: {error.strerror}", code=CODE) from None
    try:
        made = place / "new"
        made.mkdir()
        yield made
        refuse_foreign(target)
        if target.exists():
            os.rename(target, place / "old")
        try:
            os.rename(made, target)
        except OSError:
            if (place / "old").exists():
                os.rename(place / "old", target)
            raise
    except OSError as error:
        raise BadInput(f"the site cannot be written to {to}: {error.strerror}", code=CODE) from None
    finally:
        shutil.rmtree(place, ignore_errors=True)


def refuse_foreign(target: Path) -> None:
    """Raises BadInput (TL274) where writing a site would take away what is not ours."""
    if not target.parent.is_dir():
        raise BadInput(f"there is no folder {str(target.parent)!r} for the site; make it first", code=CODE)
    if not target.exists():
        return
    if not target.is_dir():
        raise BadInput(f"{target} is a file, and a site is a folder; give -o another name", code=CODE)
    if any(target.iterdir()) and not _is_site(target):
        raise BadInput(
            f"{target} holds other things than a site, and stays as it is; give -o another folder", code=CODE
        )


def _is_site(folder: Path) -> bool:
    try:
        data = read_json(folder / MANIFEST)
    except (OSError, ValueError):
        return False
    return isinstance(data, dict) and _MARK in data


def mark(version: str) -> dict[str, object]:
    """The head of the manifest."""
    return {_MARK: 1, "twinlens": version}
