"""Results of compliance tests, and the parts of an answer that they need and rows do not keep."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding

Ruling = Literal["pass", "fail", "not applicable", "not enough"]
"""`not enough`: too few requests, or too much noise, to say either."""


@dataclass(frozen=True, slots=True)
class Response:
    """One answer, as the server said it.

    `text`: the content, without reasoning; `first`: its first chunk. `chunks`: how many held tokens. `counted_tokens`:
    the server's `usage`, `prompt_tokens` its count of the prompt, `finish` its reason to end: None where it gave none.
    `late_chunks`: chunks with text after the one that gave the reason to end; `reasoning_chunks`: those with reasoning.
    """

    text: str
    first: str
    chunks: int
    counted_tokens: int | None = None
    prompt_tokens: int | None = None
    finish: str | None = None
    late_chunks: int = 0
    reasoning_chunks: int = 0

    @property
    def tokens(self) -> int:
        """Output tokens: as counted by the server, else one a chunk."""
        return self.chunks if self.counted_tokens is None else self.counted_tokens


@dataclass(frozen=True, slots=True)
class ComplianceTest:
    """One guard's ruling. `id`: caching, tokens, answers or length; `after`: the MLPerf test that it follows.

    `reason`: why, with the numbers that decided. `evidence`: every number behind it, by name.
    """

    id: str
    after: str
    ruling: Ruling
    reason: Finding
    evidence: dict[str, Estimate] = field(default_factory=dict)
