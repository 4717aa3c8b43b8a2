"""A headless Chromium, driven through chromedriver by the WebDriver protocol (w3.org/TR/webdriver2) and, for what
that has not, by Chromium's own (goog/cdp/execute). Debian's packages chromium and chromium-driver."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, Optional

CHROMIUM, DRIVER = "/usr/bin/chromium", "/usr/bin/chromedriver"
# Nothing is fetched but what the test serves; as root there is no sandbox.
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    " --disable-component-update --disable-sync --disable-dev-shm-usage --force-device-scale-factor=1"
).split()


def is_here() -> bool:
    return all(map(os.access, (CHROMIUM, DRIVER), (os.X_OK, os.X_OK)))


class Browser:
    """One window. Its methods raise AssertionError with the driver's words if it refuses."""

    def __init__(self, url: str, profile: Path) -> None:
        self._session = url
        options = {"binary": CHROMIUM, "args": [*FLAGS, f"--user-data-dir={profile}"]}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        made = self._ask("/session", {"capabilities": {"alwaysMatch": wanted}})
        self._session = f"{url}/session/{made['sessionId']}"

    def open(self, url: str) -> None:
        self._ask("/url", {"url": url})

    def run(self, script: str, *arguments: Any) -> Any:
        """The value of a script's ``return``."""
        return self._ask("/execute/sync", {"script": script, "args": arguments})

    def text(self, selector: str) -> str:
        """What a person reads there."""
        return str(self.run("return document.querySelector(arguments[0]).innerText", selector))

    def wait(self, script: str, what: str, within_s: float = 60.0) -> Any:
        """Until a script returns something true; returns that."""
        end = time.monotonic() + within_s
        while not (found := self.run(script)):
            assert time.monotonic() < end, f"not within {within_s:g} s: {what}"
            time.sleep(0.1)
        return found

    def look_as(self, width: int, height: int, scheme: str = "light", phone: bool = False) -> None:
        """Be a screen of this size, whose owner prefers ``light`` or ``dark``."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": phone}
        self.devtools("Emulation.setDeviceMetricsOverride", size)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.devtools("Emulation.setEmulatedMedia", {"features": features})

    def screenshot(self, path: Path, whole: bool = False) -> None:
        shot = self.devtools("Page.captureScreenshot", {"format": "png", "captureBeyondViewport": whole})
        path.write_bytes(base64.b64decode(shot["data"]))

    def devtools(self, command: str, parameters: Mapping[str, Any]) -> Any:
        return self._ask("/goog/cdp/execute", {"cmd": command, "params": parameters})

    def console(self) -> list[str]:
        """What the console says since the last time: errors and warnings."""
        said = self._ask("/se/log", {"type": "browser"})
        return [f"{one['level']} {one['message']}" for one in said if one["level"] in ("SEVERE", "WARNING")]

    def close(self) -> None:
        self._ask("", None, "DELETE")

    def _ask(self, path: str, body: Optional[Mapping[str, Any]], method: str = "POST") -> Any:
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(self._session + path, data, method=method)
        try:
            with _opener.open(request, timeout=90) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"the browser: {json.load(error)['value']['message']}") from None


_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@contextlib.contextmanager
def browser(folder: Path, wait: Callable[[float], None] = time.sleep) -> Iterator[Browser]:
    """A browser with an empty profile in this folder."""
    output = (folder / "chromedriver.log").open("w+")
    # It makes a group of its own, so that nothing of the browser outlives it.
    driver = subprocess.Popen(
        [DRIVER, "--port=0"], stdout=output, stderr=output, start_new_session=True,
        env={**os.environ, "HOME": str(folder), "no_proxy": "*"},
    )  # fmt: skip
    window = None
    try:
        window = Browser(f"http://127.0.0.1:{_port(driver, folder / 'chromedriver.log', wait)}", folder / "profile")
        yield window
    finally:
        if window is not None:
            with contextlib.suppress(AssertionError, OSError):
                window.close()
        driver.terminate()
        driver.wait(60)
        output.close()
        shutil.rmtree(folder / "profile", ignore_errors=True)


def _port(driver: subprocess.Popen[bytes], log: Path, wait: Callable[[float], None]) -> int:
    """The port that chromedriver has chosen, once it says so."""
    end = time.monotonic() + 60
    while True:
        words = log.read_text(errors="replace").partition("started successfully on port ")[2]
        if "." in words:  # all of it is there
            return int(words.partition(".")[0])
        assert driver.poll() is None and time.monotonic() < end, f"chromedriver: {log.read_text(errors='replace')}"
        wait(0.05)
