"""Counters of the boards of a server, from the page of NVIDIA's dcgm-exporter that the user names.

NO GPU HAS RUN THIS. The page that the tests read was written by hand after dcgm-exporter's documented format.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from twinlens.errors import BadInput
from twinlens.measurement.server.page import HttpPage, NoPage
from twinlens.network.target import Target
from twinlens.record.samples import Sample

FIELDS = {
    "DCGM_FI_PROF_SM_ACTIVE": "sm_active",
    "DCGM_FI_PROF_SM_OCCUPANCY": "sm_occupancy",
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": "tensor_active",
    "DCGM_FI_PROF_PIPE_TENSOR_HMMA_ACTIVE": "hmma_active",
    "DCGM_FI_PROF_PIPE_TENSOR_IMMA_ACTIVE": "imma_active",
    "DCGM_FI_PROF_DRAM_ACTIVE": "dram_active",
    "DCGM_FI_PROF_PCIE_TX_BYTES": "pcie_tx_bytes_per_s",
    "DCGM_FI_PROF_PCIE_RX_BYTES": "pcie_rx_bytes_per_s",
    "DCGM_FI_PROF_NVLINK_TX_BYTES": "nvlink_tx_bytes_per_s",
    "DCGM_FI_PROF_NVLINK_RX_BYTES": "nvlink_rx_bytes_per_s",
}
"""Profiling field to telemetry column. Shares are 0 to 1, bytes are per second and as the board sees them."""
PERIOD_NS = 1_000_000_000
"""Between two readings; the exporter renews its page every 30 s unless it is told otherwise (-c)."""
_MOST_BYTES_PER_S = 1e14  # DCGM's blank values lie far above it
_AGAIN_NS = 10 * PERIOD_NS


def boards_of(page: bytes) -> dict[str, dict[str, float]]:
    """Board (its UUID, and "/instance" of a MIG slice) to telemetry columns. Raises ValueError for a page that is none.

    What DCGM calls blank, and a share that is none, is left out.
    """
    from prometheus_client.parser import text_string_to_metric_families

    wanted = b"\n".join(line for line in page.split(b"\n") if line.startswith(b"DCGM_FI_PROF_"))
    boards: dict[str, dict[str, float]] = {}
    for family in text_string_to_metric_families(wanted.decode("utf-8", "replace") + "\n"):
        for sample in family.samples:
            column = FIELDS.get(sample.name)
            most = _MOST_BYTES_PER_S if column and column.endswith("bytes_per_s") else 1.0
            if column and 0 <= sample.value <= most:
                boards.setdefault(_board(sample.labels), {})[column] = sample.value
    return boards


def _board(labels: Mapping[str, Any]) -> str:
    uuid, instance = labels.get("UUID", "not said"), labels.get("GPU_I_ID", "")
    return f"{uuid}/{instance}" if instance else str(uuid)


class Dcgm:
    """The page at `url` as telemetry rows, of the boards `uuids` (None: all that the page names).

    A reading that fails gives no row, and the page is asked again ten seconds later. `reason`: why the last one failed.
    """

    def __init__(self, url: str, uuids: Collection[str] | None = None) -> None:
        self._page, self._uuids, self._next_ns = HttpPage(url, Target(url=url)), uuids, 0
        self.reason: str | None = None

    def refuse_no_page(self) -> None:
        """Raises BadInput (TL207) where the page does not answer, or names none of the fields."""
        try:
            boards = boards_of(self._page.get())
        except (NoPage, ValueError) as error:
            why = str(error)[:120]
        else:
            if boards:
                return
            why = f"it has none of {', '.join(list(FIELDS)[:3])}, …; list them in the exporter's CSV of counters"
        raise BadInput(
            f"executor.options.dcgm_url {self._page.url!r}: {why}; dcgm-exporter's page is http://HOST:9400/metrics",
            code="TL207",
        )

    def read(self, now_ns: int) -> list[Sample]:
        """One row for each board; none before a second has passed."""
        if now_ns < self._next_ns:
            return []
        try:
            boards = boards_of(self._page.get())
        except (NoPage, ValueError) as error:
            self.reason, self._next_ns = str(error)[:200], now_ns + _AGAIN_NS
            return []
        self.reason, self._next_ns = None, now_ns + PERIOD_NS
        wanted = self._uuids
        return [
            Sample(now_ns, f"dcgm:{board}", **columns)  # type: ignore[arg-type]
            for board, columns in boards.items()
            if wanted is None or board.partition("/")[0] in wanted
        ]

    def close(self) -> None:
        self._page.close()
