"""The command line: its verbs, and the entry point. A verb imports what it needs when it is called."""

from __future__ import annotations

import io
import sys

import click

from twinlens.cli.commands import CONTEXT, VERB, Verbs, add_verbs
from twinlens.cli.plain_letters import REPLACE, as_text
from twinlens.system.interrupts import raising_interrupts
from twinlens.version import __version__

app = Verbs(
    "twinlens",
    context_settings=CONTEXT,
    subcommand_metavar=VERB,
    help="Two lenses on AI performance, training and inference, never averaged.",
    no_args_is_help=True,
    params=[
        click.Option(
            ["--version"], is_flag=True, is_eager=True, expose_value=False, help="Print the version.",
            callback=lambda ctx, _, asked: _version(ctx) if asked else None,
        )
    ],
)  # fmt: skip


def _version(ctx: click.Context) -> None:
    click.echo(f"twinlens {__version__}")
    ctx.exit()


add_verbs(app)

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
            app(prog_name="twinlens")
        except KeyboardInterrupt:
            raise SystemExit(130) from None


if __name__ == "__main__":
    main()
