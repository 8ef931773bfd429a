"""A recipe for the small server, registered like a stranger's: what the life cycle is tested with."""

from __future__ import annotations

from pathlib import Path

from twinlens.executors.launch.entry import launched
from twinlens.executors.launch.recipe import Command, LaunchConfig, Recipe, ServerOutput, thread_environment
from twinlens.executors.settings_text import first_known, formats
from twinlens.record.executor.record import Fact

SCRIPT = Path(__file__).with_name("small_server.py")


def _command(order: LaunchConfig) -> Command:
    argv = (order.python, str(SCRIPT), "--port", str(order.port), *order.args)
    return Command(argv, thread_environment(order.threads))


def _facts(seen: ServerOutput) -> dict[str, Fact]:
    about = seen.pages.get("/about", {})
    names = {"serving.max_sequences": ("limit",), "software.runtime.version": ("version",)}
    return first_known(about, names, "/about") | formats(about.get("dtype"), "auto", "/about")


RECIPE = Recipe(
    kind="small-server",
    name="the small server",
    packages=("numpy",),
    install="pip install numpy",
    ready="/health",
    pages=("/about",),
    command=_command,
    facts=_facts,
    start_timeout_s=20.0,
)
EXECUTOR = launched(RECIPE)
ENTRY_POINTS = """
[twinlens.executors]
small-server = small_recipe:EXECUTOR
"""
