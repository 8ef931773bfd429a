"""Samples of this machine while rows are taken: of the boards and processes of this run, and of no others."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from twinlens.executors.registry import place_of
from twinlens.measurement.machine.energy import open_meters
from twinlens.measurement.machine.telemetry import Sampler
from twinlens.measurement.server.dcgm import Dcgm
from twinlens.measurement.server.here import Here, server_here
from twinlens.record.executor.facts import Facts
from twinlens.record.sections import Running
from twinlens.record.store import open_telemetry
from twinlens.spec.study import RunSpec
from twinlens.system.nvml import open_gpus


@contextlib.contextmanager
def sampling_of(
    spec: RunSpec, folder: Path, facts: Facts, running: Running | None, pids: Sequence[int] = ()
) -> Iterator[Sampler | None]:
    """Samples of the machine into the run folder, from entering on. `pids`: the first processes of a trainer that
    has some of its own. Raises BadInput (TL207) for a page of dcgm-exporter that cannot be read."""
    if place_of(spec) == "recorded":  # what this machine does meanwhile is nothing of the recorded one's
        yield None
        return
    # Only the boards this run uses: others draw power too, and it is not this run's.
    used = facts.executor.value("accelerator.uuid")
    gpus = open_gpus(used)[0] if used else ()
    server: Here | None = Here(running.pid) if running is not None else None
    if server is None and not pids:
        server = server_here(spec.executor.options.get("url"))
    theirs = pids if server is None else () if server.pid is None else (server.pid,)
    dcgm = _dcgm(spec, used)
    is_told = server is None or server.pid is not None  # else its work cannot be told from that of others
    with (
        contextlib.closing(dcgm) if dcgm else contextlib.nullcontext(),
        open_telemetry(folder) as readings,
        Sampler(
            readings.add_all,
            gpus,
            spec.protocol.telemetry_s,
            meters=open_meters(gpus, boards=used or ()),
            server_pids=theirs,
            knows_others=is_told,
            more=dcgm.read if dcgm else None,
        ) as sampler,
    ):
        yield sampler


def _dcgm(spec: RunSpec, uuids: Sequence[str] | None) -> Dcgm | None:
    """The page that the user named, which has to answer before anything is measured. Raises BadInput (TL207)."""
    url = spec.executor.options.get("dcgm_url")
    if not url:
        return None
    page = Dcgm(str(url), uuids or None)
    page.refuse_no_page()
    return page
