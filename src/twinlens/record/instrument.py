"""instrument.json in a run folder: what an instrument saw when the work of the run was done once more, unranked.

It is no part of the run's own figures, and is linked to it by the hash of the workload that was repeated. Written whole
or not at all, with a CRC-32 of what it says, as the rows have.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twinlens.errors import BadInput
from twinlens.record.codec import decode, encode
from twinlens.record.store import now_utc, write_json
from twinlens.record.trust.checksum import damaged
from twinlens.system.document import read_json
from twinlens.version import __version__

_NAME = "instrument.json"


@dataclass(frozen=True, slots=True)
class Profile:
    """Seconds by class of kernel for each phase, of `passes` of it that were watched after `warm` that were not.

    `took_s`: all of it, opening the engine too.
    """

    seconds: Mapping[str, Mapping[str, float]]
    passes: Mapping[str, int]
    warm: int
    took_s: float


@dataclass(frozen=True, slots=True)
class Watched:
    """A profile, the hash of the workload that it is of, and when it was made (UTC)."""

    instrument: str
    workload: str
    taken_utc: str
    profile: Profile


def keep_profile(folder: Path, profile: Profile, workload: str) -> Watched:
    """Write it into a run folder, over an earlier one. Raises OSError where nothing can be written."""
    watched = Watched("profiler", workload, now_utc(), profile)
    said = encode(watched)
    write_json(folder / _NAME, {"schema": 1, "twinlens": __version__, "crc32": _crc32(said), "watched": said})
    return watched


def kept_profile(folder: Path) -> Watched | None:
    """What stands in a run folder, None where nothing does. Raises BadInput: TL205 for a file that cannot be read,
    TL220 for one that is not what was written."""
    path = folder / _NAME
    if not path.exists():
        return None
    try:
        data = read_json(path)
        said, crc32 = data["watched"], data["crc32"]
        watched = decode(Watched, said)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise BadInput(
            f"{path} cannot be read ({str(error)[:120]}); remove it, or watch the run again", code="TL205"
        ) from None
    if crc32 != _crc32(said):
        raise damaged(path, "its checksum is not that of what was written")
    return watched


def _crc32(said: Mapping[str, Any]) -> str:
    return f"{zlib.crc32(json.dumps(said, sort_keys=True).encode()):08x}"
