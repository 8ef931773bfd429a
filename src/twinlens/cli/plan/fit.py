"""`twinlens plan fit`: whether a model fits, in serving or in training, and what would change the answer."""

from __future__ import annotations

from typing import Annotated

import typer

from twinlens.cli.plan.options import Catalogue, Context, Device, Devices, Json, Kv, Model, Precision, Users
from twinlens.system.numpy_threads import load_numpy


def fit(
    model: Model,
    users: Users = None,
    context: Context = None,
    device: Device = None,
    devices: Devices = None,
    precision: Precision = None,
    kv: Kv = None,
    why: Annotated[bool, typer.Option("--why", help="Every figure with its formula and its inputs.")] = False,
    catalogue: Catalogue = None,
    json: Json = False,
) -> None:
    """Will it fit: weights, cache and the rest, on which devices, and what flips the answer."""
    load_numpy()
    from twinlens.api.plan.fit import fit as planned
    from twinlens.cli.screen import out, print_json, sentences
    from twinlens.reporting.screen.plan_fit import fit_screen

    with sentences():
        found = planned(
            model,
            users=users,
            context=context,
            device=device,
            devices=devices,
            precision=precision,
            kv=kv,
            catalogue=catalogue,
        )
        if json:
            print_json(found.to_json())
        else:
            out().print(fit_screen(found.answer, found.notes, why=why))
