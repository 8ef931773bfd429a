"""The verb that checks a claim: from a sentence, from fields, or from both, to a ruling with its numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

from twinlens.api.judging.claim_asked import CLAIM
from twinlens.api.judging.claim_asked import Claim as Asked
from twinlens.api.question import asks
from twinlens.claims.grammar import read_claim
from twinlens.claims.judge import judge
from twinlens.claims.said import UNREADABLE, Claim, Judged
from twinlens.errors import BadInput
from twinlens.record.codec import encode
from twinlens.record.finding import Finding
from twinlens.reporting.wording.finding import with_words
from twinlens.version import __version__

if TYPE_CHECKING:
    from twinlens.api.words import ClaimWords

from dataclasses import replace

from twinlens.claims.said import View, remark
from twinlens.claims.subject import context_of, devices_of, said_device

FIELDS = {
    "says": "{}", "model": "{}", "precision": "{}", "kv": "{} KV", "batch": "batch {}", "users": "{} users",
    "context": "context {}", "device": "{}", "devices": "{} GPUs", "bandwidth": "{}",
}  # fmt: skip
"""Fields, and the words of a sentence that each stands for."""
_KINDS = {
    "bandwidth": "bandwidth",
    "batch": "sequences",
    "users": "sequences",
    "context": "context",
    "devices": "devices",
}
_NAMES = {"precision": "format", "kv": "kv_format", "device": "device"}


@dataclass(frozen=True, slots=True)
class ClaimResult:
    """A ruling on a claim: "holds", "holds under an assumption", "incomplete" or "wrong", and why, as findings."""

    claim: str
    judged: Judged

    @property
    def ruling(self) -> str:
        return self.judged.ruling

    @property
    def findings(self) -> tuple[Finding, ...]:
        return self.judged.findings

    @property
    def computed(self) -> tuple[float, ...]:
        """The values computed, in SI units, one for each reading of the claim."""
        return tuple(each.numbers["value"] for each in self.judged.of("claim-computed"))

    def to_json(self) -> dict[str, Any]:
        findings = with_words([encode(each) for each in self.findings])
        return {"schema": 1, "twinlens": __version__, "claim": self.claim, "verdict": self.ruling, "findings": findings}


@asks(CLAIM)
def claim(text: str = "", **fields: Unpack[ClaimWords]) -> ClaimResult:
    """Check a claim by theory: `claim("70B Q4 does 45 tok/s on 1.79 TB/s")`, or by fields.

    Fields: says, model, precision, kv, batch, users, context, device, devices, bandwidth; they add to the sentence.
    Raises BadInput (TL230) for what contradicts itself, has no unit, is zero, negative or absurd, or says nothing.
    """
    asked = Asked.read(CLAIM.name, fields)
    words = [_phrase(name, value) for name in fields if (value := getattr(asked, name)) is not None]
    whole = ", ".join([*([text] if text.strip() else []), *words])
    read = read_claim(whole)
    return ClaimResult(whole, beside_plan(read, judge(read)))


def _phrase(name: str, value: object) -> str:
    """A field as words. Raises BadInput for one whose value is not of its kind."""
    phrase = FIELDS[name].format(value)
    read = read_claim(phrase)
    if any(each.kind == "unread" for each in read.words) or not _is_of_kind(name, read):
        raise BadInput(f"{name} {str(value)[:40]!r} was not understood; {_EXAMPLES[name]}", code=UNREADABLE)
    return phrase


def _is_of_kind(name: str, read: Claim) -> bool:
    if name == "model":
        return bool(read.names("model") or read.all("params"))
    if name == "precision" and read.all("bits"):
        return True
    kinds: Mapping[str, str] = _NAMES
    return (
        bool(read.names(kinds[name]))
        if name in kinds
        else bool(read.all(_KINDS[name]) if name in _KINDS else read.said)
    )


_EXAMPLES = {
    "says": "give a figure with its unit, such as '45 tok/s'", "model": "give a size or a name: 70B, llama-3.1-8b",
    "precision": "give a format: FP16, INT8, Q4_K_M", "kv": "give a format: FP16, FP8, INT4",
    "batch": "give a count: 32",
    "users": "give a count: 16", "context": "give tokens: 8192 or 32K", "device": "give a device: H100",
    "devices": "give a count: 8", "bandwidth": "give a rate with its unit: '1.79 TB/s'",
}  # fmt: skip


# A claim that a model fits beside `plan fit` of the same words: where the plan says No, the claim says so too.
#
# A claim is ruled by weights and cache alone, as it is said in public; `plan fit` counts what vLLM takes besides.


def beside_plan(claim: Claim, judged: Judged) -> Judged:
    """The ruling with a remark where it holds and `plan fit`, by its defaults, says No."""
    if not judged.ruling.startswith("holds") or all(each.subject != "memory" for each in judged.of("claim-computed")):
        return judged
    view, sizes = View(claim), claim.all("params")
    device, model = said_device(view), view.name("model") or (f"{sizes[0].value / 1e9:g}B" if sizes else None)
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
