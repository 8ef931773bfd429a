"""Claims on the KV cache: its size for users and a context, and the bytes that one token adds."""

from __future__ import annotations

from collections.abc import Iterator

from twinlens.claims.answer import Answer, Case, Gap, Term, assumed, product, remark, solved
from twinlens.claims.names import KV_BYTES
from twinlens.claims.said import Claim, Said
from twinlens.claims.subject import kv_per_token, subject_of
from twinlens.record.finding import Finding

_NEAR = 0.08  # a solution is named by round numbers where these come this close
_CONTEXTS = tuple(2**power for power in range(9, 21))
_MOST_SOLUTIONS = 4


def kv_size(claim: Claim) -> Answer | Gap | None:
    """ "16 users at 32K need 40 GB of KV": bytes of the cache."""
    claimed = claim.one("bytes") if "kv" in claim.topics else None
    if claimed is None or "fits" in claim.topics:
        return None
    subject = subject_of(claim)
    each = kv_per_token(claim, subject)
    context, users = claim.value("context"), claim.value("sequences")
    if each is None or context is None:
        missing = ("model-layers",) if each is None else ()
        return Gap("kv", (*missing, *(("context",) if context is None else ()), *(("users",) if users is None else ())))
    size, terms, notes = each
    many = users or 1.0
    terms = (*terms, Term("context", context, "tokens"), Term("users", many, "users"))
    return Answer(
        "kv", "bytes", claimed, (Case(size * context * many, terms, product(terms)),),
        assumed=notes if users else (*notes, assumed("users", "1")),
        solutions=tuple(_solutions(claim, claimed, size, many, context)),
        remarks=_other_heads(claim, size * context * many),
    )  # fmt: skip


def _solutions(claim: Claim, claimed: Said, size: float, users: float, context: float) -> Iterator[Finding]:
    """Round numbers that come near the claim, one change each, and the mean length that is exactly right."""
    low, high = claimed.low or 0.0, (claimed.high or 0.0) * 1024**3 / 1e9  # GB may have been meant as GiB
    low, high = low * (1 - _NEAR), high * (1 + _NEAR / 8)

    def fits(value: float) -> bool:
        return low <= value <= high

    for length in _CONTEXTS:
        if length != context and fits(size * length * users):
            yield solved("kv", "bytes", size * length * users, {"users": users, "context": length})
    for count in range(1, 4097):
        if count != users and fits(size * context * count) and count & (count - 1) == 0:
            yield solved("kv", "bytes", size * context * count, {"users": count, "context": context})
    now = KV_BYTES.get(claim.name("kv_format") or claim.name("format") or "fp16", 2.0)
    for name in ("fp16", "fp8", "int4"):
        value = size * KV_BYTES[name] / now * users * context
        if KV_BYTES[name] != now and fits(value):
            yield solved("kv", "bytes", value, {"kv_format": name})
    yield solved("kv", "bytes", claimed.value, {"users": users, "mean_context": claimed.value / size / users})


def _other_heads(claim: Claim, value: float) -> tuple[Finding, ...]:
    """What a formula with as many KV heads as heads would give, where that is what was claimed."""
    subject = subject_of(claim)
    claimed = claim.one("bytes") or claim.one("kv_token")
    if subject is None or subject.shape is None or claimed is None or subject.shape.mla:
        return ()
    low, high = claimed.range[0], claimed.range[1] * 1024**3 / 1e9  # GB may have been meant as GiB
    for factor, what in ((subject.shape.heads / subject.shape.kv_heads, "all-heads"), (0.5, "keys-only"),
                         (1 / subject.shape.kv_heads, "one-head")):  # fmt: skip
        if factor != 1 and low <= value * factor <= high:
            return (remark(what, heads=subject.shape.heads, kv_heads=subject.shape.kv_heads),)
    return ()


def kv_each(claim: Claim) -> Answer | Gap | None:
    """ "KV of 320 KiB per token": bytes that one token adds to the cache, of all layers or of one."""
    claimed = claim.one("kv_token")
    if claimed is None or claim.all("bytes") or claim.all("rate"):
        return None
    subject = subject_of(claim)
    each = kv_per_token(claim, subject)
    if each is None:
        return Gap("kv-per-token", ("model-layers",))
    size, terms, notes = each
    if "per-layer" in claim.topics and subject is not None and subject.shape is not None:
        size /= subject.shape.attention_layers
        terms = (Term("kv-per-token-and-layer", size, "bytes/token"),)
    elif subject is not None and subject.shape is not None and not subject.shape.mla:
        shape = subject.shape
        element = size / (2 * shape.attention_layers * shape.kv_heads * shape.head_dim)
        terms = tuple(
            Term(name, value, "1")
            for name, value in (("both", 2), ("layers", shape.attention_layers), ("kv-heads", shape.kv_heads),
                                ("head-dim", shape.head_dim), ("bytes", element))
        )  # fmt: skip
    return Answer(
        "kv-per-token", "bytes/token", claimed, (Case(size, terms, product(terms)),), assumed=notes,
        remarks=_other_heads(claim, size),
    )  # fmt: skip
