"""elastiqctl terminate: show what is there, ask, let it end, and say what became of it."""

from __future__ import annotations

import time
from argparse import Namespace
from typing import Any, Mapping, Optional

from elastiq import client
from elastiq.cli.asking import FAILED, agreed, answer, ask, tell
from elastiq.cli.table import Screen
from elastiq.paths import Paths
from elastiq.protocol import Refused
from elastiq.wording import counted

PATIENCE_S = 120.0  # for a drain to take effect and a look to show it
SAID_AFTER_S = 5.0
PAUSE_S = 0.5
SHOWN = 50  # jobs, one a line
AGAIN = 3  # with --yes, if other jobs have started meanwhile
Node = Mapping[str, Any]


def terminate(paths: Paths, args: Namespace) -> int:
    found = ask(paths, "terminate", {"node": args.node, "look": True})
    if isinstance(found, int):
        return found
    node: Node = found["result"]
    if not args.force:
        return _gently(paths, args, node)
    if not args.json:
        print(*_named(node), sep="\n")
    if not agreed(args, f"End {node['node']} now, with these jobs?" if _at_risk(node) else f"End {node['node']} now?"):
        return FAILED
    return _by_force(paths, args, node)


def _gently(paths: Paths, args: Namespace, node: Node) -> int:
    # One that runs jobs is refused without a question: the daemon names them.
    if not node["jobs"] and not agreed(args, f"{_about(node)}. End it?"):
        return FAILED
    done = ask(paths, "terminate", {"node": node["node"]})
    if isinstance(done, int):
        return done
    last = _watch(paths, done["result"])
    if last is None or last["state"] in ("terminating", "gone"):
        gone = {**done["result"], **(last or {}), "state": last["state"] if last else "gone"}
        answer(args, Screen().line(f"{node['node']}: its end was asked for"), gone)
        return 0
    if last["state"] in ("idle", "busy"):
        tell(f"{node['node']} is in service again: {last['reason']}")
        return FAILED
    text = f"{node['node']} is {last['state']}: elastiq ends it when a look shows that no job runs there"
    answer(args, Screen().line(text), last)
    return 0


def _watch(paths: Paths, node: Node) -> Optional[Node]:
    """The node when it was decided whether it ends, or as it is when that takes long; None if it is gone."""
    began, said = time.monotonic(), False
    while True:
        try:
            status = client.ask(paths.socket, "status")["status"]
        except (client.NotRunning, client.NoAnswer, Refused, PermissionError):
            return node  # it ends or restarts: what was begun goes on then
        found = next((one for one in status["nodes"] if one["id"] == node["node"]), None)
        waited_s = time.monotonic() - began
        if found is None or found["state"] not in ("draining", "failed") or waited_s > PATIENCE_S:
            return None if found is None else {**node, "state": found["state"], "reason": found["reason"]}
        if waited_s > SAID_AFTER_S and not said:
            said = True
            tell(f"{node['node']} is {found['state']}; a look that begins from now on decides")
        time.sleep(PAUSE_S)


def _by_force(paths: Paths, args: Namespace, node: Node) -> int:
    """What was named dies, and nothing else; with --yes, what has started meanwhile is named, too."""
    for _ in range(AGAIN if args.yes else 1):
        jobs = node["named"] if node["known"] else None
        done = ask(paths, "terminate", {"node": node["node"], "force": True, "jobs": jobs})
        if not isinstance(done, int):
            killed = counted(len(done["result"]["killed"]), "job")
            text = f"{node['node']}: its end was asked for, with {killed}"
            answer(args, Screen().line(text), done["result"])
            return 0
        if done != FAILED or not args.yes:
            return done
        found = ask(paths, "terminate", {"node": args.node, "look": True})
        if isinstance(found, int):
            return found
        if found["result"]["named"] == node["named"]:
            return done  # refused for another reason
        node = found["result"]
    return FAILED


def _about(node: Node) -> str:
    places = "/".join(filter(None, (node["pool"], node["flavour"])))
    more = ", ".join(filter(None, (node["worker"], places)))
    return f"{node['node']}{f' ({more})' if more else ''} is {node['state']}"


def _at_risk(node: Node) -> bool:
    return bool(node["named"]) or not node["known"]


def _named(node: Node) -> list[str]:
    """What --force kills, a job a line."""
    screen = Screen()
    if not node["known"]:
        return [screen.line(f"{_about(node)}, and runs jobs, or may: {node['why']}", "bad")]
    if not node["named"]:
        return [screen.line(f"{_about(node)}: no job is known to run there")]
    rest = len(node["named"]) - SHOWN
    return [
        screen.line(f"{_about(node)}: --force kills {counted(len(node['named']), 'job')}:", "bad"),
        *(screen.line(f"  {job}") for job in node["named"][:SHOWN]),
        *([f"  and {rest} more"] if rest > 0 else ()),
    ]
