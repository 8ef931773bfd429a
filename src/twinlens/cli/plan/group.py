"""`twinlens plan`: the verbs of planning. A verb is one file here, and a line below."""

from __future__ import annotations

from collections.abc import Callable
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
from twinlens.cli.plan.panel import PlanVerb
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
_EXAMPLES: dict[Callable[..., None], str] = {
    fit: "--model 70B --device H100 --users 16 --context 8K",
    cost: "--throughput '4 requests/s' --rent '3 USD/h'",
    choose: "--model 70B --users 16 --context 8K",
    capacity: "--model 8B --device H100 --rate 4 --prompt 1K",
    roi: "--device H100 --energy '0.1 USD/kWh'",
    calibrate: "runs --device H100 -o constants.json",
    check: "--model 70B --device H100 --devices 4 --users 16",
    checkpoint: "--mtbf 8h --save 40s --restart 5min",
    method: "--model 8B --device H100 --corpus 20M",
    model: "--models 8B,qwen3-8b --device H100 --users 16",
    quotes: "a.toml b.toml --input 1024 --output 256",
}
"""The verbs, each with words that it takes."""

for verb, words in _EXAMPLES.items():
    app.command(verb.__name__, cls=PlanVerb, epilog=f"Example: twinlens plan {verb.__name__} {words}")(verb)
