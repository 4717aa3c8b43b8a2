"""The page in a real browser: what a person sees while a demo runs, and what hostile names do there."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Iterator

import pytest

from elastiq.core import Core
from elastiq.interfaces import JobGroup, Jobs
from elastiq.nodes import State
from elastiq.web.page import Page
from tests.e2e.browser import Browser, browser, is_here
from tests.unit.values import ONE, a_node
from tests.waiting import free_port, until
from tests.web_daemon import fetch, on_loop, running, section

ROOT = Path(__file__).resolve().parents[2]
WIDTHS = (320, 390, 768, 1280)
SHOWN = "return !document.querySelector('#main').hidden"
NO_BANNER = "return document.querySelector('#gone').hidden"
HOSTILE = '<img src=x onerror="window.pwned=1"><script>window.pwned=2</script>&lt;b&gt;\'"</table>'


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if not is_here():
        if os.environ.get("CI", "").lower() == "true":
            pytest.fail(
                "Debian's packages chromium and chromium-driver are not here, and in CI they must", pytrace=False
            )
        pytest.skip("needs Debian's packages chromium and chromium-driver")
    with browser(tmp_path_factory.mktemp("browser")) as window:
        yield window


class Demo:
    """`elastiq demo --web`, as a person starts it."""

    def __init__(self, port: int, speed: float = 90.0) -> None:
        self.url = f"http://127.0.0.1:{port}/"
        command = [sys.executable, "-m", "elastiq", "demo", "--web", str(port), "--speed", str(speed)]
        environ = {**os.environ, "PYTHONPATH": str(ROOT)}
        self.process = subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL)
        until(self._answers, "the demo's page")
        self.port = port

    def _answers(self) -> bool:
        try:
            return bool(fetch(int(self.url.split(":")[2].strip("/"))))
        except ConnectionRefusedError:
            return False

    def end(self) -> None:
        self.process.terminate()
        self.process.wait(60)


def open_page(window: Browser, url: str) -> None:
    window.look_as(1280, 900)
    window.open(url)
    window.console()
    window.wait(SHOWN, "the page shows something")


def number_in(window: Browser, selector: str) -> float:
    return float(window.text(selector).split()[0].replace(",", ""))


def test_while_a_demo_runs_the_page_follows_it_says_when_it_is_gone_and_finds_it_again(window: Browser) -> None:
    demo = Demo(free_port())
    try:
        open_page(window, demo.url)
        assert window.text("#cluster") == "demo" and window.text("#live").startswith("live, 90")
        window.wait("return document.title.startsWith('0 waiting') === false", "jobs that wait are in the title")
        window.wait("return document.querySelectorAll('#nodes tbody tr').length >= 4", "machines are launched")
        window.wait("return document.querySelector('#nodes').innerText.includes('busy')", "they join and run jobs")
        decisions = window.text("#decisions")
        assert "launch" in decisions and "waiting job" in decisions, "with the reason"
        assert number_in(window, "#machines") == 8 and window.text("#machines").endswith("of 8")
        for drawn in ("busy", "booting"):
            window.wait(f"return document.querySelectorAll('#chart path.f-{drawn}').length", f"{drawn} is drawn")
        assert window.run("return document.querySelectorAll('#chart path.s-waiting').length") == 1
        before = window.run("return document.querySelector('#chart path.s-running').getAttribute('d')")
        script = f"return document.querySelector('#chart path.s-running').getAttribute('d') !== {before!r}"
        window.wait(script, "the chart goes on")
        assert number_in(window, "#money") > 0 and "an hour now" in window.text("#money-under")

        demo.end()
        window.wait("return document.querySelector('#gone').innerText.includes('has not answered')", "it is gone")
        assert window.text("#live") == "no connection" and "stale" in window.run("return document.body.className")
        assert window.console(), "the browser's own word for a refused connection"
        demo = Demo(demo.port)
        window.wait(NO_BANNER, "it is found again")
        assert window.text("#live").startswith("live")
        assert not [line for line in window.console() if "ERR_CONNECTION_REFUSED" not in line]
    finally:
        demo.end()


def a_busy_cluster(core: Core, name: str = "w{}.example.org") -> None:
    """Machines in every state, with long names, and jobs; all of them by this name."""
    for number, state in enumerate([state for state in State if state is not State.GONE] * 3, 1):
        node = a_node(state, number)
        node.worker, node.reason, node.since = name.format(number), f"for a reason: {name.format(number)}", core.wall()
        if number % 5 == 0:
            node.instance_id = f"i-0123456789abcdef{name.format(number)}"
        core.registry.add(node)
    core.record("launch", "launch1", name.format(1), f"3 of ec2/medium: 5 jobs as {name.format(2)}")
    core.tell("a matter", f"that a person should know of: {name.format(3)}")


def jobs(name: str) -> Jobs:
    groups = [
        JobGroup(f"g{number}", ONE, 40 * number, running=3, sample_job=f"{name.format(number)} {number}.0",
                 not_eligible=f"waits for {name.format(number)}" if number == 2 else "")
        for number in range(1, 5)
    ]  # fmt: skip
    return Jobs(tuple(groups))


def test_names_made_of_html_are_shown_as_they_are_and_nothing_runs(window: Browser) -> None:
    port = free_port()
    with running(section(port)) as daemon:
        daemon.core.batch.script.answers["jobs"] = jobs(HOSTILE)  # type: ignore[attr-defined]
        on_loop(daemon, lambda: a_busy_cluster(daemon.core, HOSTILE.replace("{", "{{")))
        on_loop(daemon, daemon.observer.read_jobs)
        until(lambda: fetch(port)["status"]["queue"]["groups"], "the queue is read")
        open_page(window, f"http://127.0.0.1:{port}/")
        window.wait("return document.querySelectorAll('#queue tbody tr').length === 4", "the queue is shown")
        for place in ("#notices", "#nodes", "#queue", "#decisions"):
            assert HOSTILE in window.text(place), place
        assert window.run("return [document.images.length, document.scripts.length, window.pwned]") == [1, 1, None]
        assert window.console() == []

        # And should a mistake of ours ever let it through, the policy of the page does not.
        tried = window.run(
            "try { document.body.insertAdjacentHTML('beforeend', arguments[0]); return 'done' }"
            " catch (error) { return error.name }", HOSTILE,
        )  # fmt: skip
        assert tried == "TypeError"
        for attack in (
            "made.setAttribute('onclick', 'window.pwned = 3'); made.click()",
            "made.append(Object.assign(document.createElement('script'), { textContent: 'window.pwned = 4' }))",
            "made.setAttribute('style', 'color: red')",
        ):
            script = f"const made = document.createElement('p'); document.body.append(made); {attack}"
            with contextlib.suppress(AssertionError):  # refused at once, or without an effect
                window.run(script)
        assert window.run("return window.pwned") is None
        assert window.run("return getComputedStyle(document.body.lastElementChild).color") != "rgb(255, 0, 0)"
        assert any("Content Security Policy" in line or "Trusted" in line for line in window.console())


def test_it_fits_every_screen_and_is_readable_in_light_and_dark(window: Browser, tmp_path: Path) -> None:
    port = free_port()
    with running(section(port)) as daemon:
        name = "node{}.a-rather-long-domain-name.of-some-institute.example.org"
        daemon.core.batch.script.answers["jobs"] = jobs(name)  # type: ignore[attr-defined]
        on_loop(daemon, lambda: a_busy_cluster(daemon.core, name))
        on_loop(daemon, daemon.observer.read_jobs)
        open_page(window, f"http://127.0.0.1:{port}/")
        window.wait("return document.querySelectorAll('#queue tbody tr').length === 4", "the queue is shown")
        for scheme in ("light", "dark"):
            for width in WIDTHS:
                window.look_as(width, 800, scheme, phone=width < 700)
                window.wait("return document.querySelector('#chart svg')", "the chart")
                time.sleep(0.1)  # it is drawn anew
                wide = window.run(TOO_WIDE)
                assert wide == [], f"{width} px"
            window.screenshot(tmp_path / f"{scheme}-{width}.png", whole=True)  # to be looked at
            faint = window.run(FAINT)
            assert faint == [], scheme
            dark = window.run(LUMINANCE + "return luminance(getComputedStyle(document.body).backgroundColor)")
            assert (dark < 0.05) if scheme == "dark" else (dark > 0.8)
        assert window.console() == []


# What reaches beyond the right edge of the screen.
TOO_WIDE = """
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > width) return ["the page scrolls"];
  return [...document.querySelectorAll("main *, header *, footer *")]
    .filter((one) => !one.closest("thead") && one.getBoundingClientRect().right > width + 0.5)
    .map((one) => `${one.tagName} ${one.className.baseVal ?? one.className} ${one.textContent.slice(0, 40)}`);
