"""A claim that a model fits beside `plan fit` of the same words: where the plan says No, the claim says so too.

A claim is ruled by weights and cache alone, as it is said in public; `plan fit` counts what vLLM takes besides.
"""

from __future__ import annotations

from dataclasses import replace

from twinlens.claims.said import Claim, Judged, View, remark
from twinlens.claims.subject import context_of, device_of, devices_of
from twinlens.errors import BadInput


def beside_plan(claim: Claim, judged: Judged) -> Judged:
    """The ruling with a remark where it holds and `plan fit`, by its defaults, says No."""
    if not judged.ruling.startswith("holds") or all(each.subject != "memory" for each in judged.of("claim-computed")):
        return judged
    view, sizes = View(claim), claim.all("params")
    device, model = device_of(view), view.name("model") or (f"{sizes[0].value / 1e9:g}B" if sizes else None)
    if device is None or model is None or claim.all("bytes"):
        return judged
    from twinlens.api.plan.fit import fit

    users = view.value("sequences")
    try:
        found = fit(
            model, device=device[0].name, devices=round(devices_of(view) or 1), precision=view.name("format"),
            kv=view.name("kv_format"), users=None if users is None else round(users),
            context=None if (context := context_of(view)) is None else round(context),
        )  # fmt: skip
    except BadInput:  # a word of a claim that a plan does not know
        return judged
    asked = found.answer.asked
    if found.fits is not False or asked is None:
        return judged
    served = remark("served", needed=asked.needed.number, room=asked.usable.number)
    return replace(judged, findings=(*judged.findings, served))
