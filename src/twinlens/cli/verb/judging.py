"""Verbs that judge a figure: of a sentence by theory, of a pack by its rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from twinlens.api.question import Kind, Question, argument, option
from twinlens.cli.verb.options import COUNT, FILE, NAME, TOKENS, Json, Runs
from twinlens.system.numpy_threads import load_numpy


class Claim(Question):
    """Whether a figure in a sentence holds: computed, what is missing, and what would be right."""

    words: Annotated[tuple[str, ...], argument("'70B Q4 does 45 tok/s on 1.79 TB/s'.", "SENTENCE")] = ()
    says: Annotated[str, option("The figure: '45 tok/s', '40 GB'.", Kind("FIGURE"))] | None = None
    model: Annotated[str, option("A size or a model: 70B.", NAME)] | None = None
    precision: Annotated[str, option("FP16, INT8, Q4_K_M …", Kind("FORMAT"))] | None = None
    kv: Annotated[str, option("Of the KV cache.", Kind("FORMAT"))] | None = None
    batch: Annotated[str, option("Sequences at a time.", COUNT)] | None = None
    users: Annotated[str, option("Served at the same time.", COUNT)] | None = None
    context: Annotated[str, option("8192, 32K …", TOKENS)] | None = None
    device: Annotated[str, option("H100 …", NAME)] | None = None
    devices: Annotated[str, option("How many of them.", COUNT)] | None = None
    bandwidth: Annotated[str, option("'1.79 TB/s'.", Kind("RATE"))] | None = None
    json_: Json = False


def claim(asked: Claim) -> None:
    load_numpy()
    from twinlens.cli.claim import run

    run(list(asked.words), asked.model_dump(exclude={"words", "json_"}), asked.json_)


class Evidence(Question):
    """Runs in a file that others can check (-o, --verify); which runs answer (--for)."""

    runs: Runs = ()
    file: Annotated[Path, option("Write the pack.", Kind("FILE.zip"), "-o", "--output")] | None = None
    name: Annotated[str, option("Who measured.", NAME)] | None = None
    organisation: Annotated[str, option("Who submits the pack.", NAME)] | None = None
    contact: Annotated[str, option("Whom to ask about it.", Kind("ADDRESS"))] | None = None
    role: Annotated[str, option("buyer, vendor, 'third party'.", Kind("ROLE"))] | None = None
    key: Annotated[Path, option("Sign with this key of ssh.", FILE)] | None = None
    verify: Annotated[Path, option("Check a pack.", Kind("FILE.zip"))] | None = None
    question: (
        Annotated[str, option("Which runs answer: precision=bf16,rate_per_s=8,slo.ttft_s=0.5", Kind("FIELDS"), "--for")]
        | None
    ) = None
    signers: Annotated[Path, option("Whose keys are whose: ssh's allowed_signers.", FILE)] | None = None
    json_: Json = False


def evidence(asked: Evidence) -> None:
    load_numpy()
    from twinlens.cli.evidence import run, run_for, run_verify

    runs = list(asked.runs)
    if asked.verify is not None:
        run_verify(asked.verify, asked.signers, asked.json_)
    elif asked.question is not None:
        run_for(runs, asked.question, asked.json_)
    else:
        who = asked.model_dump(include={"name", "organisation", "contact", "role"})
        run(runs, asked.file, who, asked.key, asked.json_)
