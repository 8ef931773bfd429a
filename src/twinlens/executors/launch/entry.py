"""The capabilities of a server that Twinlens starts by a recipe."""

from __future__ import annotations

from functools import partial

from twinlens.executors.capabilities import ALL_ARRIVALS, Capabilities, Executor, named
from twinlens.executors.launch.options import options_of
from twinlens.executors.launch.recipe import Recipe


def launched(recipe: Recipe) -> Executor:
    """A recipe as an executor: a server that is its own launcher."""

    make = partial(named("twinlens.executors.launch.server:LaunchedServer"), recipe)
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
