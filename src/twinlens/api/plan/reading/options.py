"""Options that several verbs of planning share: each with its words and how it is read."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Annotated

from twinlens.api.plan.reading.amount import (
    count_of,
    months_of,
    one_of,
    rate_of,
    seconds_of,
    share_of,
    tokens_of,
    trained_tokens_of,
    watts_of,
    whole_of,
)
from twinlens.api.question import Kind, option

COUNT = Kind("COUNT", count_of)
WHOLE = Kind("COUNT", whole_of)
TOKENS = Kind("TOKENS", tokens_of)
TRAINED = Kind("COUNT", trained_tokens_of)
TIME = Kind("TIME", seconds_of)
MONTHS = Kind("TIME", months_of)
PER_S = Kind("PER_S", rate_of)
SHARE = Kind("SHARE", share_of)
WATTS = Kind("WATTS", watts_of)
NAME, NAMES, FORMAT, WORDS = map(Kind, ("NAME", "NAMES", "FORMAT", "WORDS"))
FILE, FOLDER, RUN, FLAG = Kind("FILE"), Kind("FOLDER"), Kind("RUN"), Kind("")


def one(metavar: str, known: Collection[str]) -> Kind:
    """A word that is one of some."""
    return Kind(metavar, lambda name, word: one_of(name, word, known), tuple(known))


Model = Annotated[
    str, option("70B, a model of `list models`, a folder, config.json, GGUF.", Kind("NAME", lambda _, word: str(word)))
]
Device = Annotated[str, option("H100, a name that list devices shows, or 'this'.", NAME)]
Devices = Annotated[int, option("How many of them.", COUNT)]
Precision = Annotated[str, option("Of the weights: bf16, fp8, q4_k_m …", FORMAT)]
Kv = Annotated[str, option("Of the KV cache: fp16, fp8 …", FORMAT)]
Users = Annotated[int, option("Served at the same time.", COUNT)]
Context = Annotated[int, option("Of each user: 8192, 32K …", TOKENS)]
Groups = Annotated[int, option("Of attention, that share experts.", COUNT)]
Catalogue = Annotated[Path, option("Your devices, links, models and prices.", FOLDER)]
Probe = Annotated[Path, option("What `twinlens probe --json` wrote, as the device.", FILE)]
Known = Annotated[Path, option("What `plan calibrate -o` wrote.", FILE, "--constants")]
Ttft = Annotated[float, option("Target: 500ms, 2s.", TIME)]
Tpot = Annotated[float, option("Target: 50ms is 20 tokens/s.", TIME)]
Tensor = Annotated[int, option("Devices that share each layer.", COUNT)]
Engine = Annotated[str, option("vllm, sglang, trtllm, fsdp, megatron …", NAME)]
