"""Memory by category as the executor counted it, and the peak as it was sampled."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from twinlens.record.estimate import Estimate
from twinlens.record.sections import DeviceMemory
from twinlens.units import BYTES, show

_CATEGORIES = ("weights_bytes", "adapter_bytes", "gradients_bytes", "optimizer_bytes", "activations_bytes", "kv_bytes")


def memory(known: dict[str, Estimate]) -> dict[str, Estimate]:
    """The categories that were counted."""
    return {name: known[name] for name in _CATEGORIES if name in known}


def _of_boards(telemetry: pa.Table) -> tuple[pa.ChunkedArray, int]:
    """Memory in use at each moment, of all boards of the run together, and how many they are: a model that is split
    over several needs the sum. Moments at which a board could not be read are left out."""
    known = telemetry.filter(pc.is_valid(telemetry.column("memory_used_bytes")))
    boards = len(known.column("source").unique())
    if boards < 2:
        return known.column("memory_used_bytes"), boards
    summed = known.group_by("time_ns").aggregate([("memory_used_bytes", "sum"), ("memory_used_bytes", "count")])
    whole = summed.filter(pc.equal(summed.column("memory_used_bytes_count"), boards))
    return whole.column("memory_used_bytes_sum"), boards


def peak_memory(
    telemetry: pa.Table,
    *,
    is_server: bool = False,
    of_ranks: bool = False,
    on_gpu: bool = False,
    allocator: DeviceMemory | None = None,
) -> Estimate:
    """The most memory in use over the rows: of the device the run was on, and of no other.

    On a GPU the allocator's own peak where the executor has one (`allocator`), else the largest sampled use of
    the board; never the memory of the host.
    """
    board, boards = _of_boards(telemetry)
    if on_gpu and allocator:
        who, most = "board" if boards == 1 else f"{boards} boards", float(pc.max(board).as_py() or 0.0)
        in_use = f"; the {who} had {show(most, BYTES)} in use, others' too" if len(board) else ""
        kept = show(float(allocator.reserved_peak_bytes), BYTES)
        each = ""
        if allocator.fullest_peak_bytes is not None:
            fullest = show(float(allocator.fullest_peak_bytes), BYTES)
            each = f", summed over {allocator.boards} boards, of which the fullest {fullest}"
        method = f"most the allocator gave out since the first row{each} ({kept} reserved{in_use})"
        return Estimate(float(allocator.allocated_peak_bytes), BYTES, method, "measured", n=1)
    if on_gpu and not len(board):
        return Estimate.absent(BYTES, "the GPU's memory was not read, and the host's is not the run's")
    source, process = ("server", "the server's processes") if is_server else ("host", "the process")
    if of_ranks:  # the samples of processes of its own stand under the same name
        source, process = "server", "all ranks, what they share counted for each"
    of_it = telemetry.filter(pc.equal(telemetry.column("source"), source))
    for values, described in (
        (board, "accelerator memory in use" + (f", summed over {boards} boards" if boards > 1 else "")),
        (of_it.column("rss_bytes").drop_null(), f"resident memory of {process}"),
    ):
        if len(values):
            method = f"largest of {len(values)} samples of {described}; a shorter peak between samples is not seen"
            return Estimate(float(pc.max(values).as_py()), BYTES, method, "measured", n=len(values))
    return Estimate.absent(BYTES, "no telemetry sample has it")
