"""Verbs that measure, and what comes before: a spec, its check, the machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from twinlens.api.question import Kind, Question, argument, option
from twinlens.cli.verb.options import FLAG, NAME, At, Fresh, Json, KeyEnv, Model, Out, Quiet, Set, Url
from twinlens.errors import BadInput
from twinlens.system.numpy_threads import load_numpy


class Demo(Question):
    """Train and serve a small model here, and report both lenses."""

    out: Out = Path("runs")
    json_: Json = False
    quiet: Quiet = False
    fresh: Fresh = False


def demo(asked: Demo) -> None:
    load_numpy()
    from twinlens.cli.demo import run

    run(asked.out, asked.json_, asked.quiet, asked.fresh)


_GATE = (
    "Exit 1 if a point is not in that state (valid if none is named), misses its target, its SLO is missed or "
    "undecided, or it is a no-go."
)


class Measure(Question):
    """Measure a spec, an example, or a server that is up (--url). An interrupted study is resumed."""

    spec: Annotated[str, argument("A spec file, a shipped example, or a run folder.", "SPEC")] | None = None
    url: Url | None = None
    model: Model | None = None
    key_env: KeyEnv | None = None
    at: At = ()
    set_: Set = ()
    quick: Annotated[bool, option("A minute of load, for a look: one short run a point.", FLAG)] = False
    out: Out = Path("runs")
    json_: Json = False
    quiet: Quiet = False
    fresh: Fresh = False
    gate: Annotated[str, option(_GATE, Kind("[valid|provisional]"))] | None = None
    on: Annotated[str, option("Generate the load, or train, on a Ray cluster.", Kind("ray://HOST:PORT"))] | None = None


def measure(asked: Measure) -> None:
    load_numpy()
    from twinlens.cli.asked import Asked
    from twinlens.cli.measure import Switches, cluster, run

    study = Asked(
        asked.spec, asked.url, asked.model, asked.key_env, (*asked.set_, *cluster(asked.on)), asked.at, asked.quick
    )
    run(study, asked.out, Switches(asked.json_, asked.quiet, asked.fresh, asked.gate))


class Check(Question):
    """Check a spec and predict it from theory; touches nothing."""

    spec: Annotated[Path, argument("A spec file, or a shipped example.", "SPEC")]
    set_: Set = ()
    at: At = ()
    all_: Annotated[bool, option("The whole spec, and every quantity.", FLAG)] = False
    json_: Json = False


def check(asked: Check) -> None:
    load_numpy()
    from twinlens.cli.check import run

    run(asked.spec, list(asked.set_), list(asked.at), asked.json_, asked.all_)


class New(Question):
    """Write a spec to edit: an example, a run again, or a server."""

    what: Annotated[str, argument("Its name: `twinlens list examples`.", "EXAMPLE")] | None = None
    source: Annotated[Path, option("What this run or study was asked for.", Kind("RUN"), "--from")] | None = None
    url: Url | None = None
    model: Model | None = None
    key_env: KeyEnv | None = None
    at: At = ()
    set_: Set = ()
    file: Annotated[Path, option("Where the spec is written.", Kind("FILE.toml"), "-o", "--output")] | None = None


def new(asked: New) -> None:
    load_numpy()
    from twinlens.cli.asked import Asked
    from twinlens.cli.new import run

    run(Asked(asked.what, asked.url, asked.model, asked.key_env, asked.set_, asked.at), asked.source, asked.file)


def _ranks(name: str, word: object) -> int:
    text = str(word).strip()
    if not (text.isdecimal() and len(text) < 5 and 2 <= int(text) <= 1024):
        raise BadInput(f"--{name} is a whole number from 2 to 1,024, not {text[:40]!r}", code="TL231")
    return int(text)


class Probe(Question):
    """Who is this machine, with measured ceilings per precision."""

    device: Annotated[str, option("auto, cpu, cuda or cuda:N.", NAME)] = "auto"
    collectives: Annotated[bool, option("Time exchanges between processes too, a minute.", FLAG)] = False
    ranks: Annotated[int, option("Processes of --collectives; one per GPU, or 2.", Kind("COUNT", _ranks))] | None = None
    json_: Json = False
    quiet: Quiet = False


def probe(asked: Probe) -> None:
    load_numpy()
    from twinlens.cli.probe import run

    run(asked.device, asked.json_, asked.quiet, asked.collectives, asked.ranks)
