"""Numbers of options of the verbs, read from their words; each wrong one is refused in one sentence."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

from twinlens.errors import BadInput


def ranks_of(name: str, word: object) -> int:
    """Processes: a whole number from 2. Raises BadInput (TL231)."""
    text = str(word).strip()
    if not (text.isdecimal() and len(text) < 5 and 2 <= int(text) <= 1024):
        raise BadInput(f"--{name} is a whole number from 2 to 1,024, not {text[:40]!r}", code="TL231")
    return int(text)


def whole_of(name: str, word: object) -> int:
    """A whole number from 1. Raises BadInput (TL250)."""
    text = str(word).strip()
    if not (text.isdecimal() and len(text) < 5 and 1 <= int(text) <= 1000):
        raise BadInput(f"--{name} is a whole number from 1 to 1,000, not {text[:40]!r}", code="TL250")
    return int(text)


OUT, HOST, PORT = Path("runs"), "127.0.0.1", 8765
"""The words of `browse` that nobody says: where runs go, and where it listens."""


def port_of(name: str, word: object) -> int:
    """A port of this machine, 0 for a free one. Raises BadInput (TL268)."""
    text = str(word).strip()
    if not (text.isdecimal() and len(text) < 6 and int(text) < 65536):
        raise BadInput(f"--{name} is a port from 1 to 65,535, or 0 for a free one, not {text[:40]!r}", code="TL268")
    return int(text)


def factor_of(name: str, word: object) -> float:
    """A factor above 0. Raises BadInput (TL250)."""
    from twinlens.api.plan.reading.amount import positive

    try:
        return positive(name, float(str(word)), word, 1000)
    except ValueError:
        raise BadInput(f"--{name} is a factor such as 1.5, not {str(word)[:40]!r}", code="TL250") from None


def money_of(name: str, word: object) -> Decimal:
    """An amount of money. Raises BadInput."""
    from twinlens.api.plan.reading.amount import dollars_of

    return dollars_of(name, word)
