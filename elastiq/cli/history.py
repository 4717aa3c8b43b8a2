"""elastiqctl history: every launch and end with its reason, from the state file; with or without a running elastiq.

The file is only read, by a copy. Who may not read it, but may use the control socket, gets it from there.
"""

from __future__ import annotations

import json
import os
import time
from argparse import Namespace
from typing import Any, Iterable, Mapping, Optional, Sequence

from elastiq.cli.asking import FAILED, ask, tell
from elastiq.cli.copied import STATE, CopiedStore
from elastiq.cli.table import Screen
from elastiq.history import answer as all_of
from elastiq.paths import Paths
from elastiq.store import StoreError

# What is shown without --all, with its word and style: the rest is how machines change between idle and busy.
WORDS: Mapping[str, tuple[str, str]] = {
    "launch": ("asked for", "good"),
    "start": ("asked to start", "good"),
    "pending": ("launched", "good"),
    "booting": ("launched", "good"),
    "adopt": ("adopted", "good"),
    "failed": ("failed", "bad"),
    "lost": ("lost", "bad"),
    "stopped": ("stopped", "warn"),
    "terminating": ("ended", "warn"),
    "gone": ("gone", "warn"),
    **{verb: (verb, "head") for verb in ("drain", "undrain", "terminate", "pause", "resume", "scale")},
    **{verb: (verb, "head") for verb in ("drain-pool", "undrain-pool")},
}
Line = Mapping[str, Any]


def history(paths: Paths, args: Namespace) -> int:
    found = _read(paths)
    if isinstance(found, int):
        return found
    lines = chosen(found, args.all, args.node, args.pool, args.since)
    lines = lines[-args.lines :] if args.lines else lines
    print(json.dumps({"schema": 1, "history": lines}, indent=2) if args.json else text(lines))
    return 0


def _read(paths: Paths) -> Any:
    """All lines, oldest first; an exit code after saying why there are none."""
    file = paths.statedir / STATE
    try:
        os.stat(file)
        store = CopiedStore(file)
    except PermissionError:
        asked = ask(paths, "history")
        return asked if isinstance(asked, int) else asked["result"]["history"]
    except FileNotFoundError:
        tell(f"{file}: there is no state: elastiq has not run yet with this --statedir")
        return FAILED
    except StoreError as error:
        tell(str(error))
        return FAILED
    return all_of(store)["history"]


def chosen(
    lines: Iterable[Line], everything: bool, node: Optional[str], pool: Optional[str], since: Optional[float]
) -> Sequence[Line]:
    """The lines that are asked for. Without ``everything``: launches, ends, and what people commanded; of an end
    that the cloud has confirmed only the decision."""
    found, ending, there = [], set(), set()
    for line in lines:
        # Of a machine that was asked for, the first line has the name of the launch.
        its = node is None or line["node"] == node or line["node"].rpartition(".")[0] == node
        its = its or (line["what"] == "pending" and f"launched as {node}:" in line["reason"])
        again = line["what"] == "gone" and (line["node"], line["reason"]) in ending
        # One that a listing showed before the launch was answered comes up as booting.
        again = again or (line["what"] == "booting" and line["node"] in there)
        if line["what"] == "terminating":
            ending.add((line["node"], line["reason"]))
        elif line["what"] in ("pending", "booting"):
            there.add(line["node"])
        wanted = everything or (line["what"] in WORDS and not again)
        if its and wanted and pool in (None, line["pool"]) and (since is None or line["at"] >= since):
            found.append(line)
    return found


def text(lines: Sequence[Line]) -> str:
    """A line each, newest last."""
    if not lines:
        return "nothing that was asked for is in the history"
    screen = Screen()
    rows, styles = [], []
    for line in lines:
        word, style = WORDS.get(line["what"], (line["what"], ""))
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(line["at"]))
        rows.append([at, word, line["node"], line["pool"], line["reason"]])
        styles.append(style)
    return "\n".join(screen.table(("TIME", "WHAT", "NODE", "POOL", "WHY"), rows, styles, spare="POOL"))
