"""`twinlens plan`: the verbs of planning. A verb is one file here, and a line below."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from twinlens.cli.plan.calibrate import calibrate
from twinlens.cli.plan.capacity import capacity
from twinlens.cli.plan.check import check
from twinlens.cli.plan.checkpoint import checkpoint
from twinlens.cli.plan.choose import choose
from twinlens.cli.plan.cost import cost
from twinlens.cli.plan.fit import fit
from twinlens.cli.plan.method import method
from twinlens.cli.plan.model import model
from twinlens.cli.plan.quotes import quotes
from twinlens.cli.plan.roi import roi
from twinlens.errors import nearest


class PlanVerbs(TyperGroup):
    """The verbs of `twinlens plan`, each in a whole sentence, and the nearest of a wrong one."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl([(name, each.get_short_help_str(limit=200)) for name, each in self.commands.items()])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in self.commands and not args[0].startswith("-"):
            ctx.fail(f"`twinlens plan` has no verb {args[0][:40]!r}; {nearest(args[0].lower(), self.commands)}")
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=PlanVerbs,
    context_settings={"help_option_names": ["-h", "--help"]},
    subcommand_metavar="VERB ...",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.command("fit")(fit)
app.command("cost")(cost)
app.command("choose")(choose)
app.command("capacity")(capacity)
app.command("roi")(roi)
app.command("calibrate")(calibrate)
app.command("check")(check)
app.command("checkpoint")(checkpoint)
app.command("method")(method)
app.command("model")(model)
app.command("quotes")(quotes)
