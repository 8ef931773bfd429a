"""A sentence in plain numbers: decimal commas, words for numbers, powers of ten and money as the grammar reads them."""

from __future__ import annotations

import re

from twinlens.claims.phrase import rephrased
from twinlens.errors import BadInput

_UNITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
          "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen")  # fmt: skip
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_WORDS = {
    **{word: number for number, word in enumerate(_UNITS)},
    **{word: 10 * number for number, word in enumerate(_TENS, 2)},
}
_SMALL = "|".join(sorted(_WORDS, key=len, reverse=True))
_ONES = "|".join(_UNITS[1:10])
_WORD = re.compile(
    rf"(?i)(?<![\w-])(?P<a>{_SMALL}|a(?= hundred))(?:[ -](?P<b>{_ONES}))?"
    rf"(?:(?P<c>[ -]hundred)(?:[ -](?:and[ -])?(?P<d>{_SMALL})(?:-(?P<e>{_ONES}))?)?)?(?![\w])"
)
_ONE = re.compile(
    r"(?i) (?:million|billion|trillion|thousand|hundred|users?|requests?|gpus?|cards?|devices?|nodes?|cents?|streams?"
    r"|sequences?|dollars?|tokens?|[kM]?Wh|watts?|joules?|days?|hours?|weeks?|months?|years?"
    r"|[habltv]\d|b\d|mi\d|rtx|gh?\d|\d+ ?GB|"
    r"\d{4}(?!\d))"
)
"""What follows "one" where it counts: "one user", and not "one way"."""
_SUPER = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
_POWER = re.compile(
    r"(?<![\w.])(?:(\d+(?:[.,]\d+)?) ?[×x·*] ?)?10(?:\^|\*\*)?(?:([-⁻]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+)|(?<=[\^*])(-?\d+))"
)
_COMMA = re.compile(r"(?<![\d.,])(?:\d{1,3},\d{1,2}|\d+,\d{4,}|0,\d+|\d{4,},\d+|\d{1,3}(?:\.\d{3})+,\d+)(?![\d,]*\d)")
_EITHER = re.compile(r"(?<![\d.,])[1-9]\d{0,2},\d{3}(?![\d,])")
_POINT = re.compile(
    r"(?<![\d.,])([1-9]\d{0,2}\.\d{3})(?= ?(?:tok(?:en)?s?(?:/| per)|t/s|(?:W|watts?|TFLOPS|GB/s)(?!\w)))"
)
"""A number that is one of thousands in Europe, and has three decimals elsewhere, where either may be meant."""
_COUNT = re.compile(r"(?<![\d.,])(\d{1,3})\.(\d{3})(?= (?:tok(?:ens)?(?!\S)|users|requests|GPUs|steps|samples))")
_AMOUNT = r"\d[\d,]*(?:\.\d+)?(?:[eE]\d+)?"
_SCALE = r"(?: ?(?:k|K|M|B|bn|million|billion|thousand|mn|m)(?![\w]))?"
_COIN = re.compile(
    rf"(?i)(?P<n>{_AMOUNT})(?P<s>{_SCALE})[ -]?(?:US[ -]?)?(?:dollars?(?!\w)|USD(?!\w)|euros?(?!\w)|EUR(?!\w)|€|"
    rf"\$(?!\d))"
)
_CENTS = re.compile(rf"(?i)(?P<n>{_AMOUNT}) ?(?:¢|ct(?!\w)|cents?(?!\w)|c(?= per| a |/))")
_CODE = re.compile(rf"(?:US\$|USD ?|EUR ?|€ ?|\$ )(?={_AMOUNT})")
_SYMBOLS = {"N": "parameters", "D": "tokens"}
_A_TIME = re.compile(
    r"(?i)\b(takes?|took|in|within|for|lasts?|about) an? (?:whole |full |entire )?"
    r"(?=(?:hour|day|week|month|year)(?!\w))"
)
_NEVER = (
    r"(?i)\b(?:(?:can|could|wo|would|will|does|do)(?: ?n[o']t| not| never)|can't|won't|cannot|never)(?: \w+){0,1}? "
)
_EXCEED = re.compile(
    rf"{_NEVER}(?:exceeds?|beat|surpass|pass|(?:be |go |run |get )?(?:above|over|beyond|past|more than|faster than))"
    rf"(?= ~?(?:about |around )?\$?\d)"
)
_BELOW = re.compile(
    rf"{_NEVER}(?:(?:be |go |get |drop |fall )?(?:below|under|less than|beneath|faster than))(?= ~?(?:about |"
    rf"around )?\$?\d[\d.,]* ?m?s)"
)


