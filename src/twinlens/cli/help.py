"""The text of `twinlens --help`: the first steps, the verbs in groups, and the verb that a wrong one meant."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from typer.core import TyperCommand, TyperGroup

from twinlens.errors import nearest

_START = (
    ("twinlens measure --url http://127.0.0.1:8000/v1 --at rate_per_s=1,2,4", "a server that is up"),
    ("twinlens demo", "both lenses on this machine, in minutes"),
    ("twinlens measure chat", "an example by name; twinlens list examples"),
    ("twinlens explain ttft", "what a printed number means"),
)
_PANELS = ("Measure", "Read", "Plan", "Look up")
_EXIT_CODES = "Exit: 0 done, 1 a gate failed, 2 bad input, 3 the executor failed, 130 stopped (rows are kept)."
_MEANT = {
    "init": "new", "create": "new", "template": "new",
    "run": "measure", "bench": "measure", "benchmark": "measure", "serve": "measure", "profile": "measure",
    "load": "measure", "test": "measure",
    "diff": "compare", "versus": "compare", "summary": "show", "table": "show", "view": "show", "export": "show",
    "why": "diagnose", "diagnosis": "diagnose", "bottleneck": "diagnose", "roofline": "diagnose",
    "html": "report", "plot": "report", "validate": "check", "lint": "check", "estimate": "plan", "fit": "plan",
    "size": "plan", "sizing": "plan", "capacity": "plan", "cost": "plan", "roi": "plan", "budget": "plan",
    "info": "probe", "hardware": "probe", "doctor": "probe", "ls": "list", "models": "list", "runs": "list",
    "verify": "evidence", "sign": "evidence", "pack": "evidence", "audit": "evidence",
    "fact": "claim", "assert": "claim",
    "man": "explain", "docs": "explain", "what": "explain", "define": "explain",
}  # fmt: skip
"""Words of other tools, and the verb here that comes nearest."""

GATES = ("valid", "provisional")
"""The states that `--gate` may demand, the default first."""


class Verbs(TyperGroup):
    """The command line's verbs."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Start here"):
            formatter.write_dl(list(_START))
        for title, verbs in _in_panels(self.commands.values(), _panel_of, _PANELS):
            with formatter.section(title):
                formatter.write_dl([(verb.name, verb.get_short_help_str(limit=200)) for verb in verbs])
        with formatter.section("Options"):
            formatter.write_dl(_records(self.get_params(ctx), ctx))

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        formatter.write_paragraph()
        formatter.write_text(f"`twinlens VERB -h` has a verb's options. {_EXIT_CODES}")

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in self.commands and not args[0].startswith("-"):
            ctx.fail(f"there is no verb {args[0][:40]!r}; {_meant(args[0], self.commands)}")
        return super().resolve_command(ctx, _with_state(args))


class Verb(TyperCommand):
    """One verb: its arguments, its options under their heads (`panels`, in this order), and an example."""

    panels: tuple[str, ...] = ("Options",)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        params = [param for param in self.get_params(ctx) if param.get_help_record(ctx) is not None]
        arguments = [param for param in params if param.param_type_name == "argument"]
        if arguments:
            with formatter.section("Arguments"):
                formatter.write_dl(_records(arguments, ctx))
        options = [param for param in params if param not in arguments]
        for title, chosen in _in_panels(options, self.panel_of, self.panels):
            with formatter.section(title):
                formatter.write_dl(_records(chosen, ctx))

    def panel_of(self, option: Any) -> str:
        """The head that an option stands under."""
        return _panel_of(option)


def _with_state(args: list[str]) -> list[str]:
    """The arguments with the state of a bare `--gate`: valid. What follows it may be a spec."""
    after = [*args[1:], ""]
    is_bare = (word == "--gate" and then not in GATES for word, then in zip(args, after, strict=True))
    return [f"--gate={GATES[0]}" if bare else word for word, bare in zip(args, is_bare, strict=True)]


def _in_panels(
    items: Iterable[Any], panel_of: Callable[[Any], str], order: Sequence[str]
) -> list[tuple[str, list[Any]]]:
    """Verbs or options under their heads, those heads in order that have any."""
    found = [(panel_of(item), item) for item in items]
    return [(title, mine) for title in order if (mine := [item for panel, item in found if panel == title])]


def _panel_of(item: Any) -> str:
    return item.rich_help_panel or "Options"


def _records(params: Iterable[Any], ctx: Any) -> list[tuple[str, str]]:
    """Name and help of each that is not hidden; an argument by its name alone, without the type of Python."""
    records = [(param, record) for param in params if (record := param.get_help_record(ctx)) is not None]
    return [
        (name.partition(" <")[0] if param.param_type_name == "argument" else name, words)
        for param, (name, words) in records
    ]


def _meant(word: str, commands: Any) -> str:
    verb = _MEANT.get(word.lower(), "")
    if word.lower() == "help":
        return "take `twinlens --help`, or `twinlens VERB --help`"
    return f"did you mean {verb!r}?" if verb in commands else nearest(word.lower(), commands)
