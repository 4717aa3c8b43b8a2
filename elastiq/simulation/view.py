"""What a person sees of the demo: a block that is redrawn in a terminal, plain lines elsewhere."""

from __future__ import annotations

import logging
import os
import shutil
import textwrap
from collections import Counter
from dataclasses import dataclass
from typing import Any, Mapping, Optional, Sequence, TextIO

WIDEST = 110
HISTORY_LINES = 8
PLAN = "plan: "  # what the daemon's log begins a decision with
HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"


@dataclass(frozen=True)
class Look:
    glyph: str
    plain: str  # where the terminal has no Unicode
    colour: str  # SGR


LOOKS: Mapping[str, Look] = {
    "requested": Look("·", ".", "2"),
    "pending": Look("○", "o", "33"),
    "booting": Look("◔", "b", "33"),
    "idle": Look("□", "-", "36"),
    "busy": Look("■", "#", "32"),
    "draining": Look("◧", "d", "35"),
    "stopped": Look("▪", "s", "2"),
    "terminating": Look("✗", "x", "31"),
    "lost": Look("?", "?", "31"),
    "failed": Look("!", "!", "31"),
}
UNKNOWN = Look("?", "?", "31")


@dataclass(frozen=True)
class Picture:
    """What one frame shows."""

    elapsed_s: float
    title: str
    waiting: int
    running: int
    done: int
    submitted: int
    max_vms: Optional[int]
    state: str
    nodes: Sequence[Mapping[str, Any]]  # as in `elastiqctl status --json`


def clock(seconds: float) -> str:
    """Simulated time as 0:12:34."""
    whole = int(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"


def counts(nodes: Sequence[Mapping[str, Any]]) -> str:
    """Nodes by state, in the order of a node's life."""
    by_state = Counter(str(node["state"]) for node in nodes)
    known = [state for state in LOOKS if by_state[state]]
    others = sorted(set(by_state) - set(LOOKS))
    return ", ".join(f"{by_state[state]} {state}" for state in known + others) or "none"


class PlainView:
    """One line for each decision, and a line of counts now and then."""

    def __init__(self, out: TextIO, every_s: float = 300.0) -> None:
        self._out = out
        self._every_s = every_s
        self._next_s = every_s

    def say(self, text: str) -> None:
        print(text, file=self._out, flush=True)

    def tell(self, elapsed_s: float, record: logging.LogRecord) -> None:
        self.say(f"{clock(elapsed_s)}  {record.getMessage()}")

    def show(self, picture: Picture) -> None:
        if picture.elapsed_s < self._next_s:
            return
        self._next_s = (picture.elapsed_s // self._every_s + 1) * self._every_s
        print(
            f"{clock(picture.elapsed_s)}  jobs: {picture.waiting} waiting, {picture.running} running, "
            f"{picture.done} done; machines: {counts(picture.nodes)}",
            file=self._out,
            flush=True,
        )

    def close(self) -> None:
        """Nothing to restore."""


class LiveView:
    """A block of lines that is drawn over its predecessor."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._drawn = 0
        self._hidden = False
        self._decisions: list[str] = []
        self._colours = not os.environ.get("NO_COLOR")
        self._unicode = "utf" in (out.encoding or "").lower().replace("-", "")

    def tell(self, elapsed_s: float, record: logging.LogRecord) -> None:
        """Keep the plans and what went wrong; what becomes of each machine is in the picture."""
        text = record.getMessage()
        if text.startswith(PLAN) or record.levelno > logging.INFO:
            line = f"{clock(elapsed_s)}  {text[len(PLAN) :] if text.startswith(PLAN) else text}"
            self._decisions = [*self._decisions[1 - HISTORY_LINES :], line]

    def show(self, picture: Picture) -> None:
        size = shutil.get_terminal_size()
        width = max(20, min(size.columns, WIDEST) - 1)
        lines = self._lines(picture, width)[: max(3, size.lines - 1)]
        up = f"\x1b[{self._drawn}F" if self._drawn else HIDE_CURSOR
        self._hidden = True  # before the write: an interrupt may come within it
        # A shorter block than before leaves nothing of the longer one: erase to the end of the screen.
        self._out.write(up + "".join(f"{line}\x1b[K\n" for line in lines) + "\x1b[J")
        self._out.flush()
        self._drawn = len(lines)

    def close(self) -> None:
        """Give the terminal back as it was; the last picture stays."""
        if self._hidden:
            self._out.write(SHOW_CURSOR)
            self._out.flush()

    # ------------------------------------------------------------------ the picture

    def _lines(self, p: Picture, width: int) -> list[str]:
        limit = "" if p.max_vms is None else f" of at most {p.max_vms}"
        lines = [
            self._bold(_cut(f"{p.title}   {clock(p.elapsed_s)}   {p.state}", width)),
            "",
            _cut(f"jobs      {p.waiting} waiting, {p.running} running, {p.done} of {p.submitted} done", width),
            self._bar(p, width),
            "",
            _cut(f"machines  {len(p.nodes)}{limit}" + (f": {counts(p.nodes)}" if p.nodes else ""), width),
        ]
        lines += [self._node(node, width) for node in p.nodes]
        lines += [""] * ((p.max_vms or 0) - len(p.nodes))
        lines += ["", "decisions"]
        told = [
            line
            for text in self._decisions
            for line in textwrap.wrap(
                text, width, initial_indent="  ", subsequent_indent=" " * 11, break_on_hyphens=False
            )
        ]
        lines += [self._paint("2", line) for line in told[-HISTORY_LINES:]]
        return lines

    def _bar(self, p: Picture, width: int) -> str:
        full, part, empty = ("█", "▒", "░") if self._unicode else ("#", "=", ".")
        room = width - 10
        total = max(1, p.submitted)
        done = room * p.done // total
        running = room * (p.done + p.running) // total - done
        rest = room * (p.done + p.running + p.waiting) // total - done - running
        return " " * 10 + (
            self._paint("32", full * done) + self._paint("36", part * running) + self._paint("33", empty * rest)
        )

    def _node(self, node: Mapping[str, Any], width: int) -> str:
        look = LOOKS.get(str(node["state"]), UNKNOWN)
        glyph = look.glyph if self._unicode else look.plain
        jobs = (glyph + " ") * int(node.get("jobs") or 0)
        text = f"{node['id']:<14} {node['state']:<12} {jobs or node.get('reason') or ''}"
        return f"  {self._paint(look.colour, glyph)} {self._paint(look.colour, _cut(text, width - 4))}"

    def _paint(self, sgr: str, text: str) -> str:
        return f"\x1b[{sgr}m{text}\x1b[0m" if self._colours and text else text

    def _bold(self, text: str) -> str:
        return self._paint("1", text)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(0, width - 3)] + "..."
