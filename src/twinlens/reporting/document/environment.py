"""Templates of pages with everything foreign escaped, and the file that a page becomes."""

from __future__ import annotations

import contextlib
import os
import stat
from functools import lru_cache
from pathlib import Path

from jinja2 import Environment, FileSystemBytecodeCache, PackageLoader, StrictUndefined
from jinja2.bccache import Bucket
from markupsafe import Markup

from twinlens.errors import BadInput
from twinlens.reporting.palette import colour, part_colour
from twinlens.system.home_folder import cache_folder


def write_page(text: str, path: str | Path) -> Path:
    """Write a page to `path`, making its folder; a page that was there stays until the new one is whole.

    Raises BadInput (TL207) when the disk refuses it.
    """
    from twinlens.record.store import write_text  # heavy, and a site is up before it writes a file

    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists() and not target.is_file():
            target.write_text(text, encoding="utf-8")  # a device or a pipe, into which nothing can be renamed
        else:
            write_text(target, text)
    except OSError as error:
        raise BadInput(f"the report cannot be written to {target}: {error.strerror}", code="TL207") from None
    return target


@lru_cache(maxsize=1)
def environment() -> Environment:
    """The templates, with everything foreign escaped."""
    environment = Environment(
        loader=PackageLoader("twinlens.reporting.document"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        bytecode_cache=_kept(),
    )
    # The only texts that are not escaped: SVG that figure.py parsed and found to hold drawing alone, and JSON as data.
    environment.filters["drawn"] = Markup
    environment.filters["inert"] = _inert
    environment.filters["capitalize_first"] = _capital
    environment.filters["part_colour"] = part_colour
    environment.filters["line_colour"] = colour
    return environment


class _Kept(FileSystemBytecodeCache):
    """Templates as they were compiled once; where the folder fails they are compiled again, 0.1 s."""

    def load_bytecode(self, bucket: Bucket) -> None:
        with contextlib.suppress(OSError):
            super().load_bytecode(bucket)

    def dump_bytecode(self, bucket: Bucket) -> None:
        with contextlib.suppress(OSError):
            super().dump_bytecode(bucket)


def _kept() -> _Kept | None:
    """Programs are read from it, so it is this user's alone: a cache that several share is left out."""
    folder = cache_folder() / "templates"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        seen = folder.lstat()
    except OSError:
        return None
    is_own = stat.S_ISDIR(seen.st_mode) and not seen.st_mode & 0o022 and seen.st_uid == os.geteuid()
    return _Kept(str(folder)) if is_own else None


def _capital(text: str) -> str:
    """With a capital letter, where it opens with a word and not with a name such as "h200-sxm-141gb"."""
    return text[:1].upper() + text[1:] if text.partition(" ")[0].rstrip(":,;").isalpha() else text


def _inert(text: str) -> Markup:
    """JSON as the text of a script that is data: nothing in it can end the element or open another."""
    return Markup(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))
