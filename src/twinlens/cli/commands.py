"""Commands made from the table of verbs (`pages/verbs.json`), so that `--help` loads no verb and no model."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from twinlens.cli.help import Verb, Verbs
from twinlens.pages.verbs import Row, verbs
from twinlens.system.processes import load_numpy

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 80}
VERB = "VERB ..."
_ALONE = {"self_test", "try_", "instrument"}
"""Options that measure beside what they load: numpy comes later there."""


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
        if row["head"] != "Look up" and not given.keys() & _ALONE:
            load_numpy()
        place, _, function = row["run"].partition(":")
        getattr(import_module(place), function)(name, given)

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
