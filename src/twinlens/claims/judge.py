"""The judgement of a claim: the first rule that its figures ask for, and the ruling on its answer."""

from __future__ import annotations

from collections.abc import Callable

from twinlens.claims.answer import Answer, Bound, Case, Gap, Judged, Ruling, values
from twinlens.claims.collective import all_reduce_share, all_reduce_time
from twinlens.claims.cost import amortised, energy_per_token, energy_share, monthly_bill, price_per_token
from twinlens.claims.datasheet import datasheet
from twinlens.claims.decode import decode_rate
from twinlens.claims.hour import break_even, useful_hour
from twinlens.claims.kv import kv_each, kv_size
from twinlens.claims.link import link
from twinlens.claims.prefill import prefill
from twinlens.claims.ratio import ratio
from twinlens.claims.said import Claim, Said
from twinlens.claims.speculation import speculation
from twinlens.claims.training import training_memory, training_mfu, training_time
from twinlens.claims.training_fit import training_fit
from twinlens.claims.weights import fit, weights_size
from twinlens.record.finding import Finding

Rule = Callable[[Claim], Answer | Gap | None]
RULES: tuple[Rule, ...] = (
    price_per_token, useful_hour, break_even, monthly_bill, amortised, energy_share, energy_per_token, all_reduce_time,
    all_reduce_share, speculation,
    training_time, training_mfu, link, ratio, kv_size, kv_each, prefill, decode_rate,
    datasheet, training_fit, training_memory, fit, weights_size,
)  # fmt: skip
"""In the order in which they are asked: what has a unit of its own first, sizes in bytes last."""
_DECIDE = ("model", "uses-per-user", "users", "phase")
_GIB = 1024**3 / 1e9
_EVERY = ("lens", "model", "precision", "device", "batch", "context")
"""What any figure of a device needs before it means something."""


def judge(claim: Claim) -> Judged:
    """The ruling on a claim, with everything that it rests on. Raises BadInput for a claim that contradicts itself."""
    answer = next((found for rule in RULES if (found := rule(claim)) is not None), None)
    if answer is None:
        figure = () if claim.all("share") else ("figure",)
        answer = Gap("nothing", (*figure, *(name for name in _EVERY if not _says(claim, name))))
    unread = (Finding("claim-unread", "warns", "", {"words": list(claim.unread)}),) if claim.unread else ()
    if isinstance(answer, Gap):
        return Judged("incomplete", (_missing(answer.missing, answer.quantity, decides=True), *unread))
    ruling, taken, gib = _ruling(answer)
    findings = [_computed(answer, case, taken) for case in answer.cases[:4]]
    findings.insert(0, _compared(answer, taken))
    findings += answer.assumed if ruling != "wrong" or not gib else ()
    findings += [Finding("claim-assumed", "notes", "gib", {"taken": "GiB"})] if gib else []
    findings += [_missing(answer.missing, answer.quantity, decides=answer.is_open)] if answer.missing else []
    findings += answer.remarks if ruling == "wrong" else ()
    findings += _kept(answer, ruling)
    return Judged(ruling, (*findings, *unread))


def _kept(answer: Answer, ruling: Ruling) -> tuple[Finding, ...]:
    """The solutions where the claim does not hold, and what is left over where it does."""
    left = tuple(each for each in answer.solutions if "tokens_left" in each.numbers["settings"])
    if ruling == "holds":
        return left
    if ruling == "holds under an assumption":
        return left or (answer.solutions[-1:] if len(answer.cases) > 1 else ())
    return answer.solutions


def _ruling(answer: Answer) -> tuple[Ruling, Case, bool]:
    """The ruling, the reading that it rests on, and whether GB had to be read as GiB."""
    said = answer.claimed
    assert said is not None
    fitting = [case for case in answer.cases if _right(said, case.value, answer.bound)]
    named = any(each.subject in _DECIDE and each.numbers.get("decides", True) for each in answer.assumed)
    if fitting and answer.is_open:
        return "incomplete", fitting[0], False
    if fitting:
        is_sure = len(fitting) == len(answer.cases) and not named
        return (
            "holds" if is_sure else "holds under an assumption",
            min(fitting, key=lambda case: abs(case.value - said.value)),
            False,
        )
    low, high = values(answer.cases)
    between = answer.bound == "same" and len(answer.cases) > 1 and low <= said.range[1] and said.range[0] <= high
    if between:
        nearest = min(answer.cases, key=lambda case: abs(case.value - said.value))
        return "holds under an assumption", nearest, False
    if answer.unit.startswith("bytes") and "B" in said.text and "iB" not in said.text and answer.bound == "same":
        binary = Said(said.kind, (said.low or 0) * _GIB, (said.high or 0) * _GIB, said.text, said.off)
        as_gib = [case for case in answer.cases if _right(binary, case.value, "same")]
        if as_gib:
            return "holds under an assumption", as_gib[0], True
    return "incomplete" if answer.is_open else "wrong", answer.cases[0], False


def _right(said: Said, value: float, bound: Bound) -> bool:
    low, high = said.range
    if bound == "at-most":  # the claim is at most what was computed
        return low <= value
    if bound == "at-least":
        return high >= value
    return low <= value <= high


def _compared(answer: Answer, case: Case) -> Finding:
    said = answer.claimed
    assert said is not None
    least, most = values(answer.cases)
    numbers = {"unit": answer.unit, "bound": answer.bound, "claimed_low": said.low, "claimed_high": said.high,
               "said": said.text, "computed": case.value, "computed_low": least, "computed_high": most}  # fmt: skip
    return Finding("claim-compared", "notes", answer.quantity, numbers)


def _computed(answer: Answer, case: Case, taken: Case) -> Finding:
    terms = [term.to_json() for term in case.terms]
    numbers = {"value": case.value, "unit": answer.unit, "terms": terms, "formula": case.formula,
               "assumed": case.assumed, "decides": case is taken}  # fmt: skip
    return Finding("claim-computed", "notes", answer.quantity, numbers)


def _missing(names: tuple[str, ...], quantity: str, *, decides: bool) -> Finding:
    return Finding("claim-missing", "warns", quantity, {"names": list(dict.fromkeys(names)), "decides": decides})


def _says(claim: Claim, name: str) -> bool:
    kinds = {"batch": "sequences", "context": "context"}
    named = {"model": "model", "device": "device", "precision": "format"}
    if name == "lens":
        return bool(claim.topics & {"training", "decode", "prefill"})
    if name == "model" and claim.all("params"):
        return True
    return bool(claim.all(kinds[name])) if name in kinds else bool(claim.names.get(named[name]))
