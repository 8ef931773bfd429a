"""Options that several verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from twinlens.api.question import Kind, argument, option

FILE, FOLDER, NAME, RUN, TOKENS, COUNT = map(Kind, ("FILE", "FOLDER", "NAME", "RUN", "TOKENS", "COUNT"))
FLAG, PAGE = Kind(""), Kind("FILE.html")

Set = Annotated[tuple[str, ...], option("Change a field of the spec.", Kind("PATH=VALUE"))]
At = Annotated[
    tuple[str, ...],
    option("How hard: rate_per_s=1,2,4, concurrency=1,8 …; rate_per_s=search: the highest within an SLO.",
           Kind("FIELD=V,V")),
]  # fmt: skip
Url = Annotated[str, option("An OpenAI-compatible server that is up; no file is needed.", Kind("URL"))]
Model = Annotated[str, option("The model; with --url, where it serves several.", NAME)]
KeyEnv = Annotated[str, option("Holds the key, else OPENAI_API_KEY.", Kind("VARIABLE"))]
Out = Annotated[Path, option("Where run folders go.", FOLDER)]
Json = Annotated[bool, option("Machine-readable output on stdout.", FLAG)]
Quiet = Annotated[bool, option("No progress.", FLAG, "-q", "--quiet")]
Fresh = Annotated[bool, option("Start over instead of resuming an unfinished study.", FLAG)]
Runs = Annotated[tuple[Path, ...], argument("Run folders, study folders, or folders of them.", "RUN")]
