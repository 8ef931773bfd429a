"""Verbs that measure, and what comes before: a spec, its check, the machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from twinlens.cli.verb.options import At, Fresh, GateFlag, Json, KeyEnv, Model, On, Out, Quiet, Set, Url
from twinlens.system.numpy_threads import load_numpy


def demo(out: Out = Path("runs"), json: Json = False, quiet: Quiet = False, fresh: Fresh = False) -> None:
    """Train and serve a small model here, and report both lenses."""
    load_numpy()
    from twinlens.cli.demo import run

    run(out, json, quiet, fresh)


def measure(
    spec: Annotated[
        str | None, typer.Argument(metavar="SPEC", help="A spec file, a shipped example, or a run folder.")
    ] = None,
    url: Url = None,
    model: Model = None,
    key_env: KeyEnv = None,
    at: At = None,
    set_: Set = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A minute of load, for a look: one short run a point.")
    ] = False,
    out: Out = Path("runs"),
    json: Json = False,
    quiet: Quiet = False,
    fresh: Fresh = False,
    gate: GateFlag = None,
    on: On = None,
) -> None:
    """Measure a spec, an example, or a server that is up (--url). An interrupted study is resumed."""
    load_numpy()
    from twinlens.cli.asked import Asked
    from twinlens.cli.measure import Switches, cluster, run

    settings = (*(set_ or ()), *cluster(on))
    run(Asked(spec, url, model, key_env, settings, tuple(at or ()), quick), out, Switches(json, quiet, fresh, gate))


def check(
    spec: Annotated[Path, typer.Argument(metavar="SPEC", help="A spec file, or a shipped example.")],
    set_: Set = None,
    at: At = None,
    whole: Annotated[bool, typer.Option("--all", help="The whole spec, and every quantity.")] = False,
    json: Json = False,
) -> None:
    """Check a spec and predict it from theory; touches nothing."""
    load_numpy()
    from twinlens.cli.check import run

    run(spec, set_ or [], at or [], json, whole)


def new(
    what: Annotated[str | None, typer.Argument(metavar="EXAMPLE", help="Its name: `twinlens list examples`.")] = None,
    source: Annotated[
        Path | None, typer.Option("--from", metavar="RUN", help="What this run or study was asked for.")
    ] = None,
    url: Url = None,
    model: Model = None,
    key_env: KeyEnv = None,
    at: At = None,
    set_: Set = None,
    file: Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE.toml")] = None,
) -> None:
    """Write a spec to edit: an example, a run again, or a server."""
    load_numpy()
    from twinlens.cli.asked import Asked
    from twinlens.cli.new import run

    run(Asked(what, url, model, key_env, tuple(set_ or ()), tuple(at or ())), source, file)


def probe(
    device: Annotated[str, typer.Option(metavar="NAME", help="auto, cpu, cuda or cuda:N.")] = "auto",
    collectives: Annotated[
        bool, typer.Option("--collectives", help="Time exchanges between processes too, a minute.")
    ] = False,
    ranks: Annotated[
        int | None,
        typer.Option(min=2, max=1024, metavar="COUNT", help="Processes of --collectives; one per GPU, or 2."),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Who is this machine, with measured ceilings per precision."""
    load_numpy()
    from twinlens.cli.probe import run

    run(device, json, quiet, collectives, ranks)
