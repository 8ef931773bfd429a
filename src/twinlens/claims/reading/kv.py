"""Claims on the KV cache: its size for users and a context, the bytes that one token adds, and the tokens that fit."""

from __future__ import annotations

from collections.abc import Iterator

from twinlens.claims.names import KV_BYTES
from twinlens.claims.reading.memory import of_kv
from twinlens.claims.said import (
    Answer,
    Gap,
    Said,
    View,
    assumed,
    by_name,
    lacking,
    remark,
    solved,
)
from twinlens.claims.subject import Cache, Notes, Subject, cache_of, context_of, held_by, said_model
from twinlens.record.finding import Finding
from twinlens.theory.figure import Input, by_law, product

_NEAR = 0.08  # a solution is named by round numbers where these come this close
_CONTEXTS = tuple(2**power for power in range(9, 21))
_MOST_PER_TOKEN = 1e7
"""More bytes per token than any cache grows by: they are those of weights that are read."""
_OF_SHAPE = ("layers", "kv_heads", "head_dim")
_GIB = 1024**3 / 1e9


def kv_size(view: View) -> Answer | Gap | None:
    """ "16 users at 32K need 40 GB of KV": bytes of the cache."""
    is_of_model = view.peek("kv_token") and view.claim.names("model")
    if not (
        view.says("kv") or is_of_model or "kv" in "".join(each.text for each in view.claim.said).lower()
    ) or view.about("fits", "per-token"):
        return None
    claimed = view.one("kv_bytes") or view.one("bytes")
    if claimed is None:
        return None
    subject = said_model(view)
    cache, context = cache_of(view, subject), context_of(view)
    users = 1.0 if view.says("single") else view.value("sequences")
    if cache is None or context is None:
        return Gap("kv", lacking({"model-layers": cache, "context": context, "users": users}))
    users = 1.0 if claimed.per == "user" else users
    many = users or 1.0
    return Answer(
        claimed, (held_by(cache, context, many),),
        assumed=cache.assumed if users else (*cache.assumed, assumed("users", "1")),
        solutions=tuple(_kv_solutions(view, claimed, cache, many, context)),
        remarks=_other_heads(subject, claimed, cache.held(context, many)),
    )  # fmt: skip


def kv_room(view: View) -> Answer | None:
    """ "60 GB of KV are enough for 55 users at 8K": the cache of all against its room."""
    room, subject = view.one("bytes"), said_model(view)
    cache, context, users = cache_of(view, subject), context_of(view), view.value("sequences")
    if room is None or cache is None or context is None or users is None or not (of_kv(view) and view.says("fits")):
        return None
    view.says("kv", "each")
    return Answer(room, (held_by(cache, context, users),), bound="at-least", assumed=cache.assumed)


def _kv_solutions(view: View, claimed: Said, cache: Cache, users: float, context: float) -> Iterator[Finding]:
    """Round numbers that come near the claim, one change each, and the mean length that is exactly right."""
    low, high = (claimed.low or 0.0) * (1 - _NEAR), (claimed.high or 0.0) * _GIB * (1 + _NEAR / 8)  # GB may mean GiB

    def fits(value: float) -> bool:
        return low <= value <= high

    for length in _CONTEXTS:
        if length != context and fits(size := cache.held(length, users)):
            yield solved("kv", "bytes", size, {"users": users, "context": length})
    for count in (2**power for power in range(13)):
        if count != users and fits(size := cache.held(context, count)):
            yield solved("kv", "bytes", size, {"users": count, "context": context})
    now = KV_BYTES.get(view.name("kv_format") or view.name("format") or "fp16", 2.0)
    for name in ("fp16", "fp8", "int4"):
        value = cache.held(context, users) * KV_BYTES[name] / now
        if KV_BYTES[name] != now and fits(value):
            yield solved("kv", "bytes", value, {"kv_format": name})
    if cache.held(context) == cache.per_token * context:
        yield solved(
            "kv", "bytes", claimed.value, {"users": users, "mean_context": claimed.value / cache.per_token / users}
        )


def _other_heads(subject: Subject | None, claimed: Said, value: float) -> Notes:
    """What a formula with as many KV heads as heads would give, where that is what was claimed."""
    if subject is None or subject.shape is None or subject.shape.mla:
        return ()
    low, high = claimed.range[0], claimed.range[1] * _GIB  # GB may have been meant as GiB
    for factor, what in ((subject.shape.heads / subject.shape.kv_heads, "all-heads"), (0.5, "keys-only"),
                         (1 / subject.shape.kv_heads, "one-head")):  # fmt: skip
        if factor != 1 and low <= value * factor <= high:
            return (remark(what, heads=subject.shape.heads, kv_heads=subject.shape.kv_heads),)
    return ()


def kv_each(view: View) -> Answer | Gap | None:
    """ "KV of 320 KiB per token": bytes that one token adds to the cache, of all layers or of one."""
    claimed = view.one("kv_token")
    if claimed is None and view.says("per-token"):
        claimed = view.one("bytes")
    if claimed is None:
        return None
    if not view.says("kv") and (claimed.kind != "kv_token" or claimed.value > _MOST_PER_TOKEN):
        return None
    view.says("per-token")
    subject = said_model(view)
    cache = cache_of(View(view.claim) if view.peek("kv_token") else view, subject)
    view.name("format"), view.name("kv_format")
    if cache is None or (view.peek("kv_token") and cache.shape is None and not view.peek("layers")):
        return Gap("kv-per-token", ("model-layers",))
    if all(view.peek(kind) for kind in _OF_SHAPE):
        view.used.update(each for each in view.claim.said if each.kind in _OF_SHAPE)
    size = cache.per_token
    inputs = [Input("kv-per-token", cache.per_token, "bytes/token")]
    shape = cache.shape
    if view.says("per-layer") and shape is not None:
        size /= shape.attention_layers
        inputs = [Input("kv-per-token-and-layer", size, "bytes/token")]
    elif shape is not None and not shape.mla and not shape.global_attention:
        parts = {"both": 2, "layers": shape.attention_layers, "kv-heads": shape.kv_heads, "head-dim": shape.head_dim,
                 "bytes": cache.element}  # fmt: skip
        inputs = [Input(name, value, "1") for name, value in parts.items()]
    law = "kv-per-token" if len(inputs) > 1 else None
    return Answer(
        claimed, (product("kv-per-token", "bytes/token", inputs, law=law),), assumed=cache.assumed,
        remarks=_other_heads(subject, claimed, size),
    )  # fmt: skip


def kv_tokens(view: View) -> Answer | Gap | None:
    """ "40 GB of KV hold 300k tokens": room over the bytes of a token."""
    claimed = view.one("context") if view.peek("context") else view.one("tokens")
    if claimed is None or not view.says("kv") or not view.says("fits") or not view.peek("bytes"):
        return None
    is_capacity = any(each.text.lower().startswith("hold") for each in view.claim.words if each.name == "fits")
    subject, room = said_model(view), view.value("bytes")
    cache = cache_of(view, subject)
    if cache is None or room is None:
        return Gap("kv-tokens", lacking({"model-layers": cache, "device": room}))
    given = {"memory": Input("room", room, "bytes"), **by_name(Input("kv-per-token", cache.per_token, "bytes/token"))}
    return Answer(claimed, (by_law("kv-tokens", given),), bound="same" if is_capacity else "at-most",
                  assumed=cache.assumed)  # fmt: skip
