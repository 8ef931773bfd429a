"""falsifier.json in a run folder: falsifiers of its diagnosis that were tried by measurement, oldest first."""

from __future__ import annotations

from pathlib import Path

from twinlens.errors import BadInput
from twinlens.record.codec import decode, encode
from twinlens.record.finding import Finding
from twinlens.record.store import write_json
from twinlens.system.document import read_json
from twinlens.version import __version__

_NAME = "falsifier.json"
GROWN = 1.5  # a batch that grew less was not doubled, whatever was asked for


def tried(folder: Path) -> tuple[Finding, ...]:
    """Those of a run folder; none where none was tried. Raises BadInput (TL205) for a file that cannot be read."""
    path = folder / _NAME
    if not path.exists():
        return ()
    try:
        data = read_json(path)
        return tuple(decode(Finding, each) for each in data["tried"])
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise BadInput(f"{path} cannot be read ({error}); remove it, or try again", code="TL205") from None


def keep(folder: Path, finding: Finding) -> None:
    """Write one more of them. Raises BadInput (TL205), and OSError where nothing can be written."""
    write_json(folder / _NAME, {"schema": 1, "twinlens": __version__, "tried": encode((*tried(folder), finding))})
