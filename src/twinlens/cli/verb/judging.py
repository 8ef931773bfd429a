"""Verbs that judge a figure: of a sentence by theory, of a pack by its rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from twinlens.cli.verb.options import Json
from twinlens.system.numpy_threads import load_numpy


def claim(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="SENTENCE", help="'70B Q4 does 45 tok/s on 1.79 TB/s'.")
    ] = None,
    says: Annotated[
        str | None, typer.Option("--says", metavar="FIGURE", help="The figure: '45 tok/s', '40 GB'.")
    ] = None,
    model: Annotated[str | None, typer.Option("--model", metavar="NAME", help="A size or a model: 70B.")] = None,
    precision: Annotated[str | None, typer.Option("--precision", metavar="FORMAT", help="FP16, INT8, Q4_K_M …")] = None,
    kv: Annotated[str | None, typer.Option("--kv", metavar="FORMAT", help="Of the KV cache.")] = None,
    batch: Annotated[str | None, typer.Option("--batch", metavar="COUNT")] = None,
    users: Annotated[str | None, typer.Option("--users", metavar="COUNT")] = None,
    context: Annotated[str | None, typer.Option("--context", metavar="TOKENS", help="8192, 32K …")] = None,
    device: Annotated[str | None, typer.Option("--device", metavar="NAME", help="H100 …")] = None,
    devices: Annotated[str | None, typer.Option("--devices", metavar="COUNT")] = None,
    bandwidth: Annotated[str | None, typer.Option("--bandwidth", metavar="RATE", help="'1.79 TB/s'.")] = None,
    json: Json = False,
) -> None:
    """Whether a figure in a sentence holds: computed, what is missing, and what would be right."""
    load_numpy()
    from twinlens.cli.claim import run

    fields = {
        "says": says, "model": model, "precision": precision, "kv": kv, "batch": batch, "users": users,
        "context": context, "device": device, "devices": devices, "bandwidth": bandwidth,
    }  # fmt: skip
    run(words or [], fields, json)


def evidence(
    runs: Annotated[
        list[Path] | None, typer.Argument(metavar="RUN", help="Run folders, study folders, or folders of them.")
    ] = None,
    file: Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE.zip", help="Write the pack.")] = None,
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="Who measured.")] = None,
    organisation: Annotated[str | None, typer.Option("--organisation", metavar="NAME")] = None,
    contact: Annotated[str | None, typer.Option("--contact", metavar="ADDRESS")] = None,
    role: Annotated[str | None, typer.Option("--role", metavar="ROLE", help="buyer, vendor, 'third party'.")] = None,
    key: Annotated[Path | None, typer.Option("--key", metavar="FILE", help="Sign with this key of ssh.")] = None,
    verify: Annotated[Path | None, typer.Option("--verify", metavar="FILE.zip", help="Check a pack.")] = None,
    question: Annotated[
        str | None,
        typer.Option("--for", metavar="FIELDS", help="Which runs answer: precision=bf16,rate_per_s=8,slo.ttft_s=0.5"),
    ] = None,
    signers: Annotated[
        Path | None, typer.Option("--signers", metavar="FILE", help="Whose keys are whose: ssh's allowed_signers.")
    ] = None,
    json: Json = False,
) -> None:
    """Runs in a file that others can check (-o, --verify); which runs answer (--for)."""
    load_numpy()
    from twinlens.cli.evidence import run, run_for, run_verify

    if verify is not None:
        run_verify(verify, signers, json)
    elif question is not None:
        run_for(runs or [], question, json)
    else:
        who = {"name": name, "organisation": organisation, "contact": contact, "role": role}
        run(runs or [], file, who, key, json)
