"""Optimisations of a server that a spec may set: each a typed option, flags of the runtime, and the fact that says what
ran."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from twinlens.errors import BadInput
from twinlens.executors.capabilities import Option
from twinlens.record.executor.record import Fact
from twinlens.record.finding import Finding

AS_SHIPPED = "auto"
"""The value of a switch that is left as the runtime ships it."""
Value = bool | int | float | str


@dataclass(frozen=True, slots=True)
class Switch:
    """`name`: of `executor.options`. `takes`: bool for on and off, int for a count from `least`, float for a share, str
    for a word of the runtime, or the words that it knows. `flags`: words of the command line for a value. `field`: the
    fact that says what ran. `ran`: what that fact is where a value ran; without it the value itself. `is_met`: instead
    of equality, for facts that say more."""

    name: str
    takes: type[bool] | type[int] | type[float] | type[str] | tuple[str, ...]
    flags: Callable[[Any], tuple[str, ...]]
    field: str
    description: str
    ran: Callable[[Any], Any] = lambda value: value
    is_met: Callable[[Any, Any], bool] | None = None
    least: int = 1

    @property
    def option(self) -> Option:
        """Itself as an option of the executor, "auto" where nothing is asked."""
        return Option(AS_SHIPPED, tunes=True, description=self.description, type=f'{self._wanted} or "{AS_SHIPPED}"')

    @property
    def _wanted(self) -> str:
        if isinstance(self.takes, tuple):
            return ", ".join(f'"{word}"' for word in self.takes)
        words = {
            bool: "true, false",
            int: f"a whole number from {self.least}",
            float: "a share above 0 and at most 1",
            str: "a word",
        }
        return words[self.takes]

    def checked(self, value: Any) -> Value | None:
        """A value of the spec, None for "auto". Raises BadInput (TL207)."""
        if value == AS_SHIPPED:
            return None
        fits = value in self.takes if isinstance(self.takes, tuple) else type(value) is self.takes
        if self.takes is float:
            fits = type(value) in (int, float) and 0 < value <= 1
        too_few = self.takes is int and fits and value < self.least
        no_word = self.takes is str and fits and not (value[:1].isalnum() and value.isprintable() and " " not in value)
        if not fits or too_few or no_word:
            wanted = f'{self._wanted} or "{AS_SHIPPED}"'
            raise BadInput(f"executor.options.{self.name} is {wanted}, not {value!r}", code="TL207")
        known: Value = value
        return known


def asked_of(switches: tuple[Switch, ...], options: Mapping[str, Any]) -> dict[str, Value]:
    """The switches that a spec sets, by name, in the runtime's order. Raises BadInput (TL207)."""
    known = ((switch.name, switch.checked(options.get(switch.name, AS_SHIPPED))) for switch in switches)
    return {name: value for name, value in known if value is not None}


def words_of(switches: tuple[Switch, ...], asked: Mapping[str, Value]) -> tuple[str, ...]:
    """The words of the command line for what is asked."""
    return tuple(word for each in switches if each.name in asked for word in each.flags(asked[each.name]))


def findings_of(
    switches: tuple[Switch, ...], asked: Mapping[str, Value], facts: Mapping[str, Fact]
) -> tuple[Finding, ...]:
    """What the server says of each switch that was asked: another value disqualifies, and silence is said."""
    return tuple(found for each in switches if each.name in asked for found in _judged(each, asked[each.name], facts))


def _judged(switch: Switch, value: Value, facts: Mapping[str, Fact]) -> tuple[Finding, ...]:
    fact = facts.get(switch.field)
    if fact is None or fact.value is None or "command line" in fact.source:
        return (Finding("switch-not-seen", "notes", switch.name, {"asked": value}),)
    wanted = switch.ran(value)
    if switch.is_met(value, fact.value) if switch.is_met else fact.value == wanted:
        return ()
    numbers = {"asked": value, "observed": fact.value, "source": fact.source}
    return (Finding("switch-differs", "disqualifies", switch.name, numbers),)


def on_off(on: str, off: str) -> Callable[[bool], tuple[str, ...]]:
    """Flags of a switch that has one word for each way."""
    return lambda value: (on,) if value else (off,)


def flag(name: str) -> Callable[[Any], tuple[str, ...]]:
    """A flag followed by its value."""
    return lambda value: (name, str(value))


_COMMON: Mapping[str, tuple[Any, str, str]] = {
    "prefix_caching": (
        bool,
        "serving.prefix_cache",
        "Reuse the KV cache of a prompt's beginning that an earlier request had.",
    ),
    "chunked_prefill": (
        bool,
        "serving.chunked_prefill",
        "Split long prompts, so that decoding goes on between their parts.",
    ),
    "ngram_tokens": (
        int,
        "serving.speculative",
        "Tokens that speculative decoding drafts in each step from n-grams of the prompt; 0 for none.",
    ),
    "max_sequences": (int, "serving.max_sequences", "Requests that the server runs at once at most."),
    "max_batched_tokens": (int, "serving.max_batched_tokens", "Tokens that one step of the server computes at most."),
    "max_context": (
        int,
        "serving.context_tokens",
        "Tokens that a request's prompt and answer may have together at most.",
    ),
    "memory_share": (
        float,
        "serving.memory_share",
        "Share of a device's memory that the server takes for weights, activations and KV cache together.",
    ),
    "kv_block_tokens": (
        int,
        "serving.kv_block_tokens",
        "Tokens in one block of the KV cache, which is what prefix caching can reuse.",
    ),
    "tensor_parallel": (int, "serving.parallel", "GPUs that share each layer of one server."),
}
"""Switches that several runtimes have: what they take, the fact that says what ran, and the description."""


def switch(name: str, flags: str | Callable[[Any], tuple[str, ...]], **other: Any) -> Switch:
    """A switch that several runtimes have. `flags`: this one's, or the name of its flag that the value follows."""
    takes, field, description = _COMMON[name]
    if name == "tensor_parallel":
        other["is_met"] = lambda value, seen: isinstance(seen, Mapping) and seen.get("tensor_parallel") == value
    if takes is float:
        other.setdefault("is_met", _is_same_number)
    return Switch(name, takes, flag(flags) if isinstance(flags, str) else flags, field, description, **other)


def _is_same_number(value: Any, seen: Any) -> bool:
    """Labels of metrics are texts."""
    try:
        return math.isclose(float(seen), value)
    except (TypeError, ValueError):
        return False


def kv_switch(words: Mapping[str, str], flag: str) -> Switch:
    """The switch for the format of the KV cache, by the runtime's word for each that it has."""
    description = "The number format of the KV cache, apart from that of the precision."
    return Switch("kv_format", tuple(words), lambda word: (flag, words[word]), "precision.kv", description)
