"""Claims on speculative decoding: the speed-up is at most the tokens that one pass of the large model yields."""

from __future__ import annotations

from twinlens.claims.answer import Answer, Case, Gap, Term, lacking, solved
from twinlens.claims.said import Claim, part_of_whole
from twinlens.theory.speculative import expected_tokens

_MOST_DRAFTS = 32


def speculation(claim: Claim) -> Answer | Gap | None:
    """ "Speculation gives 3x with 4 draft tokens at 70 % acceptance": (1 - a^(k+1)) / (1 - a), drafts for free."""
    claimed = claim.one("ratio") if "speculation" in claim.topics or claim.all("drafts") else None
    if claimed is None:
        return None
    drafts, accepted = claim.value("drafts"), part_of_whole(claim.one("share"))
    if drafts is None or accepted is None:
        return Gap("speculation", lacking({"drafts": drafts, "acceptance": accepted}))
    gain = float(expected_tokens(accepted.value, drafts))
    terms = (Term("acceptance", accepted.value, "share"), Term("passed", drafts + 1, "1"))
    longer = (count for count in range(1, _MOST_DRAFTS + 1) if expected_tokens(accepted.value, count) >= claimed.value)
    enough = next(longer, None)
    solutions = () if enough is None else (solved("speculation", "1", claimed.value, {"drafts": enough}),)
    return Answer(
        "speculation", "1", claimed, (Case(gain, terms, "(1 − {0}^{1}) / (1 − {0})"),), bound="at-most",
        missing=("draft-cost",), solutions=solutions,
    )  # fmt: skip
