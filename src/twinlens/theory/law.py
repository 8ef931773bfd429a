"""Laws: relations of theory as rows. The formula of a row computes it, is shown, and is turned round for any input.

A formula is written with the names of quantities (`QUANTITIES`, which has the unit of each), `×`, `/`, `+`, `−`, `^`,
`min` and `max`; a number has its unit behind it: "6 [flop/parameter/token] × active-params". Values may be arrays.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

from twinlens.theory.number import Number, larger, smaller

_TOKEN = re.compile(r"(\d[\d.]*(?:e\d+)?)(?: \[([^\]]+)\])?|([a-z](?:[a-z-]*[a-z])?)")
_BRACKETS = re.compile(r" \[([^\]]+)\]")
_CALL = re.compile(r"\b(?:max|min)\(")
_SIGNS = str.maketrans({"×": "*", "−": "-", "^": "~"})
_OPERATIONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv, ast.Pow: pow,
}  # fmt: skip
_CALLS: dict[str, Callable[[Any, Any], Any]] = {"min": smaller, "max": larger}
_SHOWN: dict[type, tuple[str, int]] = {
    ast.Add: (" + ", 0), ast.Sub: (" − ", 0), ast.Mult: (" × ", 1), ast.Div: (" / ", 1), ast.Pow: ("^", 2),
}  # fmt: skip
"""The sign of an operation, and how tightly it binds."""


@dataclass(frozen=True, slots=True)
class Constant:
    """A number of a formula, with its unit."""

    value: float
    unit: str


@dataclass(frozen=True, slots=True)
class Law:
    """One relation. `name` and `title` are of the quantity that it gives, in `unit`; `source` is where it comes from.

    An input that has a usual value (`USUAL`) may be left out: one device, no other costs.
    """

    name: str
    title: str
    unit: str
    formula: str
    source: str
    verbs: str = "claim"
    """Verbs whose figures rest on it; "" for one that none needs."""

    @property
    def text(self) -> str:
        """The formula to be read: "6 flop/parameter/token × active-params"."""
        return _BRACKETS.sub(r" \1", self.formula)

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the inputs, in the order of the formula."""
        return _inputs(self.formula)

    @property
    def constants(self) -> Mapping[str, Constant]:
        return _parsed(self.formula)[1]

    def value(self, values: Mapping[str, Number]) -> Number:
        """The quantity, of its inputs in the units of `QUANTITIES`. Raises KeyError for one that is missing."""
        return _worked(_parsed(self.formula)[0], self._known(values))

    def inverse(self, name: str, value: float, others: Mapping[str, float]) -> float | None:
        """The value of one input with which the quantity is `value`; None where no positive one gives it.

        By turning the formula round where the input stands in it once, else by a root between brackets (Brent).
        """
        tree, known = _parsed(self.formula)[0], self._known(others)
        if sum(each == name for each in _names(tree)) == 1 and not _CALL.search(self.formula):
            found = _turned(tree, name, value, known)
        else:
            most = 1.0 if QUANTITIES[name] == "share" else 1e30
            found = _root(lambda at: _number(tree, {**known, name: at}) - value, most)
        return found if found is not None and math.isfinite(found) and found > 0 else None

    def shown(self, present: Iterable[str]) -> tuple[str, tuple[str, ...]]:
        """The formula of the inputs that are there, as "{0} × {1} / {2}", and what stands in each place."""
        tree = _without(_parsed(self.formula)[0], {*present, *self.constants})
        places = tuple(dict.fromkeys(_names(tree))) if tree else ()
        return (_text(tree, places.index) if tree else "1"), places

    def _known(self, values: Mapping[str, Number]) -> dict[str, Number]:
        numbers = {name: each.value for name, each in self.constants.items()}
        return {**{name: USUAL[name] for name in self.inputs if name in USUAL}, **numbers, **values}


@cache
def _parsed(formula: str) -> tuple[ast.expr, Mapping[str, Constant]]:
    """A formula as a tree of names; a number is a name too, "number_0", and stands among the constants."""
    constants: dict[str, Constant] = {}

    def plain(found: re.Match[str]) -> str:
        if found[3]:
            return found[3].replace("-", "_")
        name = f"number_{len(constants)}"
        constants[name] = Constant(float(found[1]), found[2] or "1")
        return name

    text = _TOKEN.sub(plain, formula).translate(_SIGNS).replace("~", "**")
    return ast.parse(text, mode="eval").body, constants


