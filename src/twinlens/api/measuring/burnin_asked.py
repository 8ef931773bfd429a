"""The question of `burnin`: its options, written once for the command line, Python and `explain`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from twinlens.api.question import Kind, Question, argument, option, telling
from twinlens.api.shared_options import FLAG, FOLDER, Json, Out, Page, Quiet


def _lasting(name: str, word: object) -> float:
    from twinlens.api.plan.reading.amount import lasting_of

    return lasting_of(name, word)


class Burnin(Question):
    """Whether to accept a machine: workloads of both lenses in turns for hours, judged by criteria written before."""

    specs: Annotated[tuple[Any, ...], argument("What runs by turns; else candidates for this machine.", "SPEC")] = ()
    for_: Annotated[float, option("How long is tested, rests left out: 48h, 5m.", Kind("TIME", _lasting))]
    criteria: Annotated[str, option("Written before the test; else the shipped ones.", Kind("FILE.toml"))] | None = None
    since: Annotated[Path, option("The last acceptance, to see what has drifted.", FOLDER)] | None = None
    turn: Annotated[
        float, option("Of one workload; else 10m, and two turns of each at least.", Kind("TIME", _lasting))
    ] | None = None  # fmt: skip
    window: (
        Annotated[float, option("Judged on its own; else 60s, or a fifth of a turn.", Kind("TIME", _lasting))] | None
    ) = None
    rest: Annotated[str, option("Between turns; else 1m, or a tenth of a turn; 0s: none.", Kind("TIME"))] | None = None
    out: Out = Path("runs")
    fresh: Annotated[bool, option("Start over instead of resuming an unfinished burn-in.", FLAG)] = False
    all_: Annotated[bool, telling("Every finding and every figure.", FLAG)] = False
    json_: Json = False
    quiet: Quiet = False
    file: Page | None = None
