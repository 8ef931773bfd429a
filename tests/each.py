"""One test over many like things, where each takes less time than to collect and to report a test of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def each(things: Iterable[Any], named: Callable[[Any], object] = str) -> Callable[[Callable[..., None]], Any]:
    """A test of one thing becomes the test of all: it goes on after a failure and names every thing that fails.

    A thing that is a tuple is handed over as arguments, as by `parametrize`. None at all is a failure as well.
    """
    kept = [(named(thing), thing if isinstance(thing, tuple) else (thing,)) for thing in things]

    def over(check: Callable[..., None]) -> Callable[[], None]:
        def test() -> None:
            failed = []
            for name, given in kept:
                try:
                    check(*given)
                except (Exception, pytest.fail.Exception) as error:
                    failed.append(f"{name}: {type(error).__name__}: {error}")
            assert kept, "there is nothing to test"
            if failed:
                pytest.fail(f"{len(failed)} of {len(kept)} fail\n" + "\n".join(failed), pytrace=False)

        test.__name__, test.__doc__, test.__module__ = check.__name__, check.__doc__, check.__module__
        return test

    return over
