"""The grammar of quantities: a number, its scale and its unit, as an ordered table of forms."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from twinlens.claims.names import device_at
from twinlens.claims.said import Said, checked, rounding, rounding_of_input
from twinlens.units import DAY_S, HOUR_S, JOULES_PER_KWH, MONTH_S, YEAR_S

_DIGITS = r"\d[\d,]*(?:\.\d+)?(?:[eE][+-]?\d+)?|\.\d+"
NUMBER = re.compile(
    r"(?i:(?P<most>(?:at most|no more than|not more than|less than|fewer than|under|below|beneath|"
    r"max(?:imum)?(?: of)?|<|≤)\s*)"
    r"|(?P<least>(?:at least|no less than|not less than|more than|above|min(?:imum)?(?: of)?|>|≥)\s*))?"
    rf"(?P<about>(?:~|≈|about |around |roughly |approx\.? |approximately |nearly |almost |some |circa |ca\. )\s*)?"
    rf"(?P<two>(?i:between) )?(?P<money>\$)?(?P<sign>[-−])?(?P<n>{_DIGITS})(?:(?:\s?(?:-|–|to)\s?|(?(two) and |"
    rf"(?!)))\$?(?P<m>{_DIGITS}))?(?P<plus>\+)?"
)
LETTER = re.compile(r"(?P<n>[XYN])(?= ?(?:tok|tokens|t/s|GB|ms|users|%))")
_DECIMAL = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "b": 1e9, "t": 1e12, "p": 1e15, "e": 1e18}
_WORDS = {"thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12, "bn": 1e9}
_SECONDS = {
    "µs": 1e-6, "us": 1e-6, "ms": 1e-3, "millisecond": 1e-3,
    "s": 1.0, "sec": 1.0, "second": 1.0, "min": 60.0, "minute": 60.0, "h": HOUR_S,
    "hour": HOUR_S, "hr": HOUR_S, "day": DAY_S, "week": 7 * DAY_S, "month": MONTH_S, "year": YEAR_S,
}  # fmt: skip
_NEXT = r"(?=(?:[ABHLVTabhlvt]\d{1,3}|[Gg][BHbh]\d{2,3}|MI\d{3}|mi\d{3}|RTX|rtx|\d+ ?GB)(?:s?(?![\w/])|x))"
"""A device, or its memory, follows: "8x H100", "4×80 GB"."""
_LOOKS_AHEAD = re.compile(r"\(\?=(?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*\)$")
_POWERS_OF_TWO = {2.0**power for power in range(12)}


@dataclass(frozen=True, slots=True)
class Form:
    """What may follow a number, the kind that it makes of it, and the factor to SI units."""

    kind: str
    pattern: str
    factor: Callable[[re.Match[str], float], float]
    money: bool = False
    has: tuple[str, ...] = ()
    """Letters of which some are in all that it matches: without them nothing is compiled."""

    def match(self, text: str, at: int) -> re.Match[str] | None:
        if self.has and not any(each in text for each in self.has):
            return None
        return _compiled(self.pattern).match(text, at)


_compiled = lru_cache(maxsize=None)(re.compile)
"""Patterns are compiled when they are tried first: most sentences try few."""


def _form(
    kind: str, pattern: str, factor: Callable[[re.Match[str], float], float], money: bool = False, has: str = ""
) -> Form:
    ends = "" if _LOOKS_AHEAD.search(pattern) else "(?![A-Za-z0-9])"
    return Form(kind, rf"[ -]?(?:{pattern}){ends}", factor, money, tuple(has.split("|")) if has else ())


def _bytes(match: re.Match[str], number: float) -> float:
    size = match["x"].lower()[:1]
    if match["i"]:
        return 1024.0 ** ("kmgtp".index(size) + 1)
    return _DECIMAL[size]


def _scale(match: re.Match[str], number: float) -> float:
    word = (match["x"] or "").lower()
    return _WORDS[word] if word in _WORDS else _DECIMAL[word]


def _scale_of_power(match: re.Match[str], number: float) -> float:
    """As of J and W, where m is a thousandth."""
    return 1e-3 if match["x"] == "m" else _scale(match, number)


def _context(match: re.Match[str], number: float) -> float:
    """8K, 32K and 128K are powers of two, as the limits of models are; other K are thousands."""
    size = {"": 0, "k": 1, "m": 2}[(match["x"] or "").lower()]
    return (1024.0 if number in _POWERS_OF_TWO else 1000.0) ** size


def _seconds(match: re.Match[str], number: float) -> float:
    word = match["t"] if match["t"] in _SECONDS else match["t"].lower()
    return _SECONDS[word if word in _SECONDS else word.rstrip("s")]


def _one(match: re.Match[str], number: float) -> float:
    return 1.0


_X = r"(?P<x>[kKmMbBT]|[Tt]housand|[Mm]illion|[Bb]illion|[Tt]rillion)?"
_B = r"(?P<x>[KMGTPk])(?P<i>i?)B(?:ytes?)?"
_LONG = r"(?P<x>[Kk]ilo|[Mm]ega|[Gg]iga|[Tt]era|[Pp]eta)(?P<i>)bytes?"
_TOKENS = r"(?:(?:new |output |input |prompt |generated |decode[d]? )?[Tt]ok(?:en)?s?|t)"
_PER_S = r"(?:/ ?s(?:ec(?:ond)?)?|ps|/ ?sec| per sec(?:ond)?| a second| each second)"
_PER = r"(?: ?/ ?| per | a | an | (?:for )?(?:each|every) )"
_PER_TOKEN = rf"{_PER}(?:output |generated )?tok(?:en)?"
_TIME = r"(?P<t>µs|us|ms|s|secs?|seconds?|milliseconds?|min|minutes?|h|hrs?|hours?|days?|weeks?|months?|years?)"
_PARAMS = r"(?:[ -](?:total )?(?:param(?:eter)?s?|weights))?"
_COUNTED = r"(?P<x>[kKM]|thousand|million)?"
_KV_OF = r"(?:(?: of)?(?: the)? (?:KV|kv)(?:[ -]cache)?)?"

FORMS: tuple[Form, ...] = (
    _form("price_token", rf"{_X}{_PER}(?P<y>[MmBk]|million |billion |1M |1 million |thousand |"
          rf"1k )?(?: ?(?:output|input|generated))? ?tok(?:en)?s?",
          lambda match, n: _scale(match, n) / _each(match["y"]), money=True, has="tok"),
    _form("price_token", rf"{_X}{_PER}(?P<y>[MB]|million|billion)",
          lambda match, n: _scale(match, n) / _each(match["y"]), money=True),
    _form("tokens_dollar", rf"{_X} ?{_TOKENS} (?:per|for a|a) (?:dollar|USD)", _scale, has="USD|dollar"),
    _form("tokens_param", rf"{_TOKENS} per param(?:eter)?", _one, has=" per param"),
    _form("price_useful", rf"{_X}{_PER}useful[ -](?:GPU[- ])?h(?:ou)?r?", _scale, money=True, has="useful"),
    _form("price_kwh", rf"{_PER}(?:kWh|kilowatt[ -]hour)", _one, money=True, has="Wh|ilowatt"),
    _form("price_hour", rf"{_X}(?P<d>(?: each|{_PER}(?:GPU|card|device)))?{_PER}(?P<e>[A-Z]+\d*[- ])?h(?:ou)?r?",
          _scale, money=True),
    _form("cost_month", rf"{_X}{_PER}month", _scale, money=True, has="month"),
    _form("cost_day", rf"{_X}{_PER}day", _scale, money=True, has="day"),
    _form("cost_year", rf"{_X}{_PER}year", _scale, money=True, has="year"),
    _form("cost_each", rf"{_X}{_PER}(?:use|request|inference|query|call)", _scale, money=True,
          has="call|inference|query|request|use"),
    _form("price_device", rf"{_X}(?: each|{_PER}(?:GPU|card|device|unit|piece))", _scale, money=True,
          has=" each|GPU|card|device|piece|unit"),
    _form("money", _X, _scale, money=True),
    _form("bandwidth", rf"{_B}{_PER_S}", _bytes),
    _form("bandwidth", rf"{_LONG}{_PER_S}", _bytes, has="byte"),
    _form("bandwidth", rf"(?P<x>[MGT])(?P<i>)b(?:it)?s?{_PER_S}", lambda match, n: _bytes(match, n) / 8),
    _form("kv_token", rf"(?:{_B}){_KV_OF}{_PER_TOKEN}", _bytes, has="tok"),
    _form("bytes_per_param", rf"(?:B|bytes?){_PER}(?:param(?:eter)?|weight)s?", _one, has="param|weight"),
    _form("kv_token", rf"(?:B|bytes?){_KV_OF}{_PER_TOKEN}", _one, has="tok"),
    _form("bytes", _B, _bytes),
    _form("bytes", _LONG, _bytes, has="byte"),
    _form("bytes", r"bytes?", _one, has="byte"),
    _form("tokens_per_j", rf"{_X} ?{_TOKENS}{_PER}kWh", lambda match, n: _scale(match, n) / JOULES_PER_KWH, has="kWh"),
    _form("tokens_per_j", rf"{_TOKENS}{_PER}(?:J|[Jj]oule)", _one),
    _form("tokens_per_j", rf"{_TOKENS}/s(?:/| per )(?:W|[Ww]att)", _one, has="/s"),
    _form("j_token", rf"(?P<x>[mk]?)(?:J|[Jj]oules?){_PER_TOKEN}",
          _scale_of_power, has="tok"),
    _form("rate", rf"{_X} ?{_TOKENS}{_PER_S}", _scale),
    _form("rate", rf"{_X} ?{_TOKENS}(?=/(?:user|GPU|gpu)/s)", _scale, has="/s"),
    _form("tokens_step", rf"(?P<x>[kKM]|[Tt]housand|[Mm]illion) ?{_TOKENS}{_PER}(?:optimizer )?(?:step|batch|"
          rf"iteration|update)", _scale, has="batch|iteration|step|update"),
    _form("tokens_step", r"(?P<x>[kKM]|[Tt]housand|[Mm]illion)[ -]?tok(?:en)?s? (?:global )?batch(?:es)?", _scale,
          has="batch"),
    _form("passed", rf"{_TOKENS}{_PER}(?:\w+ )?(?:step|pass|verification|iteration)", _one,
          has="iteration|pass|step|verification"),
    _form("rate", rf"{_X} ?{_TOKENS}{_PER}(?P<h>h(?:ou)?r?|min(?:ute)?)(?![\w])",
          lambda match, n: _scale(match, n) / (60 if match["h"][0] == "m" else 3600)),
    _form("tokens_month", rf"{_X} ?{_TOKENS}{_PER}month", _scale, has="month"),
    _form("tokens_day", rf"{_X} ?{_TOKENS}{_PER}day", _scale, has="day"),
    _form("rps", rf"{_X} ?(?:requests?|queries|req){_PER_S}", _scale, has="queries|req"),
    _form("rps", r"(?:requests? |queries )?(?:arriv\w+|come in)(?: per| a| every| each|/)[ ]?s(?:econd)?", _one,
          has="arriv|come in"),
    _form("rps", r"(?:rps|RPS|qps|QPS|req/s)", _one, has="QPS|RPS|qps|req/s|rps"),
    _form("uses", rf"{_X} ?(?:requests?|uses?|queries|calls){_PER}day", _scale, has="day"),
    _form("in_flight", r"(?:requests?|queries|calls)? ?(?:are )?(?:in[ -]flight|in the system|outstanding|"
          r"in progress)", _one, has="flight|in progress|in the system|outstanding"),
    _form("context", r"(?P<x>[kKM])[ -]?(?:tok(?:en)?s? )?(?:sequence|conversation|chat|session|document|request)(?!s)",
          _context, has="chat|conversation|document|request|sequence|session"),
    _form("sequences", rf"{_COUNTED}[ -]?(?:(?:concurrent|parallel|simultaneous|active) )?(?:users?|sequences?|seqs?|"
          rf"streams?|chats?|sessions?|requests?(?= (?:of|at|with) (?:about |~)?\d))", _scale,
          has="chat|request|seq|session|stream|user"),
    _form("sequences", rf"{_COUNTED}[ -]?(?:concurrent|parallel|simultaneous) (?:\w+ )?(?:requests?|queries|"
          rf"calls|conversations)", _scale, has="concurrent|parallel|simultaneous"),
    _form("requests", rf"{_X} ?(?:requests|queries|calls|uses)", _scale, has="calls|queries|requests|uses"),
    _form("people", rf"{_X} ?(?:daily|monthly)(?: active)? users", _scale, has=" users"),
    _form("token_time", rf"(?P<t>µs|us|ms|s|seconds?|milliseconds?)(?:{_PER_TOKEN}| between tokens|{_PER}(?:decode |"
          rf"decoding )?step|(?: of)? (?:TPOT|ITL|tpot|inter-token latency))",
          _seconds, has="ITL|TPOT|step|tok|tpot"),
    _form("hours_day", rf"(?:h|hours?){_PER}day", _one, has="day"),
    _form("intensity", r"(?P<x>)(?:FLOPs?|flops?|FLOPS|OPs?|ops)"
          r"(?: ?/ ?| per | (?:for )?(?:each|every) )(?:B|bytes?)", _one, has="OP|flop|ops"),
    _form("flop_token", rf"(?P<x>[MGTPE]|[Mm]ega|[Gg]iga|[Tt]era)?[ -]?FLOPs?{_PER_TOKEN}",
          lambda match, n: _flop(match), has="FLOP"),
    _form("flop_rate", r"(?:(?:dense|sparse|FP\d+|fp\d+|BF16|bf16|INT\d+|int\d+|TF32|[Tt]ensor) )*(?P<x>[MGTPE]|"
          r"[Gg]iga|[Tt]era|[Pp]eta|[Ee]xa)(?:FLOPS|FLOP/s|FLOPs/s|flops|OPS|OP/s|FLOPs|flop/s|flop per second)"
          r"(?= ?(?:/ ?s| per sec))?(?:/s)?", lambda match, n: _flop(match),
          has="FLOPs|OP/s|OPS|flop per second|flop/s|flops"),
    _form("flop", r"(?P<x>[MGTPE]|[Pp]eta|[Ee]xa|[Zz]etta|[Yy]otta|[ZY])?[ -]?(?:FLOPs?|FLOPS|flops?|"
          r"floating[ -]point operations)", lambda match, n: _flop(match), has="FLOP|flop|point operations"),
    _form("flop_days", r"(?:petaflop|PFLOP|PF)(?:/s|s)?[ -]days?", lambda match, n: 1e15 * DAY_S, has="day"),
    _form("device_time", rf"{_X}[ -]?(?:(?:GPU|gpu|[HABLV]\d{{2,3}}|MI\d{{3}}X?|TPU|device|accelerator|card)"
          rf"[ -](?:GPU[ -])?)(?P<t>h(?:ou)?rs?|hours?|days?|months?|years?)",
          lambda match, n: _scale(match, n) * _seconds(match, n)),
    _form("energy", r"(?P<x>[kMGm]?)(?:Wh|wh|[Ww]att[- ]hours?)",
          lambda match, n: 3600 * _scale_of_power(match, n), has="Wh|hour|wh"),
    _form("energy", r"(?P<x>[kMGm]?)(?:J|[Jj]oules?)", _scale_of_power),
    _form("energy", r"kilowatt[- ]hours?", lambda match, n: JOULES_PER_KWH, has="kilowatt"),
    _form("active", rf"{_X}(?:[ -]param(?:eter)?s?)? (?:of (?:them|which|these) )?(?:are )?(?:active|activated)"
          rf"(?: param(?:eter)?s?)?(?:{_PER_TOKEN})?", _scale, has="activ"),
    _form("tokens", r"(?P<x>[MmBT]|[Mm]illion|[Bb]illion|[Tt]rillion)[ -]?"
          r"(?:(?:input|output|prompt|generated|new) )?[Tt]ok(?:en)?s?", _scale),
    _form("context", r"(?P<x>[kKM])?[ -]?(?:tokens?|tok)?[ -]?(?:of )?(?:input |long )?(?:context|ctx|prompts?|"
          r"sequences?(?= length))(?:[ -](?:length|window|tokens?))?", _context, has="context|ctx|prompt|sequence"),
    _form("tokens_out", r"(?P<x>[kK])?[ -]?(?:output|generated|new) tok(?:en)?s?", _context, has=" tok"),
    _form("context", r"(?P<x>[kK])?[ -]?(?:input |prompt |cached )?tok(?:en)?s?(?: each)?", _context, has="tok"),
    _form("drafts", r"(?:draft(?:ed|s)?|speculative|speculated|proposed)(?: tokens?)?", _one,
          has="draft|proposed|speculated|speculative"),
    _form("samples", rf"{_COUNTED} ?(?:training )?(?:samples|examples|images|documents|sequences in the set)", _scale,
          has="documents|examples|images|samples|sequences in the set"),
    _form("epochs", r"epochs?", _one, has="epoch"),
    _form("steps", rf"{_COUNTED} ?(?:optimizer |training )?(?:steps|iterations|updates)", _scale,
          has="iterations|steps|updates"),
    _form("devices", r"(?:x|×)?[ -]?(?:GPUs?|gpus?|cards?|accelerators?|devices?|chips?|TPUs?|"
          r"(?:replicas?|instances?)(?! of)|boards?|ranks?)", _one,
          has="GPU|TPU|accelerator|board|card|chip|device|gpu|instance|rank|replica"),
    _form("devices", r" of (?:our|the|these|those|my)(?= \d+ ?GB)", _one, has=" of "),
    _form("devices", r"-way(?= tensor| TP)", _one, has="-way"),
    _form("devices", rf"(?:x|×)? ?{_NEXT}", _one),
    _form("devices", r" ?(?:x|×)(?= ?\d[\d.]* ?(?:GB|k?W))", _one),
    _form("sequences", r" ?(?:x|×)(?= ?\d[\d,.]*[kK]?[ -]?(?:tok|context|ctx))", _one, has="context|ctx|tok"),
    _form("devices", r" (?=\d[\d.,]* ?(?:GB|k?W)[ -]?(?:GPU|gpu|card|accelerator|device|board))", _one,
          has="GPU|accelerator|board|card|device|gpu"),
    _form("groups", r"(?:nodes?|servers?|racks?|machines?|boxes|hosts?|trays?|pods?|DGX|HGX)", _one,
          has="DGX|HGX|boxes|host|machine|node|pod|rack|server|tray"),
    _form("factor", r" ?[x×*·]? ?N(?: ?[x×*·]? ?D)?", _one),
    _form("factor", r" ?[x×*·](?= ?\d[\d.]*[BMT](?!\w))", _one),
    _form("ratio", r"(?:times|(?:x|×)(?!\s*[\d($]))", _one),
    _form("power", r"(?P<x>[kM]?)(?:W|[Ww]atts?|[Kk]ilowatts?)", _scale),
    _form("share", r"(?:%|percent|per cent)(?: ?(?:of|MFU|MBU))?", lambda match, n: 0.01),
    _form("bits", r"(?:bits? per (?:weight|param(?:eter)?)|bpw|bits?/weight|bits?)", _one),
    _form("head_dim", r"head[ _-]?dim(?:ension)?s?", _one, has="head"),
    _form("kv_heads", r"(?:KV|kv|key-value)[ -]heads?", _one, has="head"),
    _form("heads", r"(?:attention |query )?heads?", _one, has="head"),
    _form("layers", r"(?:transformer )?layers?", _one, has="layer"),
    _form("context", r"(?P<x>[kK])", _context),
    _form("time", rf"(?P<x>thousand|million|billion)? ?{_TIME}",
          lambda match, n: _seconds(match, n) * _scale(match, n)),
    _form("params", r" ?(?:total )?param(?:eter)?s", _one, has="param"),
    _form("params", rf"(?P<x>[MBTmbt]|[Mm]illion|[Bb]illion|[Tt]rillion|bn){_PARAMS}", _scale),
)  # fmt: skip
"""What may follow a number, the longest first: "45 tok/s" is a rate before "45 t" could be anything else."""
_PER_EACH = re.compile(
    r"(?i)(?:(?: for)? each of (?=\d[\d,]* (?P<u>users|people|streams|sequences|requests))|"
    r"(?:,? ?/ ?|,? per |,? for each | each |,? for every )(?:(?P<user>users?|streams?|requests?|sequences?|"
    r"person)|(?P<device>GPUs?|cards?|device|accelerator|chip)|(?P<group>nodes?|servers?|racks?|machine|box|host))"
    r"(?![\w])(?:/s)?)"
)
_EACH = re.compile(r" each(?! way| direction|\w)")
_ALONE = re.compile(r"(?i) each(?![\w])| per(?= )| ?/ ?(?=[A-Za-z])")


def per_at(text: str, at: int, kind: str) -> tuple[Literal["", "user", "device", "group"], int] | None:
    """Whether a quantity is of each user or of each device: "/user", "per GPU", "per H100"; and where that ends."""
    found = _PER_EACH.match(text, at)
    if found is not None:
        return ("user" if found["user"] or found["u"] else "device" if found["device"] else "group"), found.end()
    if kind in ("power", "price_hour", "flop_rate", "bandwidth") and _EACH.match(text, at):
        return "device", at + 5
    if kind in ("bytes", "rate") and _EACH.match(text, at):
        return "user", at + 5
    if kind in ("context", "tokens_out") and (each := re.match(r",? each(?!\w)", text[at:])) is not None:
        return "", at + each.end()
    plain = _ALONE.match(text, at)
    if plain is not None and "each" not in plain[0] and device_at(text, at + len(plain[0]) + plain[0].endswith("per")):
        return "device", plain.end()
    return None


def _flop(match: re.Match[str]) -> float:
    size = (match["x"] or "").lower()
    return {"": 1.0, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15, "e": 1e18, "z": 1e21, "y": 1e24}[size[:1]]


def _each(word: str | None) -> float:
    size = (word or "").strip().lower().removeprefix("1")
    return _WORDS[size] if size in _WORDS else _DECIMAL[size]


def read_quantity(text: str, at: int) -> tuple[Said, int] | None:
    """The quantity at a place of a text, and where it ends; None where no number stands there.

    Raises BadInput for a number without a unit, and for one that is zero, negative or absurd.
    """
    number = NUMBER.match(text, at)
    if number is None:
        return _letter(text, at)
    if (found := _count_of_device(text, at, number)) is not None:
        return found
    digits = number["n"]
    low = float(digits.replace(",", "")) * (-1 if number["sign"] else 1)
    for form in FORMS:
        unit = form.match(text, number.end()) if form.money == bool(number["money"]) else None
        if unit is None:
            continue
        factor = form.factor(unit, abs(low))
        ends = [low * factor, *([float(number["m"].replace(",", "")) * factor] if number["m"] else [])]
        off = rounding(digits, bool(number["about"]))
        per: Literal["", "user", "device", "group"]
        per, end = per_at(text, unit.end(), form.kind) or ("", unit.end())
        if form.kind == "price_hour" and (unit["d"] or unit["e"]):
            per = "device"
        said = Said(
            form.kind, min(ends), max(ends), text[at:end].strip(), off, rounding_of_input(digits),
            "most" if number["most"] else "least" if number["least"] or number["plus"] else "", per, at,
        )  # fmt: skip
        return checked(said), end
    bare = float(digits.replace(",", "")) * (-1 if number["sign"] else 1)
    return checked(
        Said("bare", bare, bare, text[at : number.end()].strip(), rounding(digits, bool(number["about"])), at=at)
    ), number.end()


_BEFORE_DEVICE = (
    re.compile(r" ?[x×]? ?"),
    re.compile(r"(?: (?!of|at|in|on|and|by)[A-Za-z][A-Za-z-]+){1,2} (?=[\w -]*\ds\b)"),
)
_HOURS = re.compile(r"[ -](?:GPU[ -])?(?:h(?:ou)?rs?|hours?|days?|years?)(?!\w)")


def _count_of_device(text: str, at: int, number: re.Match[str]) -> tuple[Said, int] | None:
    """ "8x H100", "2 RTX 3090", "16,384 A100s": how many of a device that follows."""
    for between in _BEFORE_DEVICE:
        times = between.match(text, number.end())
        end = times.end() if times else number.end()
        found = device_at(text, end) if end > number.end() else None
        if found is not None:
            break
    if found is None or number["money"] or number["m"] or "." in number["n"] or _HOURS.match(text, found[1]):
        return None
    many = float(number["n"].replace(",", "")) * (-1 if number["sign"] else 1)
    side: Literal["", "most", "least"] = (
        "most" if number["most"] else "least" if number["least"] or number["plus"] else ""
    )
    return checked(Said("devices", many, many, text[at:end].strip(), side=side, at=at)), end


def _letter(text: str, at: int) -> tuple[Said, int] | None:
    letter = LETTER.match(text, at)
    if letter is None:
        return None
    for form in FORMS:
        unit = None if form.money else form.match(text, letter.end())
        if unit is not None:
            return Said(form.kind, None, None, text[at : unit.end()].strip(), at=at), unit.end()
    return None
