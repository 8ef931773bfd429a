"""The verb that serves: one address in front of several servers, until Ctrl-C."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twinlens.api.page_asked import Gateway
from twinlens.cli.console import out
from twinlens.cli.screen import err, sentences
from twinlens.errors import BadInput
from twinlens.system.processes import one_blas_thread
from twinlens.system.reading_process import only_compute

CODE = "TL275"


def run(name: str, given: Mapping[str, Any]) -> None:
    with sentences():
        asked = Gateway.read(name, given)
        if asked.new_key:
            return _new_key(asked.new_key)
        if asked.config is None:
            raise BadInput("gateway needs CONFIG: a TOML file with its backends; --new-key makes a key", code=CODE)
        only_compute()
        try:
            with one_blas_thread():  # what is idle here must not spin
                from twinlens.gateway import serve
        except ModuleNotFoundError as missing:
            if (missing.name or "").partition(".")[0] != "aiohttp":
                raise
            raise BadInput("gateway needs aiohttp: pip install 'twinlens[web]'", code=CODE) from None

        if asked.check:
            from twinlens.gateway.launching import checked

            for line in checked(asked.config):
                out().print(line, soft_wrap=True, markup=False)
            return

        def say(sentence: str) -> None:
            err().print(sentence, soft_wrap=True, markup=False)

        def started(url: str) -> None:
            say(f"Gateway at {url} ; Ctrl-C ends it")

        serve.gateway(asked.config, port=asked.port, started=started, say=say)


def _new_key(client: str) -> None:
    from twinlens.gateway.limits.keys import new_key

    key, lines = new_key(client)
    err().print("the key, shown this once; hand it to the client:", markup=False)
    out().print(key, soft_wrap=True, markup=False)
    err().print(f"and for the gateway's file:\n{lines}", soft_wrap=True, markup=False)
