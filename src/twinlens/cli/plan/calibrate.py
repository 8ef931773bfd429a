"""`twinlens plan calibrate`: the constants of predictions, moved to one's own runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from twinlens.cli.plan.options import Catalogue, Json, Probe
from twinlens.system.numpy_threads import load_numpy


def calibrate(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Folders of runs or of studies.")],
    device: Annotated[
        str | None,
        typer.Option("--device", metavar="NAME", help="What they ran on, where they do not say."),
    ] = None,
    precision: Annotated[
        str | None, typer.Option("--precision", metavar="FORMAT", help="Of the weights: bf16, fp8, nvfp4, int4 …")
    ] = None,
    tensor: Annotated[int, typer.Option("--tensor", min=1, metavar="COUNT", help="Devices that share each layer.")] = 1,
    engine: Annotated[
        str | None, typer.Option("--engine", metavar="NAME", help="vllm, sglang, trtllm …, where a run does not say.")
    ] = None,
    probe: Probe = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write the constants here.")
    ] = None,
    catalogue: Catalogue = None,
    json: Json = False,
) -> None:
    """Move the constants of predictions to your own runs, served or trained, and see how near they come."""
    load_numpy()
    from twinlens.api.plan.calibrate import calibrate as moved
    from twinlens.cli.screen import out, print_json, sentences
    from twinlens.reporting.screen.plan_calibrate import calibrate_screen

    with sentences():
        found = moved(
            *runs, device=device, precision=precision, tensor=tensor, engine=engine, probe=probe, catalogue=catalogue
        )
        if output:
            found.write(output)
        if json:
            print_json(found.to_json())
        else:
            rows = [(each.run, each.metric, each.measured_s, each.public_s, each.own_s) for each in found.compared]
            out().print(calibrate_screen(rows, found.left_out, str(output) if output else None))
