"""The question of `claim`: its options, written once. Alone in a file, since a claim is answered in half a second."""

from __future__ import annotations

from typing import Annotated

from twinlens.api.question import Kind, Question, Verb, argument, option
from twinlens.api.shared_options import COUNT, FORMAT, NAME, TOKENS, Json


class Claim(Question):
    """Whether a figure in a sentence holds: computed, what is missing, and what would be right."""

    words: Annotated[tuple[str, ...], argument("'70B Q4 does 45 tok/s on 1.79 TB/s'.", "SENTENCE")] = ()
    says: Annotated[str, option("The figure: '45 tok/s', '40 GB'.", Kind("FIGURE"))] | None = None
    model: Annotated[str, option("A size or a model: 70B.", NAME)] | None = None
    precision: Annotated[str, option("FP16, INT8, Q4_K_M …", FORMAT)] | None = None
    kv: Annotated[str, option("Of the KV cache.", FORMAT)] | None = None
    batch: Annotated[int | str, option("Sequences at a time.", COUNT)] | None = None
    users: Annotated[int | str, option("Served at the same time.", COUNT)] | None = None
    context: Annotated[int | str, option("8192, 32K …", TOKENS)] | None = None
    device: Annotated[str, option("H100 …", NAME)] | None = None
    devices: Annotated[int | str, option("How many of them.", COUNT)] | None = None
    bandwidth: Annotated[str, option("'1.79 TB/s'.", Kind("RATE"))] | None = None
    json_: Json = False


CLAIM = Verb("claim", (Claim,), "'70B Q4 does 45 tok/s on 1.79 TB/s'", run="twinlens.cli.verb.claim:run", head="Read")
