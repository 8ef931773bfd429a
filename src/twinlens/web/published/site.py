"""The verb `site`: a static site from evidence packs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from twinlens.api.page_asked import Site as Asked
from twinlens.api.question import asks
from twinlens.api.questions import SITE
from twinlens.errors import BadInput
from twinlens.record.foreign_text import in_one_line
from twinlens.web.published.folder import fresh_site
from twinlens.web.published.measured import Held, findings_of, held
from twinlens.web.published.packs import CODE, Pack, name_of, packs_in, slugs, taken
from twinlens.web.published.pages import write_pages
from twinlens.web.published.worker import read_all

if TYPE_CHECKING:
    from twinlens.api.words import SiteWords


@dataclass(frozen=True, slots=True, repr=False)
class Published:
    """A site that was made. `shown`: packs with their figures in it; `refused`: those that failed their check."""

    folder: Path
    shown: tuple[Pack, ...]
    refused: tuple[Pack, ...]
    pages: int

    def __repr__(self) -> str:
        return in_one_line(
            f"<Published: {self.folder}, {len(self.shown)} packs, {len(self.refused)} refused, {self.pages} pages>"
        )


@asks(SITE)
def site(*packs: str | Path, to: str | Path, **words: Unpack[SiteWords]) -> Published:
    """Make a static site of evidence packs (files, or folders with them) in the folder `to`. Nothing of it is fetched.

    A pack that fails its check is listed with the reason, and its figures are left out. `signers`: ssh's file of
    allowed signers; with it, only packs signed by one of them are shown. A site that was there stays until the new one
    is whole. Raises BadInput (TL274).
    """
    asked = Asked.read(SITE.name, {"packs": packs, "to": to, **words})
    files = packs_in(asked.packs)
    if asked.signers is not None and not asked.signers.is_file():
        raise BadInput(f"there is no file of allowed signers {str(asked.signers)!r}", code=CODE)
    with fresh_site(asked.to) as folder:
        named = zip(files, slugs([name_of(file) for file in files]), strict=True)
        checked = [taken(file, slug, folder / "packs" / slug / "evidence.zip", asked.signers) for file, slug in named]
        with tempfile.TemporaryDirectory(prefix="twinlens-site-") as place:
            shown, refused = _read(checked, folder, Path(place))
            count = write_pages(shown, refused, folder)
    good = tuple(pack for each in shown for pack in each.packs)
    return Published(asked.to, good, tuple(refused), count)


def _read(packs: Iterable[Pack], folder: Path, place: Path) -> tuple[list[Held], list[Pack]]:
    """What packs hold, those of equal runs read once; and the packs that failed their check, in the order given."""
    by_key: dict[str, list[Pack]] = {}
    refused = []
    for pack in packs:
        if pack.key:
            by_key.setdefault(pack.key, []).append(pack)
        else:
            refused.append(pack)
    files = {key: folder / "packs" / alike[0].slug / "evidence.zip" for key, alike in by_key.items()}
    told = read_all(files, place)
    shown = []
    for key, alike in by_key.items():
        found = findings_of(told[key])
        judged = [replace(each, checked=each.checked.with_findings(found)) for each in alike]
        if all(each.checked.is_good for each in judged):
            shown.append(held(judged, told[key], place / key))
            continue
        refused += judged
        for each in alike:
            (folder / "packs" / each.slug / "evidence.zip").unlink()
            (folder / "packs" / each.slug).rmdir()
    return shown, sorted(refused, key=lambda pack: pack.slug)