@cache
def _inputs(formula: str) -> tuple[str, ...]:
    tree, constants = _parsed(formula)
    return tuple(dict.fromkeys(name for name in _names(tree) if name not in constants))


def _id(node: ast.Name) -> str:
    return node.id if node.id.startswith("number_") else node.id.replace("_", "-")


def _names(node: ast.expr) -> Iterator[str]:
    match node:
        case ast.Name():
            yield _id(node)
        case ast.BinOp(left=left, right=right):
            yield from (*_names(left), *_names(right))
        case ast.Call(args=args):
            yield from (name for each in args for name in _names(each))


def _worked(node: ast.expr, values: Mapping[str, Any]) -> Any:
    """The value of a tree: of numbers, of arrays, or of units."""
    match node:
        case ast.Name():
            return values[_id(node)]
        case ast.BinOp(left=left, op=op, right=right):
            return _OPERATIONS[type(op)](_worked(left, values), _worked(right, values))
        case ast.Call(func=ast.Name(id=name), args=[one, other]):
            return _CALLS[name](_worked(one, values), _worked(other, values))
    raise ValueError(f"{ast.unparse(node)} is no part of a formula")


def _number(node: ast.expr, values: Mapping[str, float]) -> float:
    """The value of a tree of plain numbers; not a number where it has none."""
    try:
        return float(_worked(node, values))
    except ArithmeticError:
        return math.nan


def _turned(node: ast.expr, name: str, value: float, known: Mapping[str, float]) -> float | None:
    """The value of the one place of an input, from the value of the whole."""
    if not isinstance(node, ast.BinOp):
        return value
    is_left = name in _names(node.left)
    own, other = (node.left, node.right) if is_left else (node.right, node.left)
    try:
        return _turned(own, name, _BACK[type(node.op), is_left](value, _worked(other, known)), known)
    except (ArithmeticError, ValueError):
        return None


_BACK: dict[tuple[type, bool], Callable[[float, float], float]] = {
    (ast.Add, True): operator.sub, (ast.Add, False): operator.sub,
    (ast.Sub, True): operator.add, (ast.Sub, False): lambda value, left: left - value,
    (ast.Mult, True): operator.truediv, (ast.Mult, False): operator.truediv,
    (ast.Div, True): operator.mul, (ast.Div, False): lambda value, left: left / value,
    (ast.Pow, True): lambda value, right: value ** (1 / right),
    (ast.Pow, False): lambda value, left: math.log(value) / math.log(left),
}  # fmt: skip
"""One side of an operation, from its value and its other side; by whether it is the left one."""


def _root(miss: Callable[[float], float], most: float) -> float | None:
    """Where a function of one positive input crosses zero; None where it does not below `most`."""
    from scipy.optimize import brentq  # it is needed for few laws

    small = (10.0**power for power in range(-15, 31) if 10.0**power < most)
    near = (most * (1 - 10.0**-power) for power in range(1, 15))
    for low, high in pairwise(sorted({*small, *near})):
        if (below := miss(low)) == 0:
            return low
        if below * miss(high) < 0:
            return float(brentq(miss, low, high, xtol=low * 1e-14, rtol=1e-14))
    return None


def _without(node: ast.expr, present: set[str]) -> ast.expr | None:
    """A tree without the inputs that are left out: a factor of 1, an addend of 0."""
    match node:
        case ast.Name():
            return node if _id(node) in present else None
        case ast.BinOp(left=left, op=op, right=right):
            one, other = _without(left, present), _without(right, present)
            if one is None and isinstance(op, ast.Div) and other is not None:
                return ast.BinOp(ast.Constant(1), op, other)
            return ast.BinOp(one, op, other) if one and other else one or other
        case ast.Call(func=func, args=args):
            kept = [each for each in (_without(each, present) for each in args) if each is not None]
            return ast.Call(func, kept, []) if len(kept) > 1 else kept[0] if kept else None
    return node


