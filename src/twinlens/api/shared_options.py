"""Options that many verbs have, and kinds of words of options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from twinlens.api.question import Kind, option, telling

FILE, FOLDER, NAME, TOKENS, COUNT = map(Kind, ("FILE", "FOLDER", "NAME", "TOKENS", "COUNT"))
FLAG, PAGE, PACK, FORMAT = Kind(""), Kind("FILE.html"), Kind("FILE.zip"), Kind("FORMAT")

Out = Annotated[Path, option("Where run folders go.", FOLDER)]
Json = Annotated[bool, telling("Machine-readable output on stdout.", FLAG)]
Quiet = Annotated[bool, telling("No progress.", FLAG, "-q", "--quiet")]
Page = Annotated[Path, telling("Write an HTML page, too.", PAGE, "-o", "--output")]
