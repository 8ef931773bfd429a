"""`python -m twinlens.gateway.worker CONFIG PORT LAUNCHED NUMBER`: one process of a gateway that has several."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from twinlens.errors import TwinlensError
from twinlens.gateway.launching import Up
from twinlens.gateway.serve import listen, serve
from twinlens.gateway.settings import read_settings
from twinlens.system.document import json_of
from twinlens.system.reading_process import keep_pandas_out


def main(config: str, port: str, launched: str, number: str) -> int:
    """Serve until it is told to end; the exit code. `launched`: address and model of servers that its parent started,
    by backend."""
    keep_pandas_out()
    try:
        settings = read_settings(Path(config))
        ups = {name: Up(*told) for name, told in json_of(launched).items()}
        listening = listen(settings.host, int(port), shared=True)
        asyncio.run(serve(Path(config), settings, ups, listening, lambda url: None, _say, int(number)))
    except TwinlensError as error:
        _say(f"twinlens: {error} (twinlens explain {error.code})")
        return error.exit_code
    return 0


def _say(sentence: str) -> None:
    sys.stderr.write(f"{sentence}\n")


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:5]))
