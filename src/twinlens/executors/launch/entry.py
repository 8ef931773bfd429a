"""The capabilities of a server that Twinlens starts by a recipe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinlens.executors.capabilities import ALL_ARRIVALS, Capabilities, Executor
from twinlens.executors.launch.options import options_of
from twinlens.executors.launch.recipe import Recipe

if TYPE_CHECKING:
    from twinlens.executors.launch.server import LaunchedServer


def launched(recipe: Recipe) -> Executor:
    """A recipe as an executor: a server that is its own launcher."""

    def make() -> LaunchedServer:
        from twinlens.executors.launch.server import LaunchedServer

        return LaunchedServer(recipe)

    can = Capabilities(
        arrivals=ALL_ARRIVALS,
        tasks=recipe.tasks,
        settings=("device", "threads"),
        options=options_of(recipe.graphs, recipe.switches),
        prompts="text",
        known_precisions=recipe.precisions,
        packages=recipe.packages,
        beside=recipe.beside,
        install=recipe.install,
        tried=recipe.tried,
        unasked=recipe.unasked,
        nobody_joins=recipe.nobody_joins,
    )
    return Executor(can, server=make, launcher=make, words=recipe.words)
