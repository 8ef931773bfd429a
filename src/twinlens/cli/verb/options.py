"""Options that several verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Set = Annotated[list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Change a field of the spec.")]
At = Annotated[
    list[str] | None,
    typer.Option(
        "--at",
        metavar="FIELD=V,V",
        help="How hard: rate_per_s=1,2,4, concurrency=1,8 …; rate_per_s=search: the highest within an SLO.",
    ),
]
Url = Annotated[
    str | None, typer.Option("--url", metavar="URL", help="An OpenAI-compatible server that is up; no file is needed.")
]
Model = Annotated[
    str | None, typer.Option("--model", metavar="NAME", help="The model; with --url, where it serves several.")
]
KeyEnv = Annotated[
    str | None,
    typer.Option("--key-env", metavar="VARIABLE", help="Holds the key, else OPENAI_API_KEY."),
]
Out = Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Where run folders go.")]
Json = Annotated[bool, typer.Option("--json", help="Machine-readable output on stdout.")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="No progress.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Start over instead of resuming an unfinished study.")]
On = Annotated[
    str | None,
    typer.Option("--on", metavar="ray://HOST:PORT", help="Generate the load, or train, on a Ray cluster."),
]
GateFlag = Annotated[
    str | None,
    typer.Option(
        "--gate",
        metavar="[valid|provisional]",
        help="Exit 1 if a point is not in that state (valid if none is named), misses its target, its SLO is missed or "
        "undecided, or it is a no-go.",
    ),
]
Sides = Annotated[
    list[Path], typer.Argument(metavar="RUN", help="Run or study folders, the baseline first; FOLDER@batch=4: a point.")
]
RunPaths = Annotated[list[Path], typer.Argument(metavar="RUN", help="Run folders, study folders, or folders of them.")]

MaybeRuns = Annotated[
    list[Path] | None, typer.Argument(metavar="RUN", help="Run folders, study folders, or folders of them.")
]
