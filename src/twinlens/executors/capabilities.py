"""The capabilities of an executor, a value that is read before anything heavy is imported, and its makers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from pkgutil import resolve_name
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, get_args

from twinlens.errors import BadInput, nearest
from twinlens.executors.server_words import ServerWords
from twinlens.spec.frozen import tags
from twinlens.spec.model.any_model import AnyModel
from twinlens.spec.model.shape import ModelShape
from twinlens.spec.precision import Lens
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.arrival import Arrival

if TYPE_CHECKING:  # it brings numpy and pyarrow
    from twinlens.executors.in_process.ceiling import Collectives, DeviceProbe
    from twinlens.executors.protocol import Exchanger, Launcher, Say, Server, Trainer
    from twinlens.record.beside import Profile

Place = Literal["here", "elsewhere", "recorded"]
ALL_FAMILIES = tags(ModelShape, "family")
ALL_ARRIVALS = tags(Arrival, "kind")
_NOTHING: Mapping[str, Any] = MappingProxyType({})
_ALL_WEIGHTS: Mapping[str, tuple[str, ...]] = MappingProxyType({"full": ()})


@dataclass(frozen=True, slots=True)
class Option:
    """One field of `[executor.options]`. `choices`: the values it takes; empty where the executor checks them itself.

    `tunes`: a value other than the default makes the stack another one than its makers ship. `description`: one
    sentence, for `twinlens explain NAME`. `type`: what it takes in words, where its default does not show that.
    `within`: the least and the most of a number; one whose default is whole must be whole.
    """

    default: Any = None
    choices: tuple[str, ...] = ()
    tunes: bool = False
    description: str = ""
    type: str = ""
    within: tuple[float, float] | None = None


def option(default: Any, choices: tuple[str, ...] = (), **about: Any) -> Any:
    """A field of a dataclass of options, declared once: its default, and what `Option` says of it."""
    return field(default=default, metadata={"option": Option(default, choices, **about)})


def options_of(kind: type) -> dict[str, Option]:
    """The options that the fields of a dataclass declare."""
    return {each.name: each.metadata["option"] for each in fields(kind)}


def refuse_unknown_options(kind: str, options: Mapping[str, Any], known: Iterable[str] = ()) -> None:
    """Raises BadInput (TL207) for an option this executor does not have: a misspelt one is never ignored."""
    names = tuple(known)
    for word in sorted(set(options) - set(names)):
        hint = nearest(word, names) if names else "it has none"
        raise BadInput(f"the {kind} executor has no option {word!r}; {hint}", code="TL207")


def refuse_wrong_options(kind: str, options: Mapping[str, Any], known: Mapping[str, Option]) -> None:
    """Raises BadInput (TL207) for an option this executor does not have, for none of the values that one takes, and
    for a number outside its range."""
    refuse_unknown_options(kind, options, known)
    for name, value in options.items():
        if (choices := known[name].choices) and value not in choices:
            words = " or ".join(f'"{choice}"' for choice in choices)
            raise BadInput(f"executor.options.{name} of {kind} is {words}, not {value!r}", code="TL207")
        if (within := known[name].within) is None:
            continue
        (least, most), whole = within, isinstance(known[name].default, int)
        is_number = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
        if not is_number or not least <= value <= most:
            sort = "a whole number" if whole else "a number"
            raise BadInput(
                f"executor.options.{name} of {kind} is {sort} from {least:g} to {most:g}, not {value!r}", code="TL207"
            )


def chosen_options(
    kind: str, options: Mapping[str, Any], known: Mapping[str, Option], free: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Every option with its value or its default. Raises BadInput (TL207) for what this executor does not have, and for
    a value of another type than the default's; those in `free` check themselves."""
    refuse_unknown_options(kind, options, known)
    chosen = {name: options.get(name, option.default) for name, option in known.items()}
    for name, value in chosen.items():
        default = known[name].default
        fits = type(value) in (int, float) if isinstance(default, float) else isinstance(value, type(default))
        if not fits and name not in free:
            raise BadInput(f"executor.options.{name} cannot be {value!r}", code="TL207")
    return chosen


CONTROLLED, AS_SHIPPED = "controlled", "as-shipped"
SETTINGS = Option(
    CONTROLLED,
    (CONTROLLED, AS_SHIPPED),
    description="Formats and kernels that the precision names, or those that the runtime takes by itself when only "
    "the weights are given: its own KV cache, attention and format of products.",
)
"""For an executor that sets formats and kernels by the precision; threads are conditions and are set in both."""


def is_as_shipped(spec: RunSpec) -> bool:
    """Whether the run leaves to the runtime what the precision does not store."""
    return bool(spec.executor.options.get("settings") == AS_SHIPPED)


