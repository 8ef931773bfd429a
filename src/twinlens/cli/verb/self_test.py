"""`twinlens diagnose --self-test`: programs that saturate one resource each, and whether the diagnosis names it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from rich.status import Status

from twinlens.api.judging.self_test import Told, self_test, self_test_json
from twinlens.cli.console import out
from twinlens.cli.screen import err, print_json
from twinlens.errors import GateFailed
from twinlens.reporting.document.terminal import screen
from twinlens.reporting.judging.self_test import self_test_document, wrong_words


def run_self_test(names: Iterable[str], json: bool) -> None:
    with _progress() as told:
        results = self_test(*names, told=told)
    if json:
        print_json(self_test_json(results))
    else:
        out().print(screen(self_test_document(results)))
    if wrong := wrong_words(results):
        raise GateFailed(wrong)


@contextmanager
def _progress() -> Iterator[Told]:
    """A line in a terminal that says which case is at work; elsewhere one line of text for each case."""
    console, begun_s, said = err(), time.monotonic(), 0
    with Status("", console=console) as status:

        def told(number: int, total: int, name: str, phrase: str) -> None:
            nonlocal said
            spent_s = time.monotonic() - begun_s
            if console.is_terminal:
                status.update(f"{number}/{total} {name}: {phrase} ({spent_s:.0f} s)")
            elif number > said:
                said = number
                console.print(f"{number}/{total} {name}", soft_wrap=True)

        yield told
