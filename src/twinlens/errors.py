"""The sentences Twinlens ends with when it cannot go on, and the exit codes they carry.

Every error has a `code` (TL followed by three digits) with a page under `pages/errors/`, read by `twinlens explain`.
"""

from __future__ import annotations

from collections.abc import Iterable


class TwinlensError(Exception):
    """One clear sentence: what is wrong, where, and what to do."""

    exit_code = 3

    def __init__(self, sentence: str, *, code: str = "TL300") -> None:
        super().__init__(sentence)
        self.code = code


class BadInput(TwinlensError):
    """The input cannot be used: a file, field, model, precision or number (exit code 2)."""

    exit_code = 2

    def __init__(self, sentence: str, *, code: str = "TL200") -> None:
        super().__init__(sentence, code=code)


class ExecutorFailed(TwinlensError):
    """The run failed; the partial run is kept (exit code 3)."""


class GateFailed(TwinlensError):
    """The measurement is there, and it is not good enough for what was asked (exit code 1)."""

    exit_code = 1

    def __init__(self, sentence: str, *, code: str = "TL100") -> None:
        super().__init__(sentence, code=code)


class Interrupted(TwinlensError):
    """Stopped by the user; what was measured is kept (exit code 130)."""

    exit_code = 130

    def __init__(self, sentence: str, *, code: str = "TL130") -> None:
        super().__init__(sentence, code=code)


def nearest(word: str, known: Iterable[str]) -> str:
    """A clause that names the nearest known word, or lists what is known; for the end of an error sentence."""
    import difflib  # seldom needed, and every command would load it

    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]!r}?"
    shown = ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
    return f"known: {shown}"


def unknown_option(verb: str, name: str, known: Iterable[str]) -> BadInput:
    """The refusal of an option that a verb does not have, the same from Python and from the command line."""
    return BadInput(f"{verb} has no option {name[:42]}; {nearest(name, known)}", code="TL231")
