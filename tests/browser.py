"""A headless Chromium over the pipe of its DevTools protocol: pages opened, scripts evaluated, errors kept, pictures taken."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "chromium-headless-shell", "google-chrome", "chrome")


START = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(number), fcntl.F_DUPFD, 20) for number in sys.argv[1:3]]
for place, end in zip((3, 4), ends):
    os.dup2(end, place)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""Starts the browser, which reads commands from descriptor 3 and writes answers to 4."""


def chromium() -> str:
    """The path of a Chromium; skips the test where there is none."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip(f"no Chromium is installed: none of {', '.join(NAMES)} is on the path")
    return found


class Page:
    """One page: commands go out and answers come in as JSON, each ended by a zero byte."""

    def __init__(self, sent: int, received: int) -> None:
        self._sent, self._received, self._count, self._buffer = sent, received, 0, b""
        self.errors: list[str] = []
        self._session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Runtime", "Log", "Page", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._count += 1
        message = {"id": self._count, "method": method, "params": parameters} | ({"sessionId": self._session} if self._session else {})
        os.write(self._sent, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self._count:
            self._hear(answer)
        assert "error" not in answer, answer
        return answer["result"]  # type: ignore[no-any-return]  # the protocol's objects

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            more = os.read(self._received, 1 << 16)
            assert more, "Chromium has ended"
            self._buffer += more
        text, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(text)  # type: ignore[no-any-return]  # as above

    def _hear(self, event: dict[str, Any]) -> None:
        if event["method"] == "Runtime.exceptionThrown" or (
            event["method"] in ("Runtime.consoleAPICalled", "Log.entryAdded") and "error" in json.dumps(event)
        ):
            self.errors.append(json.dumps(event["params"]))
        if event["method"] == "Network.requestWillBeSent" and not event["params"]["request"]["url"].startswith(("file:", "about:")):
            self.errors.append(f"asks for {event['params']['request']['url']}")

    def open(self, path: Path) -> None:
        self.call("Page.navigate", url=path.resolve().as_uri())
        for _ in range(200):
            if self.run("document.readyState === 'complete' && !!document.querySelector('main section')"):
                return
        raise AssertionError(f"{path} shows nothing: {self.errors}")

    def run(self, script: str) -> Any:
        """The value of an expression."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def theme(self, scheme: str) -> None:
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def picture(self) -> bytes:
        return base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"])


@contextmanager
def browser(width: int = 1320, height: int = 2400) -> Iterator[Page]:
    """A page of a browser that ends with the block."""
    program = chromium()
    out_read, out_write = os.pipe()
    in_read, in_write = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}", f"--window-size={width},{height}"]
        command = [sys.executable, "-c", START, str(out_read), str(in_write), program, *options, "--remote-debugging-pipe"]
        process = subprocess.Popen(command, pass_fds=(out_read, in_write), stderr=subprocess.DEVNULL)
        os.close(out_read)
        os.close(in_write)
        try:
            yield Page(out_write, in_read)
        finally:
            os.close(out_write)
            process.terminate()
            process.wait(30)
            os.close(in_read)
