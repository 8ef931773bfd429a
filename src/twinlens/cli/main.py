"""The command line: its verbs, and the entry point. A verb imports what it needs when it is called."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import Annotated

import typer

from twinlens.cli.help import Verb, Verbs
from twinlens.cli.plain_letters import REPLACE, as_text
from twinlens.cli.plan.group import app as plan
from twinlens.cli.verb.judging import claim, evidence
from twinlens.cli.verb.looking_up import explain, list_
from twinlens.cli.verb.measuring import check, demo, measure, new, probe
from twinlens.cli.verb.reading import compare, diagnose, report, show
from twinlens.system.interrupts import raising_interrupts
from twinlens.version import __version__

app = typer.Typer(
    name="twinlens",
    cls=Verbs,
    context_settings={"help_option_names": ["-h", "--help"]},
    subcommand_metavar="VERB ...",
    help="Two lenses on AI performance, training and inference, never averaged.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"twinlens {__version__}")
        raise typer.Exit()


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def _add(panel: str, *verbs: tuple[Callable[..., None], str]) -> None:
    """Verbs under one head of `--help`, each with its example."""
    for verb, example in verbs:
        app.command(verb.__name__.rstrip("_"), cls=Verb, rich_help_panel=panel, epilog=f"Example: {example}")(verb)


_add(
    "Measure",
    (demo, "twinlens demo"),
    (measure, "twinlens measure chat --at rate_per_s=2,4 --set protocol.repeats=3"),
    (check, "twinlens check chat --at rate_per_s=2,4"),
    (new, "twinlens new chat -o my.toml"),
    (probe, "twinlens probe --json > machine.json"),
)
_add(
    "Read",
    (show, "twinlens show runs/STUDY --all"),
    (diagnose, "twinlens diagnose runs/STUDY"),
    (compare, "twinlens compare runs/BEFORE runs/AFTER --fail-if 'TTFT p99 +5%'"),
    (report, "twinlens report runs -o report.html"),
    (claim, "twinlens claim '70B Q4 does 45 tok/s on 1.79 TB/s'"),
    (evidence, "twinlens evidence runs/STUDY -o pack.zip"),
)
app.add_typer(plan, name="plan", help="What fits, how fast it would be, and what it costs.", rich_help_panel="Plan")
_add(
    "Look up",
    (explain, "twinlens explain ttft"),
    (list_, "twinlens list examples"),
)


_READING = ("show", "diagnose", "compare", "report")
_NOT_READING = {"-h", "--help", "--self-test", "--try", "--instrument"}


def _begin(words: list[str]) -> None:
    """Make this process one that only reads, where that is all its verb does."""
    if words[:1] and words[0] in _READING and not _NOT_READING & {word.split("=")[0] for word in words}:
        from twinlens.system.reading_process import only_read

        only_read()


def main() -> None:
    """Entry point of the `twinlens` command."""
    sys.argv[1:] = as_text(sys.argv[1:])
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and not stream.encoding.lower().startswith("utf"):
            stream.reconfigure(errors=REPLACE)
    with raising_interrupts():  # a verb says a sentence; until it is imported, the exit code must do
        try:
            _begin(sys.argv[1:])
            app()
        except KeyboardInterrupt:
            raise SystemExit(130) from None


if __name__ == "__main__":
    main()
