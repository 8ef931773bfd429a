"""A tab of a real Firefox, cut off from every network: WebDriver BiDi over its own WebSocket, no driver beside it."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Coroutine
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

from aiohttp import ClientSession, ClientWebSocketResponse

# Whatever is asked beyond loopback goes to a proxy that is not there.
_PREFERENCES = {
    "network.proxy.type": 1, "network.proxy.http": "127.0.0.1", "network.proxy.http_port": 9,
    "network.proxy.ssl": "127.0.0.1", "network.proxy.ssl_port": 9, "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False, "app.normandy.enabled": False, "ui.prefersReducedMotion": 1,
}  # fmt: skip
_KEYS = {"ArrowRight": "\ue014", "ArrowLeft": "\ue012"}
_PATIENCE_S = 60.0


def firefox_here() -> str | None:
    """The program, None where there is none."""
    return shutil.which("firefox-esr") or shutil.which("firefox")


class FirefoxTab:
    """One tab, in a profile of its own. `said`: what its console noted; `outside`: what it asked of others."""

    def __init__(self, profile: Path, url: str, width: int = 1280, *, is_dark: bool = False) -> None:
        wanted = {**_PREFERENCES, "layout.css.prefers-color-scheme.content-override": 0 if is_dark else 1}
        (profile / "user.js").write_text("\n".join(f'user_pref("{name}", {json.dumps(value)});' for name, value in
                                                   wanted.items()))  # fmt: skip
        self.url, self.said, self.outside = url, list[str](), list[str]()
        self._loop, self._number = asyncio.new_event_loop(), count(1)
        words = [firefox_here() or "", "--headless", "--no-remote", "--profile", str(profile)]
        self._process = subprocess.Popen([*words, "--remote-debugging-port=0"], start_new_session=True,
                                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
        told = profile / "WebDriverBiDiServer.json"
        _until(lambda: told.exists() and told.read_text().rstrip().endswith("}"), "Firefox did not say its port")
        self._session, self._socket = self._do(_connected(json.loads(told.read_text())["ws_port"]))
        self._send("session.new", capabilities={})
        self._send("session.subscribe", events=["log.entryAdded", "network.beforeRequestSent"])
        self._context = self._send("browsingContext.getTree")["contexts"][0]["context"]
        self._send("browsingContext.setViewport", context=self._context, viewport={"width": width, "height": 900})

    def go(self, path: str) -> None:
        self._send("browsingContext.navigate", context=self._context, url=urljoin(self.url, path), wait="complete")

    def ask(self, script: str) -> Any:
        """What an expression in the page comes to, as JSON holds it."""
        found = self._send("script.evaluate", expression=f"JSON.stringify({script})", awaitPromise=True,
                           target={"context": self._context})  # fmt: skip
        assert found["type"] == "success", f"{script}: {found['exceptionDetails']['text']}"
        return json.loads(found["result"].get("value", "null"))

    def until(self, script: str) -> None:
        _until(lambda: self.ask(f"!!({script})"), script)

    def click(self, css: str) -> None:
        """As the element hears it: a pointer that aims at a place misses what moves meanwhile, as growing pages do."""
        self._at(css, "click()")

    def fill(self, css: str, text: str) -> None:
        """Letter by letter, in place of what it holds."""
        self._at(css, "select()")
        self.press(css, text)

    def press(self, css: str, key: str) -> None:
        self._at(css, "focus()")
        strokes = [{"type": kind, "value": each} for each in _KEYS.get(key, key) for kind in ("keyDown", "keyUp")]
        self._act("key", strokes)

    def end(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(20)
        self._do(self._session.close())
        self._loop.close()

    def _at(self, css: str, does: str) -> None:
        self.ask(f"(document.querySelector({json.dumps(css)}).{does}, 1)")

    def _act(self, kind: str, actions: list[dict[str, Any]]) -> None:
        given = {"type": kind, "id": kind, "actions": actions}
        self._send("input.performActions", context=self._context, actions=[given])

    def _send(self, method: str, **params: Any) -> Any:
        return self._do(self._answered(next(self._number), method, params))

    async def _answered(self, number: int, method: str, params: dict[str, Any]) -> Any:
        await self._socket.send_str(json.dumps({"id": number, "method": method, "params": params}))
        while (told := json.loads(await self._socket.receive_str(timeout=_PATIENCE_S)))["type"] == "event":
            self._note(told["method"], told["params"])
        assert (told["id"], told["type"]) == (number, "success"), f"{method}: {told.get('message')}"
        return told["result"]

    def _note(self, method: str, params: dict[str, Any]) -> None:
        if method == "log.entryAdded":
            self.said.append(f"{params['level']}: {params['text']}")
        elif not (asked := params["request"]["url"]).startswith((self.url, "data:", "about:")):
            self.outside.append(asked)

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self._loop.run_until_complete(work)


async def _connected(port: int) -> tuple[ClientSession, ClientWebSocketResponse]:
    session = ClientSession()
    return session, await session.ws_connect(f"ws://127.0.0.1:{port}/session", max_msg_size=0)


def _until(holds: Callable[[], Any], what: str) -> None:
    end_s = time.monotonic() + _PATIENCE_S
    while not holds():
        assert time.monotonic() < end_s, what
        time.sleep(0.05)
