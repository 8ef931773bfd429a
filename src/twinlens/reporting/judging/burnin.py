"""Document of a burn-in: the verdict and what decided it, each criterion, and rate, clock, temperature and errors."""

from __future__ import annotations

from collections.abc import Iterator

from twinlens.acceptance.judgement import BurnInResult
from twinlens.reporting.document.block import Block, Document, Line


def burnin_document(result: BurnInResult) -> Document:
    """A burn-in, whole or as far as it went."""
    return Document.of("Burn-in", f"{result.judgement.verdict} · {result.folder}", _blocks(result))


def _blocks(result: BurnInResult) -> Iterator[Block]:
    yield Line(result.judgement.verdict, "strong")