@dataclass(frozen=True, slots=True)
class Degrees:
    """Ways in which an executor divides training: data × tensor × pipeline are its processes.

    `copies`: whole sets of weights among the data ranks, within each of which `zero` is the stage that its sharding of
    weights, gradients and optimizer state comes to. `microbatch`: sequences of one forward pass of one process, of
    which a step has `microbatches`; None: not said. `stages_each`: stages of a pipeline that each process has.
    """

    data: int = 1
    tensor: int = 1
    pipeline: int = 1
    copies: int = 1
    zero: Literal[0, 1, 2, 3] = 0
    microbatch: int | None = None
    microbatches: int = 1
    stages_each: int = 1
    keeps_master: bool = False
    """The optimizer updates an fp32 copy of its own, also where the weights are fp32."""
    buffers_bytes: float = 0.0
    """Buffers of fixed size that each process has for its exchanges."""
    compared: AnyModel | None = None
    """The model that one process holds beside its share while losses are compared; None: there is none."""

    @property
    def ranks(self) -> int:
        return self.data * self.tensor * self.pipeline


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Requests that an executor can serve; anything else is refused before the run begins.

    `runs`: on this machine ("here"), on a server that somebody else started ("elsewhere"), or in the past ("recorded").
    `here_with`: the option with which one of the past does its work here.
    `families`: the model families it takes. `arrivals`, `tasks`: the kinds of `workload.arrival` and of `workload.task`
    that it answers.
    `precisions`: those it can be asked for; None: it says so itself when it is opened. `why_not`: the reason,
    for precisions that people expect of it and it cannot run. `least_gpu`: the CUDA compute
    capability that a precision needs at least. `settings`: which of `executor.device` and `executor.threads` it heeds.
    `prompts`: drawn as "tokens", or sent as "text" that a server makes tokens of.
    `computes_with`: the distribution whose build decides which GPUs can be used ("torch"); "": nobody knows.
    `is_sized_by_theory`: the sum of theory/memory.py is what it needs, so a run that cannot fit is refused.
    `quantises`: it makes a low precision itself, from wider weights. `compares_with_fp32`: it measures fidelity.
    `methods`: what of a model it can train (`workload.method`), and the packages that each takes.
    `serves_adapters`: a server of it takes `workload.adapter`, and the packages that this takes; None: it does not.
    `saves_weights`: a trainer of it can keep them (`SavesWeights`). `saves_state`: it can save while it trains and read
    that back (`KeepsCheckpoints`); `restarts_ranks`: it goes on from a save when a rank is lost.
    `unasked`: settings that it changes from how the stack's makers ship it although no spec asks for them; a run with
    any is not called stock. A run whose `settings` are as shipped has none.
    `nobody_joins`: why a request that is let out waits until others have ended, which continuous admission promises not
    to be so; "" where it joins them, or where that is the server's to say.
    `takes_any_type`: it runs language models of types that theory does not know.
    `known_precisions`: of a server whose model folder decides: those it is known to make, or to load.
    `packages`: it is installed here where one of these distributions is; empty: it needs none of its own. `beside`: the
    environment of its own that `make` installs it in, beside this Python's.
    `install`: the command, or the way, to get them.
    `tried`: False where it was only tested on recorded output, since none ran at hand.
    """

    runs: Place = "here"
    here_with: str = ""
    families: tuple[str, ...] = ("decoder",)
    arrivals: tuple[str, ...] = ("lockstep",)
    tasks: tuple[str, ...] = ("generate",)
    precisions: tuple[str, ...] | None = None
    why_not: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    least_gpu: Mapping[str, tuple[int, int]] = field(default_factory=lambda: _NOTHING)
    settings: tuple[str, ...] = ()
    options: Mapping[str, Option] = field(default_factory=lambda: _NOTHING)
    prompts: Literal["tokens", "text"] = "tokens"
    computes_with: str = ""
    is_sized_by_theory: bool = False
    quantises: bool = False
    compares_with_fp32: bool = False
    methods: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: _ALL_WEIGHTS)
    serves_adapters: tuple[str, ...] | None = None
    saves_weights: bool = False
    saves_state: bool = False
    restarts_ranks: bool = False
    nobody_joins: str = ""
    takes_any_type: bool = False
    unasked: tuple[str, ...] = ()
    known_precisions: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    beside: str = ""
    install: str = ""
    tried: bool = True


def named(place: str) -> Callable[..., Any]:
    """What stands at "package.module:NAME", called as if it were imported here: its module is at the first call."""
    return lambda *given: resolve_name(place)(*given)


@dataclass(frozen=True, slots=True)
class Executor:
    """An entry point of the group `twinlens.executors`: capabilities, and a maker for each lens it has.

    The makers import what is heavy (`named`); naming the executor imports nothing of it. `launcher`: for a server that
    starts a process of its own, which the runs of a repeat then share. `words`: what servers of this runtime call their
    settings and metrics; they are understood of any server that is asked. `probe`: facts and ceilings of
    `executor.device` through this engine, for `twinlens probe`; raises ImportError where its extra is not installed.
    `preload`: imports what a run of this spec needs, and measures nothing, so that the processes of runs that take
    turns can do it at the same time. `profile`: seconds by class of kernel for each phase of a spec, in a run of its
    own that nothing is timed by. `degrees`: how a run is divided over processes; raises BadInput (TL202, TL207) where
    they do not divide the batch, heads, layers or buffer. `collectives`: exchanges between so many processes (None: one
    per GPU, or two) on a device, timed over sizes. `refuse_not_installed`: of an executor that runs in another Python;
    raises BadInput where that one lacks the runtime.
    """

    capabilities: Capabilities
    trainer: Callable[[], Trainer] | None = None
    server: Callable[[], Server] | None = None
    exchanger: Callable[[], Exchanger] | None = None
    launcher: Callable[[], Launcher] | None = None
    words: ServerWords | None = None
    probe: Callable[[str], DeviceProbe] | None = None
    preload: Callable[[RunSpec], None] | None = None
    profile: Callable[[RunSpec], Profile] | None = None
    degrees: Callable[[RunSpec], Degrees] | None = None
    collectives: Callable[[str, int | None, Say], Collectives] | None = None
    refuse_not_installed: Callable[[RunSpec], None] | None = None

    @property
    def makers(self) -> Mapping[Lens, Callable[[], Trainer | Server | Exchanger]]:
        """The maker of each lens that it has."""
        each = zip(get_args(Lens), (self.trainer, self.server, self.exchanger), strict=True)
        return {lens: maker for lens, maker in each if maker is not None}

    @property
    def lenses(self) -> tuple[Lens, ...]:
        """The lenses it has a maker for."""
        return tuple(self.makers)
