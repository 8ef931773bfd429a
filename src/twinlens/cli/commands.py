"""Commands made from the table of verbs (`pages/verbs.json`), so that `--help` loads no verb and no model."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any

import click

from twinlens.errors import nearest, unknown_option
from twinlens.pages.verbs import Row, verbs
from twinlens.system.reading_process import uncollected

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 80}
VERB = "VERB ..."
_BEGINS = {"browse"}
"""Verbs that load what they need, as they need it: a site is up before it counts."""
_ALONE = {"self_test", "try_", "instrument"}
"""Options that measure beside what they load: numpy comes later there."""
_PLAIN = {"claim", "plan"}
"""Verbs that compute with Python's own numbers, or load numpy where they need it."""


def add_verbs(app: Verbs) -> None:
    """Put the verbs of the table under `app`, those of two words into a group of their first."""
    for name, row in verbs().items():
        group, _, last = name.rpartition(" ")
        owner = app.commands[group] if group else app
        assert isinstance(owner, Verbs)
        owner.add_command(_command(name, row) if "run" in row else _group(name, row), last)


def _group(name: str, row: Row) -> Verbs:
    made = Verbs(name, context_settings=CONTEXT, subcommand_metavar=VERB, no_args_is_help=True, help=row["summary"])
    made.head = row["head"]
    return made


def _command(name: str, row: Row) -> Verb:
    def call(**words: Any) -> None:
        given = {field: word for field, word in words.items() if word not in (None, (), False)}
        if name.split()[0] in _PLAIN:
            from twinlens.system.reading_process import only_compute

            only_compute()
        elif row["head"] != "Look up" and name not in _BEGINS and not given.keys() & _ALONE:
            from twinlens.system.processes import load_numpy

            with uncollected():
                load_numpy()
        place, _, function = row["run"].partition(":")
        with uncollected():
            run = getattr(import_module(place), function)
        run(name, given)

    example = f"Example: twinlens {name} {row['example']}".rstrip()
    made = Verb(name.rpartition(" ")[2], params=[_param(each) for each in row["options"]], callback=call,
                help=row["summary"], epilog=example)  # fmt: skip
    made.head = row["head"]
    return made


def _param(row: Row) -> click.Parameter:
    found: Any
    many = bool(row.get("many"))
    if row.get("argument"):
        found = click.Argument([row["field"]], nargs=-1 if many else 1, required=False, metavar=row["metavar"],
                               help=row["help"])  # fmt: skip
    elif row.get("flag"):
        found = click.Option([row["field"], *row["names"]], is_flag=True, help=row["help"])
    else:
        found = click.Option([row["field"], *row["names"]], metavar=row["metavar"], multiple=many, help=row["help"],
                             hidden=bool(row.get("hidden")))  # fmt: skip
    found.head = row.get("head", "")
    return found  # type: ignore[no-any-return]


# The text of `twinlens --help`: the first steps, the verbs in groups, and the verb that a wrong one meant.

_START = (
    ("twinlens measure --url http://127.0.0.1:8000/v1 --at rate_per_s=1,2,4", "a server that is up"),
    ("twinlens demo", "both lenses on this machine, in minutes"),
    ("twinlens measure chat", "an example by name; twinlens list examples"),
    ("twinlens explain ttft", "what a printed number means"),
)
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


class Verbs(click.Group):
    """Verbs, under their heads or in one list; a wrong one is answered with the nearest."""

    head = ""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        if self.name == "twinlens":
            with formatter.section("Start here"):
                formatter.write_dl(list(_START))
        for title, members in _by_head(self.commands.values(), "Verbs"):
            with formatter.section(title):
                formatter.write_dl([(verb.name, verb.get_short_help_str(limit=200)) for verb in members])
        with formatter.section("Options"):
            formatter.write_dl(_records(self.get_params(ctx), ctx))

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        if self.name == "twinlens":
            formatter.write_paragraph()
            formatter.write_text(f"`twinlens VERB -h` has a verb's options. {_EXIT_CODES}")

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in self.commands and not args[0].startswith("-"):
            if self.name == "twinlens":
                ctx.fail(f"there is no verb {args[0][:40]!r}; {_meant(args[0], self.commands)}")
            ctx.fail(f"`twinlens {self.name}` has no verb {args[0][:40]!r}; {nearest(args[0].lower(), self.commands)}")
        return super().resolve_command(ctx, _with_state(args))


class Verb(click.Command):
    """One verb: its arguments, its options under their heads in the order of its table, and an example."""

    head = ""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as wrong:
            from twinlens.cli.screen import sentences

            known = [option.opts[-1] for option in self.params if option.param_type_name == "option"]
            verb = f"plan {self.name}" if ctx.parent and ctx.parent.info_name == "plan" else self.name
            with sentences():
                raise unknown_option(str(verb), wrong.option_name, known) from None

    def format_options(self, ctx: Any, formatter: Any) -> None:
        options = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        for title, chosen in _by_head(each for each in options if not each.hidden):
            with formatter.section(title):
                formatter.write_dl(_records(chosen, ctx))


def _with_state(args: list[str]) -> list[str]:
    """The arguments with the state of a bare `--gate`: valid. What follows it may be a spec."""
    after = [*args[1:], ""]
    is_bare = (word == "--gate" and then not in GATES for word, then in zip(args, after, strict=True))
    return [f"--gate={GATES[0]}" if bare else word for word, bare in zip(args, is_bare, strict=True)]


def _by_head(items: Iterable[Any], other: str = "Options") -> list[tuple[str, list[Any]]]:
    """Verbs or options under their heads, each where its first one stands; `--help` under the last."""
    found: dict[str, list[Any]] = {}
    for item in items:
        head = getattr(item, "head", "") or (
            list(found)[-1] if found and "--help" in getattr(item, "opts", ()) else other
        )
        found.setdefault(head, []).append(item)
    return list(found.items())


def _records(params: Iterable[Any], ctx: Any) -> list[tuple[str, str]]:
    """Name and help of each that is not hidden."""
    return [record for param in params if (record := param.get_help_record(ctx)) is not None]


def _meant(word: str, commands: Any) -> str:
    verb = _MEANT.get(word.lower(), "")
    if word.lower() == "help":
        return "take `twinlens --help`, or `twinlens VERB --help`"
    return f"did you mean {verb!r}?" if verb in commands else nearest(word.lower(), commands)
