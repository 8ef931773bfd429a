"""Document of a gateway's standing: what it answered, what each backend did, whether predictions held, budgets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from twinlens.record.codec import decode
from twinlens.record.estimate import Estimate
from twinlens.reporting.display import bounds, clean, clock, value
from twinlens.reporting.document.block import Block, Cell, Document, Line, Table, Title, Tone, row

_WELL = "ok"
_ENDINGS = {
    "ok": "answered", "failed": "failed", "cut_off": "cut off", "refused": "refused", "left": "left by the client",
}  # fmt: skip

_FAILURES = {
    "connect": "not reached", "first token late": "without a first token in time", "status": "with an error status",
    "broken": "broken off", "malformed": "not understood", "error event": "with an error inside",
    "late": "silent in mid-answer", "hedged": "slower than another one", "left": "given up by the client",
}  # fmt: skip
_NO_FAULT = ("hedged", "left")


def gateway_document(standing: Mapping[str, Any], where: str) -> Document:
    """`standing`: as `standing_of` writes it, from a file that anybody may have written; `where`: its folder."""
    return Document.of("Gateway", clean(where, 200), _blocks(standing))


def _blocks(of: Mapping[str, Any]) -> Iterator[Block]:
    requests = {str(name): int(count) for name, count in of["requests"].items()}
    total, well = sum(requests.values()), requests.get(_WELL, 0)
    if total:
        yield Line(
            f"{well} of {total} requests were answered to their end.", "good" if well == total else "", is_lead=True
        )
    else:
        yield Line("No request has come yet.", is_lead=True)
    told = [f"{requests[name]} {word}" for name, word in _ENDINGS.items() if name != _WELL and requests.get(name)]
    yield row("others", told)
    yield row("tried again", [
        f"{of['retried']} attempts at another backend, which clients did not notice" if of["retried"] else "",
        f"{of['continued']} answers went on at another backend" if of["continued"] else "",
        f"{of['hedged']} second requests were sent, and one of two cancelled" if of["hedged"] else "",
    ])  # fmt: skip
    yield row(
        "settings", [f"policy {clean(of['policy'])}", f"after a loss in mid-answer: {clean(of['stream_failure'])}"]
    )
    yield row("since", [f"{clock(of['started_utc'])}, as of {clock(of['at_utc'])}"])
    yield Title("Backends", anchor="backends")
    yield _backends(of["backends"])
    yield Title("Predictions", anchor="predictions")
    yield from _predictions(of["backends"])
    yield _regret((of.get("audit") or {}).get("regret_s") or {})
    if of["keys"]:
        yield Title("Budgets", anchor="budgets")
        yield _budgets(of["keys"])
    if of["routes"]:
        yield Title("Last routes", anchor="routes")
        yield _routes(of["routes"])


def _backends(backends: Sequence[Mapping[str, Any]]) -> Table:
    heads = ("backend", "model", "in flight", "asked", "failed", "TTFT p50", "TTFT p90", "state")
    return Table("Each backend since the start; TTFT of its last 500 streams", heads,
                 tuple(_backend(each) for each in backends), sides=_sides("llrrrrrl"), remarks=True,
                 drop=(1,))  # fmt: skip


def _backend(of: Mapping[str, Any]) -> tuple[Cell, ...]:
    failed = sum(int(count) for kind, count in of["failed"].items() if kind not in _NO_FAULT)
    kinds = ", ".join(f"{count} {_FAILURES.get(kind) or clean(kind)}" for kind, count in of["failed"].items())
    state = clean(of["rests"]) or "answers"
    return (
        Cell(clean(of["name"])), Cell(clean(of["model"])), Cell(str(of["in_flight"])), Cell(str(of["asked"])),
        Cell(str(failed), "bad" if failed else "", why=kinds), _time(of["ttft_s"].get("p50")),
        _time(of["ttft_s"].get("p90")), Cell(state, "doubt" if of["rests"] else ""),
    )  # fmt: skip


def _time(told: Any) -> Cell:
    if told is None:
        return Cell("–", "dim", why="no stream has begun here yet")
    known = decode(Estimate, told)
    return Cell(value(known), bounds=bounds(known))


def _predictions(backends: Sequence[Mapping[str, Any]]) -> Iterator[Block]:
    rows = []
    for each in backends:
        ttft, tpot = each["predictions"]["ttft"], each["predictions"]["tpot"]
        law = "predicted by its measured law" if each["predicts"] else "nothing is predicted"
        rows.append((
            Cell(clean(each["name"])), Cell(clean(each["identity"])),
            *(Cell(f"{told['held']} of {told['of']}" if told["of"] else "–") for told in (ttft, tpot)),
            Cell(clean(each["why"]) or law),
        ))  # fmt: skip
    heads = ("backend", "the one measured", "TTFT in its band", "TPOT in its band", "why")
    yield Table("How often the true value was inside the band that was predicted (nine in ten are meant to be)", heads,
                tuple(rows), sides=_sides("llrrl"), remarks=True)  # fmt: skip


def _regret(of: Mapping[str, Any]) -> Block:
    """What the choices cost against the best candidate, as predicted: nobody asked the others."""
    if not of.get("n"):
        return row("choices", [f"not compared with others: {clean(of.get('reason') or 'nothing was predicted')}"])
    mean, largest = (f"{1e3 * float(of[name]):.3g} ms" for name in ("mean", "largest"))
    return row("choices", [f"TTFT {mean} longer than the best candidate's, as modelled, on average of {int(of['n'])} "
                           f"routes; at most {largest}"])  # fmt: skip


def _budgets(keys: Sequence[Mapping[str, Any]]) -> Table:
    heads = ("key", "requests", "this minute", "tokens this minute", "money today (UTC)")
    return Table("Each key: requests since the start, and what it has taken of its limits", heads,
                 tuple((Cell(clean(each["name"])), Cell(str(each["requests"])),
                        _of(each["requests_this_min"], each["requests_per_min"]),
                        _of(each["tokens_this_min"], each["tokens_per_min"]),
                        _of(each["money_today"], each["money_per_day"])) for each in keys),
                 sides=_sides("lrrrr"))  # fmt: skip


def _of(taken: Any, limit: Any) -> Cell:
    if limit is None:
        return Cell("no limit", "dim")
    shown = f"{taken:.0f}" if isinstance(taken, float) else clean(taken)
    return Cell(f"{shown} of {clean(limit)}")


def _routes(routes: Sequence[Mapping[str, Any]]) -> Table:
    heads = ("request", "backend", "ended", "predicted TTFT", "TTFT", "why it went there")
    return Table("The last requests, newest first", heads,
                 tuple(map(_route, routes)), sides=_sides("lllrrl"), remarks=True, drop=(3,))  # fmt: skip


def _route(of: Mapping[str, Any]) -> tuple[Cell, ...]:
    band, ttft_s = of["predicted_ttft_s"], of["ttft_s"]
    tries = f" of {int(of['attempts'])} that were asked" if of["attempts"] > 1 else ""
    predicted = Cell("–", "dim", why="nothing is predicted of it")
    if band is not None:
        low, middle, high = (1e3 * float(band[name]) for name in ("low", "middle", "high"))
        predicted = Cell(f"{middle:.3g} ms", bounds=f"{low:.3g} to {high:.3g} ms")
    came = Cell("–", "dim", why="no first token was seen") if ttft_s is None else Cell(f"{1e3 * float(ttft_s):.3g} ms")
    ended = clean(_ENDINGS.get(of["ending"], of["ending"]))
    tone: Tone = "" if of["ending"] == _WELL else "bad"
    return (Cell(clean(of["id"])), Cell(f"{clean(of['backend'])}{tries}"), Cell(ended, tone), predicted, came,
            Cell(clean(of["reason"])))  # fmt: skip


def _sides(letters: str) -> tuple[str, ...]:
    return tuple({"l": "left", "r": "right"}[each] for each in letters)
