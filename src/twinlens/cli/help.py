"""The text of `twinlens --help`: the first steps, the verbs in groups, and the verb that a wrong one meant."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

from twinlens.errors import nearest

_START = (
    ("twinlens measure --url http://127.0.0.1:8000/v1 --at rate_per_s=1,2,4", "a server that is up"),
    ("twinlens demo", "both lenses on this machine, in minutes"),
    ("twinlens measure chat", "an example by name; twinlens list examples"),
    ("twinlens explain ttft", "what a printed number means"),
)
_GROUPS = {
    "Measure": ("demo", "measure", "check", "new", "probe"),
    "Read": ("show", "diagnose", "compare", "report", "claim", "evidence"),
    "Plan": ("plan",),
    "Look up": ("explain", "list"),
}
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
        for title, names in _groups(self.commands).items():
            with formatter.section(title):
                formatter.write_dl([(name, self.commands[name].get_short_help_str(limit=200)) for name in names])
        options = [record for param in self.get_params(ctx) if (record := param.get_help_record(ctx)) is not None]
        with formatter.section("Options"):
            formatter.write_dl(options)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        formatter.write_paragraph()
        formatter.write_text(f"`twinlens VERB -h` has a verb's options. {_EXIT_CODES}")

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in self.commands and not args[0].startswith("-"):
            ctx.fail(f"there is no verb {args[0][:40]!r}; {_meant(args[0], self.commands)}")
        return super().resolve_command(ctx, _with_state(args))


def _with_state(args: list[str]) -> list[str]:
    """The arguments with the state of a bare `--gate`: valid. What follows it may be a spec."""
    after = [*args[1:], ""]
    is_bare = (word == "--gate" and then not in GATES for word, then in zip(args, after, strict=True))
    return [f"--gate={GATES[0]}" if bare else word for word, bare in zip(args, is_bare, strict=True)]


def _groups(commands: Any) -> dict[str, list[str]]:
    """The verbs that are there, each in one group; one that has no group yet stands with those that read."""
    groups = {title: [name for name in names if name in commands] for title, names in _GROUPS.items()}
    groups["Read"] += [name for name in commands if not any(name in names for names in groups.values())]
    return groups


def _meant(word: str, commands: Any) -> str:
    verb = _MEANT.get(word.lower(), "")
    if word.lower() == "help":
        return "take `twinlens --help`, or `twinlens VERB --help`"
    return f"did you mean {verb!r}?" if verb in commands else nearest(word.lower(), commands)
