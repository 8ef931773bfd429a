"""The environment that a launched server is given."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from twinlens.executors.launch.options import Settings
from twinlens.system.home_folder import cache_folder


def environment_of(settings: Settings, chosen: Mapping[str, str]) -> dict[str, str]:
    """The whole environment of a server: ours, what was chosen for it, and no hub but an empty one."""
    inherited = dict(os.environ)
    if settings.python != sys.executable:  # another Python finds its own packages
        for name in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"):
            inherited.pop(name, None)
    hub = cache_folder() / "hub"
    hub.mkdir(parents=True, exist_ok=True)
    return {**inherited, "HF_HUB_CACHE": str(hub), **chosen}
