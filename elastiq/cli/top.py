"""elastiqctl top: what elastiq does, live."""

from __future__ import annotations

import json
import os
import sys
import time
from argparse import Namespace
from typing import Any, Mapping, Optional

from elastiq import client
from elastiq.cli.asking import FAILED, ask, tell
from elastiq.cli.frame import Size, frame, help_frame
from elastiq.cli.style import width_of
from elastiq.cli.table import Screen
from elastiq.cli.terminal import Terminal
from elastiq.events import RealClock
from elastiq.paths import Paths
from elastiq.protocol import Refused

ANSWER_S = 5.0
OF_ANOTHER = "another version of elastiq runs than this elastiqctl: restart it"


def top(paths: Paths, args: Namespace) -> int:
    answer = ask(paths, "status")
    if isinstance(answer, int):
        return answer
    if args.json:
        return _stream(paths, args, answer["status"])
    if not (sys.stdin.isatty() and sys.stdout.isatty()) or os.environ.get("TERM", "dumb") == "dumb":
        tell("top needs a terminal; without one: elastiqctl status, or elastiqctl top --json")
        return FAILED
    return _show(paths, args, answer["status"])


def _stream(paths: Paths, args: Namespace, status: Mapping[str, Any]) -> int:
    """A status a line, for programs."""
    left = args.count
    while True:
        print(json.dumps(status, separators=(",", ":")), flush=True)
        left -= 1
        if left == 0:
            return 0
        time.sleep(args.interval)
        answer = ask(paths, "status")
        if isinstance(answer, int):
            return answer
        status = answer["status"]


class _Live:
    """The newest status, and why there is none newer."""

    def __init__(self, paths: Paths, status: Mapping[str, Any]) -> None:
        self._paths = paths
        self.status, self.trouble = status, ""

    def look(self) -> None:
        try:
            self.status, self.trouble = client.ask(self._paths.socket, "status", timeout_s=ANSWER_S)["status"], ""
        except (client.NotRunning, client.NoAnswer, Refused, PermissionError) as error:
            self.trouble = f"{error}; this is from {time.time() - self.status['at']:.0f} s ago"


def _show(paths: Paths, args: Namespace, status: Mapping[str, Any]) -> int:
    live, size, helps, left = _Live(paths, status), Size(0), False, args.count
    with Terminal() as terminal:
        due = time.monotonic() + args.interval
        while True:
            screen, size.lines = Screen(), os.get_terminal_size(sys.stdout.fileno()).lines
            screen.width = width_of()
            terminal.draw(help_frame(screen, size) if helps else _frame(screen, size, live))
            key = _key(terminal, due)
            if key in ("q", "Q") or (key is None and left == 1):
                return 0
            if key is None or key in (" ", "r", "\n"):
                left -= key is None
                live.look()
                due = time.monotonic() + args.interval
            helps = key in ("h", "?") and not helps
            size.scroll += {"up": -1, "down": 1, "page up": -size.lines // 2, "page down": size.lines // 2}.get(
                key or "", 0
            )
            size.scroll = {"home": 0, "end": len(live.status["nodes"])}.get(key or "", size.scroll)


def _key(terminal: Terminal, due: float) -> Optional[str]:
    try:
        return terminal.key(due - time.monotonic())
    except EOFError:  # nobody looks any more
        return "q"


def _frame(screen: Screen, size: Size, live: _Live) -> list[str]:
    try:
        silent_s = RealClock.monotonic() - live.status["monotonic_at"]
        return frame(screen, size, live.status, silent_s, time.time(), live.trouble)
    except (KeyError, TypeError, ValueError):  # after an upgrade
        return [OF_ANOTHER[: screen.width]]
