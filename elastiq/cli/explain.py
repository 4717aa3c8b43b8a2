"""elastiqctl explain: of all that a status tells, what concerns one job, node or pool; or what is unusual."""

from __future__ import annotations

import json
import sys
from typing import Any, Callable, Mapping, Optional, Sequence

from elastiq.cli import told
from elastiq.cli.table import Screen
from elastiq.errors import SourceError, UnsupportedError
from elastiq.identity import IdentityError
from elastiq.inifile import ConfigError
from elastiq.interfaces import BatchSystem
from elastiq.names import nearest

FAILED, CONFIG = 1, 78
HELD_BACK = ("no_launch", "no_end", "no_drain")
Status = Mapping[str, Any]


class Unknown(Exception):
    """Nothing has that name. The text is one line for a person."""


def run(status: Status, what: Optional[str], as_json: bool, batch: Callable[[], Optional[BatchSystem]]) -> int:
    """Find what is asked for and print it; returns the exit code. ``batch`` makes the batch system."""
    try:
        found = everything(status) if what is None else one(status, what) or _job(status, what, batch)
    except (Unknown, SourceError, ConfigError, IdentityError) as error:
        print(f"elastiqctl: {error}", file=sys.stderr)
        return FAILED
    if found is None:
        return CONFIG
    print(json.dumps(found, indent=2) if as_json else text(found))
    return 0


def _job(status: Status, name: str, batch: Callable[[], Optional[BatchSystem]]) -> Optional[dict[str, Any]]:
    """A job by its name in the batch system. Raises `Unknown` or `SourceError`."""
    system = batch()
    if system is None:
        return None
    try:
        key, standing = system.find_job(name)
    except SourceError as error:
        found = sampled(status, name) if isinstance(error, UnsupportedError) else None
        if found is not None:
            return found
        if name[:1].isdigit():
            raise
        raise unknown(status, name, f"nor a job: {error}") from None  # most likely meant as another name
    return job(status, name, key, standing)


def everything(status: Status) -> dict[str, Any]:
    """All waiting groups, the nodes that are not busy, and what holds everything back."""
    nodes = [node for node in status["nodes"] if node["state"] != "busy"]
    held_back = {key: status[key] for key in HELD_BACK}
    return {"groups": status["queue"]["groups"], "nodes": nodes, **held_back}


def one(status: Status, name: str) -> Optional[dict[str, Any]]:
    """The node, worker or pool of that name, None where there is none. A worker may go by the first part of its
    name."""
    nodes = [node for node in status["nodes"] if name in (node["id"], node["node"])]
    nodes = nodes or [node for node in status["nodes"] if _is_worker(name, node["worker"])]
    if nodes:
        return {"nodes": nodes}
    pools = [pool for pool in status["pools"] if pool["name"] == name]
    if pools:
        return {"pools": pools}
    strangers = [worker for worker in status["strangers"] if _is_worker(name, worker["worker"])]
    return {"workers": strangers} if strangers else None


def _is_worker(name: str, worker: Optional[str]) -> bool:
    return worker is not None and name.lower() in (worker, worker.partition(".")[0])


def job(status: Status, name: str, key: str, standing: str) -> dict[str, Any]:
    """A job of the group with that key, which stands as the batch system says in words. The key is empty where
    it waits for no machine."""
    groups = [group for group in status["queue"]["groups"] if key and group["key"] == key]
    if key and not groups:
        standing += f"; jobs like it were not there when the queue was read{_ago(status)}: the next read shows them"
    return {"job": name, "standing": standing, "groups": groups}


def _ago(status: Status) -> str:
    age_s = status["queue"]["age_s"]
    return "" if age_s is None else f" {age_s:.0f} s ago"


def sampled(status: Status, name: str) -> Optional[dict[str, Any]]:
    """The group for which a status has this very job as its example."""
    groups = [group for group in status["queue"]["groups"] if group["sample_job"] == name]
    return {"job": name, "standing": f"job {name} waits", "groups": groups} if groups else None


def unknown(status: Status, name: str, nor: str) -> Unknown:
    """What to say of a name that nothing has; ``nor`` why it is no job's."""
    named = [node[key] for node in status["nodes"] for key in ("id", "worker") if node[key]]
    named += [one["name"] for one in status["pools"]] + [one["worker"] for one in status["strangers"]]
    meant = nearest(name, named)
    hint = f"did you mean {meant}?" if meant else f"`elastiqctl status` lists nodes and pools; {nor}"
    return Unknown(f"no node, worker or pool is called {name}: {hint}")


def text(found: Mapping[str, Any]) -> str:
    """What was found, for a person."""
    screen = Screen()
    parts: list[Sequence[str]] = []
    if "job" in found:
        parts.append([screen.line(found["standing"])])
    parts.append(told.held_back(screen, found))
    parts.append(told.groups(screen, found.get("groups", ())))
    parts.append(told.nodes(screen, found.get("nodes", ())))
    for pool in found.get("pools", ()):
        head = f"pool {pool['name']} at {pool['site']}"
        parts.append([screen.line(head), *(screen.line(f"  {line}") for line in pool["detail"])])
    parts.append([screen.line(f"{one['worker']}: {one['explanation']}") for one in found.get("workers", ())])
    said = "\n\n".join("\n".join(lines) for lines in parts if lines)
    return said or "no job waits, and no node is other than busy"
