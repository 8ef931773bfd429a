"""`[executor.options]` of exchanges between ranks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from twinlens.errors import BadInput
from twinlens.executors.capabilities import Option, refuse_outside, refuse_wrong_options
from twinlens.network.target import is_cluster

KIND = "torch-collectives"
OPTIONS = {
    "ranks": Option(2, description="Processes that exchange a buffer, one per GPU or share of a processor."),
    "patience_s": Option(120.0, description="Seconds in which a rank has to answer before it counts as hung."),
    "on": Option("", description="The Ray cluster on which the ranks run: ray://HOST:PORT, or ray://local."),
}


@dataclass(frozen=True, slots=True)
class ExchangeOptions:
    """The options of a spec, checked; `OPTIONS` says what each means."""

    ranks: int = 2
    patience_s: float = 120.0
    on: str = ""

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Self:
        """Raises BadInput (TL207)."""
        refuse_wrong_options(KIND, options, OPTIONS)
        refuse_outside(KIND, options, OPTIONS, "ranks", 2, 1024)
        refuse_outside(KIND, options, OPTIONS, "patience_s", 1.0, 86400.0)
        if (on := options.get("on", "")) and not is_cluster(on):
            raise BadInput(f"ranks run here or on Ray: ray://HOST:PORT or ray://local, not {on!r}", code="TL207")
        return cls(**options)
