"""Exchanges that a backend of torch.distributed accepts and does as another one."""

from __future__ import annotations

from twinlens.errors import BadInput

ELEMENT_BYTES = 4
"""Of fp32, of which buffers are."""
REFUSED = {
    "gloo": {
        "reduce-scatter": "gloo sums the whole buffer on every rank, which is an all-reduce: its time is not that of a "
        "reduce-scatter"
    }
}
"""By backend and exchange, the reason."""


def refuse_exchange(backend: str, exchange: str) -> None:
    """Raises BadInput (TL243)."""
    if reason := REFUSED.get(backend, {}).get(exchange):
        raise BadInput(f"{exchange} has no figure here: {reason}", code="TL243")