def _text(node: ast.expr, place: Callable[[str], int], within: float = 0) -> str:
    """A tree as it is written, with as few parentheses as it needs."""
    if isinstance(node, ast.Name):
        return f"{{{place(_id(node))}}}"
    if isinstance(node, ast.Constant):
        return "1"
    if isinstance(node, ast.Call):
        return f"{ast.unparse(node.func)}({', '.join(_text(each, place) for each in node.args)})"
    assert isinstance(node, ast.BinOp)
    sign, binds = _SHOWN[type(node.op)]
    tighter = binds + 0.5 * isinstance(node.op, ast.Div | ast.Sub)
    text = f"{_text(node.left, place, binds)}{sign}{_text(node.right, place, tighter)}"
    return f"({text})" if binds < within else text


QUANTITIES = {
    "acceptance": "share", "active-params": "parameters", "answer-tokens": "tokens/request",
    "bandwidth": "bytes/s/device", "batch": "sequences/step", "batch-fixed": "s", "batch-row": "s",
    "bits": "bits/parameter", "bus-bandwidth": "bytes/s", "bytes": "bytes", "bytes-per-parameter": "bytes/parameter",
    "capital-per-hour": "$/h", "check-cost": "1", "compute-time": "s", "context": "tokens/sequence",
    "cost-each": "$/request", "device-time": "device·s", "devices": "devices", "drafts": "1", "draft-cost": "1",
    "element-bytes": "bytes/element", "energy-per-hour": "$/h", "energy-per-token": "j/token", "epochs": "epochs",
    "flop": "flop", "flop-per-s": "flop/s", "head-dim": "1", "hours": "h", "hours-per-month": "h/month", "kv": "bytes",
    "kv-heads": "1", "kv-per-token": "bytes/token", "latency": "s", "layers": "1",
    "link-bandwidth": "bytes/s", "load": "share", "memory": "bytes", "mfu": "share",
    "microbatches": "1", "money": "$/device", "moving-time": "s", "own-per-hour": "$/h/device", "params": "parameters",
    "part": "share", "parts": "1", "peak": "flop/s/device", "period": "s", "power": "w/device",
    "price-per-device": "$/device",
    "price-per-hour": "$/h/device", "price-per-kwh": "$/kWh", "price-per-token": "$/token", "ranks": "1", "shards": "1",
    "rate": "tokens/s", "read": "bytes", "replicas": "1", "reached": "flop/s/device",
    "requests-per-second": "requests/s",
    "samples": "samples/epoch", "samples-per-step": "samples/step", "service-time": "s", "speed-up": "1", "stages": "1",
    "step-fixed": "s/token", "step-row": "s/token", "step-tokens": "tokens",
    "token-time": "s/token", "tokens": "tokens", "train-step": "s/step", "training-flop": "flop", "ttft": "s",
    "users": "sequences",
    "uses-per-day": "requests/day", "utilisation": "share", "variability": "1", "weights": "bytes",
}  # fmt: skip
"""Quantities that laws are of, and the unit of each."""
USUAL: Mapping[str, float] = {
    "devices": 1.0, "utilisation": 1.0, "epochs": 1.0, "mfu": 1.0, "own-per-hour": 0.0, "kv": 0.0, "check-cost": 1.0,
    "parts": 1.0, "replicas": 1.0, "shards": 1.0, "step-tokens": 1.0,
}  # fmt: skip
"""Values of inputs that are left out: one device, busy at all hours, no other costs."""
_N = "6·N·D, Kaplan et al. 2020, arXiv 2001.08361"
_ROOF = "Williams, Waterman, Patterson 2009, doi 10.1145/1498765.1498785"
_RING = "nccl-tests, doc/PERFORMANCE.md"
_DEFINITION = "by definition"
_ROWS = (
    # Arithmetic of training and inference.
    ("training-flop", "FLOP of training", "flop", "6 [flop/parameter/token] × active-params × tokens", _N,
     "claim, measure, plan check"),
    ("training-flop-per-token", "FLOP of a trained token", "flop/token", "6 [flop/parameter/token] × active-params",
     _N, "claim, measure"),
    ("forward-flop-per-token", "FLOP of a token, forward", "flop/token", "2 [flop/parameter/token] × active-params",
     _N),
    ("prefill-flop", "FLOP of a prefill, attention aside", "flop",
     "2 [flop/parameter/token] × active-params × tokens", _N),
    ("chinchilla", "Tokens at 20 per parameter", "tokens", "20 [tokens/parameter] × params",
     "Hoffmann et al. 2022, arXiv 2203.15556"),
    ("tokens-per-parameter", "Tokens per parameter", "tokens/parameter", "tokens / params", _DEFINITION),
    ("optimizer-flop", "FLOP of an AdamW step", "flop", "14 [flop/parameter] × params",
     "Loshchilov and Hutter 2019, arXiv 1711.05101, algorithm 2", "diagnose, measure"),
    ("training-time", "Training time", "s", "training-flop / (devices × peak × mfu)", _DEFINITION),
    ("device-time", "Device time", "device·s", "training-flop / (peak × mfu)", _DEFINITION,
     "claim, plan check, plan method"),
    ("training-rate", "Rate of training", "tokens/s",
     "peak × devices × mfu / (active-params × 6 [flop/parameter/token])", _N),
    ("mfu", "MFU", "share", "6 [flop/parameter/token] × active-params × rate / (devices × peak)",
     "PaLM, Chowdhery et al. 2022, arXiv 2204.02311, appendix B; attention left out", "claim, show"),
    ("mfu-reached", "MFU of FLOP/s that are reached", "share", "reached / peak", _DEFINITION),
    ("prefill-time", "Time of a prefill", "s", "flop / (peak × devices × mfu)", _DEFINITION, "claim, plan check"),
    ("steps", "Steps", "steps", "samples × epochs / samples-per-step", _DEFINITION),
    ("tokens-per-step", "Tokens of a step", "tokens/step", "batch × context × replicas", _DEFINITION),
    ("bubble-share", "Idle share of a pipeline, of so many parts a stage", "share",
     "(stages − 1) / (parts × microbatches + stages − 1)",
     "Narayanan et al. 2021, arXiv 2104.04473", "measure"),
    # Memory.
    ("weights", "Weights", "bytes", "params × bits / 8 [bits/byte]", _DEFINITION, "claim, plan fit"),
    ("training-memory", "Training memory, activations aside", "bytes",
     "params × bytes-per-parameter / shards",
     "ZeRO, Rajbhandari et al. 2020, arXiv 1910.02054; bytes by layout: theory/memory.py", "claim, plan fit"),
    ("kv-per-token", "KV cache of a token", "bytes/token",
     "2 [element/token] × layers × kv-heads × head-dim × element-bytes", "keys and values of every layer",
     "claim, plan fit"),
    ("kv", "KV cache", "bytes", "kv-per-token × context × users", _DEFINITION, "claim, plan fit"),
    ("kv-tokens", "Tokens in the KV cache", "tokens", "memory / kv-per-token", _DEFINITION),
    # Time against bandwidth, FLOP and links.
    ("ridge", "Ridge point", "flop/byte", "peak / bandwidth", _ROOF, "claim, diagnose, report"),
    ("intensity", "Intensity", "flop/byte", "flop / bytes", _ROOF, "diagnose, report"),
    ("time-floor", "Least time", "s", "max(flop / flop-per-s, bytes / link-bandwidth)", _ROOF,
     "diagnose"),
    ("decode-time", "Time of a decode step, bound by bandwidth", "s", "(weights + kv) / (devices × bandwidth)", _ROOF,
     "claim, plan capacity"),
    ("decode-rate", "Decode rate, bound by bandwidth", "tokens/s",
     "devices × bandwidth × step-tokens / (weights + kv)", _ROOF),
    ("ridge-batch", "Batch at the ridge point", "sequences",
     "peak / bandwidth × bits / (8 [bits/byte] × 2 [flop/parameter/sequence])", _ROOF, "claim, diagnose"),
    ("mbu", "MBU", "share", "rate × read / (link-bandwidth × step-tokens)",
     "Databricks 2023, LLM inference performance engineering"),
    ("transfer-time", "Time of a transfer", "s", "bytes / link-bandwidth", _DEFINITION, "claim, diagnose"),
    ("all-reduce-time", "Time of an all-reduce by a ring, latency aside", "s",
     "2 × (ranks − 1) / ranks × bytes / bus-bandwidth", _RING, "claim, diagnose"),
    ("all-gather-time", "Time of an all-gather or a reduce-scatter, latency aside", "s",
     "(ranks − 1) / ranks × bytes / bus-bandwidth", _RING, "diagnose"),
    ("all-reduce-share", "Share of all-reduces in a step", "share", "moving-time / (moving-time + compute-time)",
     "nothing overlapped", "claim, plan check"),
    ("amdahl", "Speed-up of the whole", "1", "1 / (1 − part + part / speed-up)",
     "Amdahl 1967, doi 10.1145/1465482.1465560", ""),
    ("in-flight", "Requests in flight", "requests", "requests-per-second × latency",
     "Little 1961, doi 10.1287/opre.9.3.383", "claim, plan capacity"),
    ("end-to-end", "Latency", "s", "ttft + tokens × token-time", _DEFINITION),
    ("stream-rate", "Rate of a stream", "tokens/s", "1 / token-time", _DEFINITION),
    ("tokens", "Tokens", "tokens", "rate × period", _DEFINITION),
    ("tokens-per-pass", "Tokens of a pass with speculation", "1", "(1 − acceptance^(drafts + 1)) / (1 − acceptance)",
     "Leviathan et al. 2023, arXiv 2211.17192"),
    ("speculation", "Speed-up of speculation", "1",
     "(1 − acceptance^(drafts + 1)) / (1 − acceptance) / (drafts × draft-cost + check-cost)",
     "Leviathan et al. 2023, arXiv 2211.17192"),
    # Waiting at a steady rate of independent arrivals; `load` is the share of time in which the server has work.
    ("queue-wait", "Mean wait before one server", "s",
     "load / (1 − load) × (1 + variability × variability) / 2 × service-time", "Kleinrock 1975, 5.6", ""),
    ("row-load", "Share of time that rows of a batch fill", "share", "requests-per-second × answer-tokens × step-row",
     _DEFINITION, ""),
    ("batched-time", "Mean time of an answer under continuous batching", "s/request",
     "answer-tokens × (step-fixed + step-row) / (1 − load)", "Kelly 1979, 3.3; load is `row-load`", ""),
    ("gathered-time", "Mean time where a batch takes all that wait, when busy", "s",
     "1.5 × batch-fixed / (1 − load) + batch-row / 2 × (load + 2) / (1 − load × load)", "arXiv 1912.06322", ""),
    ("steps-in-gaps", "Training steps in the gaps of serving", "steps/s", "(1 − load) / train-step", _DEFINITION, ""),
    # Money and energy.
    ("price-per-token", "Price of tokens", "$/token",
     "price-per-hour × devices / (rate × utilisation × 3600 [s/h])", _DEFINITION, "claim, plan model"),
    ("bill", "Bill", "$", "price-per-token × tokens", _DEFINITION),
    ("rent", "Rent", "$", "price-per-hour × devices × period / 3600 [s/h]", _DEFINITION, "claim, plan cost"),
    ("rent-of-device-time", "Rent of device time", "$", "price-per-hour × device-time / 3600 [s/h]", _DEFINITION),
    ("purchase", "Price of devices", "$", "price-per-device × devices", _DEFINITION, "claim, plan cost"),
    ("monthly-bill", "Bill of a month", "$/month", "cost-each × uses-per-day × 30 [day/month]", _DEFINITION),
    ("training-cost", "Cost of training", "$", "price-per-hour × training-flop / (peak × mfu × 3600 [s/h])",
     _DEFINITION),
    ("price-per-useful-hour", "Price of a useful hour", "$/h/device",
     "money / (hours × utilisation) + own-per-hour", _DEFINITION, "claim, plan cost"),
    ("break-even", "Break-even", "month", "money / ((price-per-hour − own-per-hour) × hours-per-month)", _DEFINITION,
     "claim, plan roi"),
    ("energy-per-token", "Energy of a token", "j/token", "power × devices / rate", _DEFINITION, "claim, show"),
    ("tokens-per-joule", "Tokens per joule", "tokens/j", "rate / (power × devices)", _DEFINITION),
    ("energy", "Energy", "j", "power × devices × period", _DEFINITION, "claim, plan check"),
    ("energy-of-tokens", "Energy of tokens", "j", "energy-per-token × tokens", _DEFINITION),
    ("energy-cost", "Cost of energy", "$", "power × devices × period × price-per-kwh / 3600000 [j/kWh]", _DEFINITION,
     "claim, plan cost, plan roi"),
    ("energy-share", "Share of energy in the cost", "share", "energy-per-hour / (energy-per-hour + capital-per-hour)",
     _DEFINITION),
)  # fmt: skip
LAWS: Mapping[str, Law] = {row[0]: Law(*row) for row in _ROWS}
"""Every law by its name."""