def plain(text: str) -> str:
    """The sentence with every number as 1,234.5e6, and every price as $2.50.

    Raises BadInput where a comma may be one of thousands or of decimals, and other numbers of the sentence do not tell.
    """
    text = re.sub(r"(?<=\d)['\u2009\u202f\u00a0](?=\d{3})", "", text).replace("‑", "-").replace("’", "'")
    text = re.sub(r"\b2:4\b", "structured", text)
    text = _POWER.sub(lambda m: f"{m[1] or 1}e{(m[2] or m[3]).translate(_SUPER)}", text)
    text = _decimals(" ".join(text.split()))
    text = _WORD.sub(lambda m: _number(m, text), text)
    text = re.sub(r"(?i)\b(?:a (?:pair|couple) of|dual) (?=[\w-])", "2 ", text)
    text = re.sub(r"(?i)\b(?:2|both) (?=moments?(?!\w))", "", text)
    text = re.sub(r"(?<![\w.,])(\d[\d.]*)(?= of \d[\d.]* (billion|million|trillion) param)", r"\1 \2", text)
    text = re.sub(r"(?i)\bone(?= and a half )", "1", text)
    text = re.sub(r"(?i)(?<![\w.,])(\d+) and a half (?=[\w-])", r"\1.5 ", text)
    text = re.sub(r"(?i)\b(?:half a|a half) dozen (?=[\w-])", "6 ", text)
    text = re.sub(r"(?i)(?<![\w.,])(?:a|(\d+)) dozen (?=[\w-])", lambda m: f"{12 * int(m[1] or 1)} ", text)
    text = re.sub(r"(\d) hundred(?![\w])", r"\g<1>00", text)
    text = re.sub(r"(?<![\d.,])(\d+) thousand(?![\w])", r"\g<1>000", text)
    text = re.sub(r"(?i)\bmindestens\b", "at least", re.sub(r"(?i)\bhöchstens\b", "at most", text))
    text = re.sub(r"(?<=\d)-(?=(?:million|billion|trillion|thousand|bit|[a-z]+ parameter))", " ", text)
    text = re.sub(r"(?i)(?:\bhalf a|\ba half) (?=million|billion|trillion)", "0.5 ", text)
    text = re.sub(r"(?i)\ban? (?=(?:million|billion|trillion|thousand|cent|dollar|[kmgtp]\w+byte)(?!\w))", "1 ", text)
    text = _A_TIME.sub(r"\1 1 ", text)
    text = re.sub(r"\b([ND]) ?= ?(\d[\d.]* ?[BMT])\b", lambda m: f"{m[2]} {_SYMBOLS[m[1]]}", text)
    text = re.sub(r"(\d)( ?(?:[BMKkTG]B?|ms|%))(?: ?[-–] ?| to )(?=(\d[\d.]*)\2(?![A-Za-z0-9]))", r"\1-", text)
    text = _EXCEED.sub("is at most", _BELOW.sub("is at least", text))
    text = _CODE.sub("$", text)
    text = _CENTS.sub(lambda m: f"${float(m['n'].replace(',', '')) / 100:g}", text)
    return rephrased(_COIN.sub(lambda m: f"${m['n']}{m['s']}", text))


def _decimals(text: str) -> str:
    """A comma before one, two or at least four digits is a decimal one; then a point before three is of thousands."""
    if _COMMA.search(text):
        if found := _EITHER.search(text):
            raise BadInput(
                f"{found[0]!r} may be {found[0].replace(',', '')} or {found[0].replace(',', '.')}: other numbers of "
                "the sentence have decimal commas; write it without one",
                code="TL230",
            )
        text = re.sub(r"(?<![\d.,])(\d{1,3})((?:\.\d{3})+)(?![\d.])", lambda m: m[1] + m[2].replace(".", ""), text)
        return re.sub(r"(?<=\d),(?=\d)", ".", text)
    if (found := _POINT.search(text)) is not None:
        raise BadInput(
            f"{found[1]!r} may be {found[1].replace('.', '')} or {found[1].rstrip('0').rstrip('.')}: write it without "
            "a point, or with fewer digits behind it",
            code="TL230",
        )
    text = re.sub(r"(?<![\d.,])\d{1,3}(?:\.\d{3}){2,}(?![\d.])", lambda m: m[0].replace(".", ""), text)
    return _COUNT.sub(r"\1\2", text)


def _number(match: re.Match[str], text: str) -> str:
    first = match["a"].lower()
    if first in ("one", "zero") and not match["c"] and not _ONE.match(text, match.end()):
        return match[0]
    value = 1 if first == "a" else _WORDS[first]
    if match["b"]:
        if value < 20:
            return match[0]
        value += _WORDS[match["b"].lower()]
    value *= 100 if match["c"] else 1
    value += _WORDS[match["d"].lower()] if match["d"] else 0
    value += _WORDS[match["e"].lower()] if match["e"] else 0
    return str(value)
