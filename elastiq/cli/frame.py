"""One frame of elastiqctl top: the status in so many lines and columns.

Pure but for the wall time, which is a parameter. No line is wider than the screen, and there are never too many.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from typing import Any, Mapping, Sequence

from elastiq.cli.style import clean, columns, cut, pad
from elastiq.cli.table import Screen, duration
from elastiq.cli.view import HANGING_S, STATES, notices_of, request, running
from elastiq.wording import counted

Status = Mapping[str, Any]
# How each machine is drawn in the bar, in the order in which they stand there.
GLYPHS = {
    "busy": "#",
    "idle": "=",
    "booting": "+",
    "pending": "+",
    "requested": "+",
    "draining": "~",
    "terminating": "~",
    "lost": "!",
    "failed": "!",
    "stopped": "z",
}
KEYS = "q quit   space look now   up/down scroll   h help"
HELP = (
    "",
    "q            quit",
    "space        look now",
    "up, down     a line up or down in the list of nodes; page up, page down, home, end",
    "h            this help; any key ends it",
    "",
    "In the bar each letter is a machine, or a share of them where there are many:",
    "# busy   = idle   + to come   ~ on its way out   ! lost or failed   z stopped   . room up to max_vms",
    "",
    "elastiqctl explain NODE tells why a machine is kept or goes, elastiqctl history what became of others.",
)


@dataclass
class Size:
    """Of the screen; ``scroll`` is how many nodes are above the first that is shown, and is set right here."""

    lines: int
    scroll: int = 0


def frame(screen: Screen, size: Size, status: Status, silent_s: float, now: float, trouble: str = "") -> list[str]:
    """The lines, from the top. ``silent_s`` is for how long the decision loop has been silent, ``trouble`` why this
    is not the newest status."""
    head = _head(screen, status, now)
    if trouble:
        head.append(_line(screen, f"! {trouble}", "bad"))
    if silent_s > HANGING_S:
        head.append(_line(screen, f"! the decision loop has been silent for {duration(silent_s)}: it hangs", "bad"))
    room = max(0, size.lines - len(head) - 3)  # the last action and the keys, and a blank line
    head += _notices(screen, notices_of(status), max(1, room // 4))
    room = max(0, size.lines - len(head) - 3)
    head += _groups(screen, status["queue"]["groups"], room // 3)
    room = max(0, size.lines - len(head) - 3)
    body = _nodes(screen, size, status["nodes"], now, room)
    lines = [*head, *body]
    lines += [""] * max(0, size.lines - 2 - len(lines))
    return [*lines[: max(0, size.lines - 2)], *_foot(screen, status, now)][: size.lines]


def help_frame(screen: Screen, size: Size) -> list[str]:
    """What the keys do."""
    return [_line(screen, line) for line in HELP[: size.lines]]


def bar(counts: Mapping[str, int], most: int, width: int) -> str:
    """The machines, drawn; each is one letter where they fit, else each letter is a share of them."""
    total = sum(counts.values())
    whole = max(most, total, 1)
    cells, done, text = min(width, whole), 0, ""
    for state, glyph in GLYPHS.items():
        done += counts.get(state, 0)
        text += glyph * (-(-done * cells // whole) - len(text))
    return text + "." * (cells - len(text))


def _head(screen: Screen, status: Status, now: float) -> list[str]:
    clock = time.strftime("%H:%M:%S", time.localtime(now))
    title = clean(f"elastiq {status['version']}, cluster {status['cluster']}: {status['state']}")
    title = pad(cut(title, screen.width - 10), screen.width - 9) + " " + clock if screen.width > 20 else title
    queue, quota = status["queue"], status["quota"]
    unmatchable = f" ({queue['unmatchable_jobs']} unmatchable)" if queue["unmatchable_jobs"] else ""
    age = "never read" if queue["age_s"] is None else f"read {duration(queue['age_s'])} ago"
    jobs = f"jobs    {queue['waiting_jobs']} waiting{unmatchable}, {running(queue)}; {age}"
    count = Counter(node["state"] for node in status["nodes"])
    states = ", ".join(f"{count[state]} {state}" for state in STATES if count[state])
    most = "" if quota["max_vms"] is None else f" of {quota['max_vms']}"
    nodes = f"nodes   {quota['counted']}{most}{f': {states}' if states else ''}"
    drawn = bar(count, quota["max_vms"] or 0, screen.width - 10)
    style = {"active": "good", "paused": "warn", "dry-run": "warn"}.get(status["state"], "")
    lines = [_line(screen, title, style), _line(screen, jobs, "" if queue["known"] else "bad"), _line(screen, nodes)]
    return [*lines, "        " + _painted(screen, drawn)] if screen.width > 20 else lines


def _painted(screen: Screen, drawn: str) -> str:
    """The bar in the colours of the states."""
    styles = {glyph: STATES.get(state, "") for state, glyph in GLYPHS.items()}
    parts = [drawn[: drawn.rfind(glyph) + 1].lstrip("".join(done)) for glyph, done in _each(drawn)]
    return "".join(screen.paint(part, styles.get(part[:1], "dim")) for part in parts)


def _each(drawn: str) -> list[tuple[str, list[str]]]:
    seen: list[str] = []
    found = []
    for glyph in dict.fromkeys(drawn):
        found.append((glyph, list(seen)))
        seen.append(glyph)
    return found


def _notices(screen: Screen, notices: Sequence[str], room: int) -> list[str]:
    shown = notices if len(notices) <= room else notices[: room - 1]
    more = [f"! and {counted(len(notices) - len(shown), 'notice')} more: elastiqctl status"]
    lines = [f"! {notice}" for notice in shown] + (more if len(shown) < len(notices) else [])
    return [_line(screen, line, "warn") for line in lines]


def _groups(screen: Screen, groups: Sequence[Status], room: int) -> list[str]:
    waiting = sorted((one for one in groups if one["waiting"]), key=lambda one: (one["matchable"], -one["waiting"]))
    if not waiting or room < 3:
        return []
    shown = waiting[: room - 2]
    rows = [
        [str(one["waiting"]), duration(one["waiting_s"]), request(one), one.get("explanation") or one["reason"]]
        for one in shown
    ]
    styles = ["" if one["matchable"] else "bad" for one in shown]
    lines = screen.table(("WAITING", "FOR", "EACH ASKS", "WHAT BECOMES OF THEM"), rows, styles, "FOR", wrapped=False)
    return ["", *lines]


def _nodes(screen: Screen, size: Size, nodes: Sequence[Status], now: float, room: int) -> list[str]:
    """Those in trouble first, then as `elastiqctl status` has them."""
    if not nodes or room < 3:
        return []
    order = list(STATES)
    nodes = sorted(nodes, key=lambda one: (order.index(one["state"]), one["since"], one["id"]))
    size.scroll = max(0, min(size.scroll, len(nodes) - (room - 2)))
    shown = nodes[size.scroll : size.scroll + room - 2]
    rows = [
        [
            one["id"],
            one["state"],
            duration(now - one["since"]),
            str(one["jobs"] or ""),
            one["worker"] or "",
            "/".join(filter(None, (one["pool"], one["flavour"]))),
            one.get("explanation") or one["reason"],
        ]
        for one in shown
    ]
    head = ("NODE", "STATE", "FOR", "JOBS", "WORKER", "POOL", "WHY IT IS KEPT OR GOES")
    styles = [STATES.get(one["state"], "") for one in shown]
    lines = screen.table(head, rows, styles, spare="POOL WORKER JOBS FOR", wrapped=False)
    return ["", *lines]


def _foot(screen: Screen, status: Status, now: float) -> list[str]:
    action = status["last_action"]
    done = "last action: none yet"
    if action["at"] is not None:
        done = f"last action, {duration(now - action['at'])} ago: {action['summary']}"
    return [_line(screen, done), _line(screen, KEYS, "dim")]


def _line(screen: Screen, text: str, style: str = "") -> str:
    """One line, cut where it is too long."""
    text = clean(text)
    if columns(text) > screen.width:
        text = cut(text, max(0, screen.width - 3)) + "..."[: screen.width]
    return screen.paint(text, style)
