"""What `explain` and `plan` both tell: of groups of jobs, nodes, and what holds everything back."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from elastiq.cli.table import Screen
from elastiq.cli.view import STATES, request

Shown = Mapping[str, Any]


def groups(screen: Screen, shown: Sequence[Shown]) -> list[str]:
    """What becomes of the waiting jobs; those that nothing can run first."""
    waiting = sorted((one for one in shown if one["waiting"]), key=lambda one: (one["matchable"], -one["waiting"]))
    rows = [[str(one["waiting"]), request(one), one["sample_job"] or "", one["explanation"]] for one in waiting]
    head = ("WAITING", "EACH ASKS", "EXAMPLE", "WHAT BECOMES OF THEM")
    return screen.table(head, rows, ["" if one["matchable"] else "bad" for one in waiting], "EXAMPLE") if rows else []


def nodes(screen: Screen, shown: Sequence[Shown]) -> list[str]:
    """Why nodes are kept or go."""
    rows = [
        [one["id"], one["state"], one["worker"] or "", place(one), one["explanation"]]
        for one in sorted(shown, key=lambda one: (one["state"], one["since"], one["id"]))
    ]
    head = ("NODE", "STATE", "WORKER", "POOL", "WHY IT IS KEPT OR GOES")
    styles = [STATES.get(row[1], "") for row in rows]
    return screen.table(head, rows, styles, spare="POOL WORKER") if rows else []


def held_back(screen: Screen, shown: Shown) -> list[str]:
    """Why nothing at all is launched, or ended."""
    what = {"no_launch": "nothing is launched", "no_end": "nothing is ended", "no_drain": "no idle node is drained"}
    return [screen.line(f"! {text} now: {shown[key]}", "warn") for key, text in what.items() if shown.get(key)]


def place(node: Shown) -> str:
    return "/".join(filter(None, (node["pool"], node["flavour"])))