"""
# https://www.w3.org/TR/WCAG21/#dfn-relative-luminance
LUMINANCE = """
  const luminance = (colour) => {
    const [r, g, b] = colour.match(/[\\d.]+/g).slice(0, 3).map((one) => one / 255)
      .map((one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
"""
# Text whose contrast with what is behind it is below what WCAG asks for (4.5).
FAINT = (
    LUMINANCE
    + """
  const behind = (one) => {
    for (; one; one = one.parentElement) {
      const colour = getComputedStyle(one).backgroundColor;
      if (!/, 0\\)|transparent/.test(colour)) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const found = new Set();
  for (const one of document.querySelectorAll("main *, header *, footer *")) {
    const own = [...one.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || !one.getClientRects().length) continue;
    const svg = one.namespaceURI.endsWith("svg"), style = getComputedStyle(one);
    const pair = [luminance(svg ? style.fill : style.color), luminance(behind(one))].sort((a, b) => b - a);
    const contrast = (pair[0] + 0.05) / (pair[1] + 0.05);
    if (contrast < 4.5) found.add(`${contrast.toFixed(2)} ${one.tagName} ${one.className.baseVal ?? one.className}`);
  }
  return [...found];
"""
)


def test_a_loop_that_hangs_is_told_from_one_that_lives_and_a_range_is_chosen_by_hand(window: Browser) -> None:
    port, released = free_port(), threading.Event()
    with running(section(port)) as daemon:
        open_page(window, f"http://127.0.0.1:{port}/")
        window.wait(NO_BANNER, "it lives")
        window.run("[...document.querySelectorAll('#ranges button')].find((one) => one.innerText === '7 d').click()")
        chosen = "return document.querySelector('#ranges [aria-pressed=true]').innerText"
        assert window.run(chosen) == "7 d"
        window.run("document.querySelector('#chart [role=img]').focus()")
        (page,) = (one for one in daemon.core.listeners if isinstance(one, Page))

        def hang() -> None:
            page.feed.latest = page.feed.latest._replace(made=time.monotonic() - 100.0)
            released.wait(600)

        daemon.core.events.post(hang)
        said: Any = window.wait("return document.querySelector('#gone').innerText", "it hangs")
        assert "decision loop has been silent for" in said
        released.set()
        window.wait(NO_BANNER, "it goes on")
        window.open(f"http://127.0.0.1:{port}/")
        window.wait(SHOWN, "once more")
        assert window.run(chosen) == "7 d", "it is remembered"
        assert window.console() == []
