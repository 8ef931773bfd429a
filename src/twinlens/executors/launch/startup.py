"""The start of a server as figures: what its model had in the page cache, its weights, and its first two answers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from twinlens.executors.launch.first_token import first_tokens
from twinlens.executors.launch.log import read_log
from twinlens.executors.launch.options import Settings
from twinlens.executors.launch.page_cache import cached_share, drop
from twinlens.executors.launch.recipe import Recipe


def before_start(settings: Settings, folder: Path) -> dict[str, Any]:
    """The share of the model's files in the page cache, from which they are dropped first where that is asked."""
    if settings.drops_page_cache:
        drop(folder)
    share = cached_share(folder)
    return {} if share is None else {"cached_share": share}


def after_start(recipe: Recipe, settings: Settings, port: int, name: str, log: Path) -> dict[str, Any]:
    """Seconds to load the weights, by the server's log, and to the first two first tokens, by asking."""
    alone = settings.replicas == 1  # else the second request would be the first of another replica
    told = first_tokens(port, name, str(settings.client.get("endpoint", "chat"))) if alone else {}
    loaded = re.findall(recipe.loaded, read_log(log)) if recipe.loaded else []
    return told | ({"weights_s": float(loaded[-1])} if loaded else {})
