"""elastiqctl plan: what one look at everything would make the daemon do, for a person and for programs."""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any, Iterable, Mapping, Optional, Sequence

from elastiq import command, status
from elastiq.cli import once, told, view
from elastiq.cli.table import Screen
from elastiq.errors import SourceError, StoreError
from elastiq.identity import IdentityError
from elastiq.inifile import ConfigError
from elastiq.paths import Paths
from elastiq.planner import Launch, Step
from elastiq.settings import Settings
from elastiq.telling import local

SCHEMA = 1
FAILED, NO_ANSWER, CONFIG = 1, 4, 78
ASSUMED = "not known from one look: all jobs are taken to have waited for waiting_jobs_time_s"


def run(
    settings: Settings, paths: Paths, running: Optional[Mapping[str, Any]], pid: Optional[int], as_json: bool
) -> int:
    """Look, plan and print; returns the exit code. ``running`` is the status of the elastiq that runs."""
    try:
        made = look(settings, paths, running, pid)
    except (ConfigError, SourceError, StoreError, IdentityError) as error:
        for line in str(error).splitlines():
            print(f"elastiqctl: {line}", file=sys.stderr)
        return CONFIG if isinstance(error, (ConfigError, SourceError)) else FAILED
    print(json.dumps(made, indent=2) if as_json else text(made))
    return 0 if known(made) else NO_ANSWER


def look(
    settings: Settings, paths: Paths, running: Optional[Mapping[str, Any]], pid: Optional[int]
) -> dict[str, Any]:
    """Observe and plan once; the object that `--json` prints (docs/status.md). Raises what `once.observe` does."""
    logging.getLogger().addHandler(logging.NullHandler())  # what is worth a person's while is in the notices
    try:
        seen = once.observe(settings, paths, running)
    except KeyboardInterrupt:
        command.kill_all()
        raise
    core, shown = seen.daemon.core, status.snapshot(seen.daemon)
    notices = [*shown["notices"], *_notices(settings, shown, running)]
    notices += [f"fault of elastiq itself, please report it: {fault}" for fault in core.faults]
    return {
        "schema": SCHEMA,
        **{key: shown[key] for key in ("version", "cluster", "head", "at")},
        "pid": pid,
        "state_file": str(core.store.path) if getattr(core.store, "found", False) else None,
        "waiting_times": "assumed" if running is None else "daemon",
        "summary": seen.plan.summary,
        "launch": [_launch(order) for order in seen.plan.launches],
        "drain": _steps(seen.plan.drains),
        "return": _steps(seen.plan.returns),
        "terminate": _steps(seen.terminations),
        "groups": shown["queue"]["groups"],
        "nodes": shown["nodes"],
        "pools": shown["pools"],
        "sources": shown["sources"],
        **{key: shown[key] for key in ("no_launch", "no_end", "no_drain")},
        "notices": notices,
    }


def _launch(order: Launch) -> dict[str, Any]:
    return {"offer": str(order.offer), **vars(order.offer), "count": order.count, "reason": order.reason}


def _steps(steps: Sequence[Step]) -> list[dict[str, Any]]:
    return [
        {"node": step.node.name, **{key: getattr(step.node, key) for key in ("worker", "pool", "flavour")},
         "reason": step.reason}
        for step in steps
    ]  # fmt: skip


def _notices(settings: Settings, shown: Mapping[str, Any], running: Optional[Mapping[str, Any]]) -> Iterable[str]:
    """Why what is planned may not be what happens."""
    if running is not None:
        for key, what in (("cluster", "cluster"), ("head", "head")):
            if running[key] != shown[key]:
                mine = f"of {what} {running[key]}, this plan is for {shown[key]}"
                yield f"the elastiq that runs is {mine}: it knows nothing of what is planned here"
        for key, what in (("no_launch", "launches nothing"), ("no_drain", "drains no idle node")):
            if running.get(key):
                yield f"the elastiq that runs {what} now: {running[key]}"
    for key in ("dry_run_boot_vms", "dry_run_shutdown_vms"):
        if getattr(settings, key):
            yield f"{key} is set: elastiq only logs it"
    for key in ("launch", "terminate"):
        if not getattr(settings, key):
            yield f"{key} = no: elastiq only logs it"


def known(plan: Mapping[str, Any]) -> bool:
    """Whether every source answered."""
    return all(source["known"] for source in plan["sources"])


def text(plan: Mapping[str, Any]) -> str:
    """The plan for a person."""
    screen = Screen()
    acts = [
        *(f"{_verb(one)} {one['count']} of {one['offer']}: {one['reason']}" for one in plan["launch"]),
        *(f"drain {_node(one)}: {one['reason']}" for one in plan["drain"]),
        *(f"return {_node(one)}: {one['reason']}" for one in plan["return"]),
        *(f"terminate {_node(one)}: {one['reason']}" for one in plan["terminate"]),
    ]
    parts = [
        [*_head(plan), *(screen.line(f"! {notice}", "warn") for notice in plan["notices"])],
        [screen.line(line) for line in acts or [plan["summary"]]],
        told.held_back(screen, plan),
        told.groups(screen, plan["groups"]),
        [] if known(plan) else view.sources(screen, plan["sources"], " ".join(plan["notices"])),
    ]
    return "\n\n".join("\n".join(lines) for lines in parts if lines)


def _head(plan: Mapping[str, Any]) -> list[str]:
    at = local(plan["at"], time.time())
    waiting = ASSUMED if plan["waiting_times"] == "assumed" else f"as elastiq (pid {plan['pid']}) has seen them"
    return [
        f"plan of elastiq {plan['version']} for cluster {plan['cluster']} by one look at {at}; nothing of it was done",
        f"state: {'as in ' + plan['state_file'] if plan['state_file'] else 'none yet'}",
        f"waiting times: {waiting}",
    ]


def _verb(one: Mapping[str, Any]) -> str:
    return "start" if one["market"] == "stopped" else "launch"


def _node(one: Mapping[str, Any]) -> str:
    more = ", ".join(filter(None, (one["worker"], told.place(one))))
    return f"{one['node']} ({more})" if more else str(one["node"])
