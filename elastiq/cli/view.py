"""elastiqctl status for a person: one screen, made of the keys of docs/status.md."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any, Mapping

from elastiq.cli.table import Screen, duration
from elastiq.wording import counted

Status = Mapping[str, Any]

# In the order in which they matter to one who looks.
STATES = {
    "failed": "bad",
    "lost": "bad",
    "busy": "good",
    "idle": "good",
    "draining": "warn",
    "terminating": "warn",
    "stopped": "",
    "booting": "",
    "pending": "",
    "requested": "",
}
LOG_LOST = "log: could not be written {}: is its disk full, its pipe not read? (elastiqctl reload counts anew)"
HANGING_S = 60.0  # it publishes every few seconds


def text(status: Status, pid: int, heartbeat_age_s: float) -> str:
    """The whole screen. ``heartbeat_age_s`` is for how long the decision loop has been silent."""
    screen, now = Screen(), time.time()
    parts = [
        _head(screen, status, pid, heartbeat_age_s),
        _queue(screen, status["queue"]),
        _nodes(screen, status, now),
        [*_limits(screen, status["quota"]["limits"]), *_pools(screen, status["pools"])],
        _plan(screen, status, now),
        sources(screen, status["sources"], " ".join(status["notices"])),
    ]
    return "\n\n".join("\n".join(lines) for lines in parts if lines)


def _head(screen: Screen, status: Status, pid: int, silent_s: float) -> list[str]:
    style = {"active": "good", "dry-run": "warn", "paused": "warn"}.get(status["state"], "")
    state = screen.paint(status["state"], style)
    lines = [f"elastiq {status['version']}, cluster {status['cluster']}: {state} (pid {pid})"]
    if silent_s > HANGING_S:
        lines.append(
            screen.line(f"! the decision loop has been silent for {duration(silent_s)}: it hangs", "bad")
        )
    if status.get("schedules"):
        lines.append(screen.line(f"schedules in force: {', '.join(status['schedules'])}"))
    return lines + [screen.line(f"! {notice}", "warn") for notice in notices_of(status)]


def notices_of(status: Status) -> list[str]:
    """What a person should know, also of a log that loses records: it is no notice of the daemon's, which would have
    to log it."""
    lost = status.get("log_failures")
    return [*status["notices"], *([LOG_LOST.format(counted(lost, "time"))] if lost else [])]


def running(queue: Status) -> str:
    """How many jobs run, as far as the batch system says it."""
    untold = any(group.get("running", 0) is None for group in queue["groups"])
    return "running ones not told" if untold else f"{queue['running_jobs']} running"


def _queue(screen: Screen, queue: Status) -> list[str]:
    if queue["age_s"] is None:
        return [screen.line("jobs: not known yet")]
    read = f"read {duration(queue['age_s'])} ago"
    known = "" if queue["known"] else ", now unknown"
    if queue["known"] and not queue["complete"]:
        known = ", a part did not answer"
    unmatchable = f" ({queue['unmatchable_jobs']} of them unmatchable)" if queue["unmatchable_jobs"] else ""
    counts = f"{queue['waiting_jobs']} waiting{unmatchable}, {running(queue)}"
    lines = [screen.line(f"jobs: {counts}; {read}{known}")]
    groups = sorted(
        (g for g in queue["groups"] if g["waiting"]), key=lambda g: (g["matchable"], -g["waiting"])
    )
    rows = [
        [
            *(str(g[key] or "") for key in ("waiting", "held", "launching")),
            duration(g["waiting_s"]),
            request(g),
            g["sample_job"] or "",
            g.get("explanation") or g["reason"],
        ]
        for g in groups
    ]
    styles = ["" if g["matchable"] else "bad" for g in groups]
    head = ("WAITING", "HELD", "LAUNCHING", "FOR", "EACH ASKS", "EXAMPLE", "WHAT BECOMES OF THEM")
    return lines + (screen.table(head, rows, styles, spare="EXAMPLE FOR") if rows else [])


def request(group: Status) -> str:
    """What each job of a group asks for; a daemon of before did not say of several parts."""
    asked = (("cpus", "cpu"), ("memory_mb", "MB"), ("gpus", "gpu"))
    size = ", ".join(counted(group[key], unit) for key, unit in asked if group[key]) or "not said"
    parts, apart = group.get("nodes", 1), group.get("apart", False)
    if parts > 1:
        return f"{parts} {'machines with' if apart else 'times'} {size}, at once"
    return f"{size}, alone on a machine" if apart else size


def _nodes(screen: Screen, status: Status, now: float) -> list[str]:
    quota, nodes = status["quota"], status["nodes"]
    count = Counter(node["state"] for node in nodes)
    order = [*STATES, *sorted(set(count) - set(STATES))]
    states = ", ".join(f"{count[state]} {state}" for state in order if count[state])
    most = "unlimited" if quota["max_vms"] is None else quota["max_vms"]
    counts = f"quota: {_count(quota)}, min_vms {quota['min_vms']}, max_vms {most}"
    lines = [screen.line(f"nodes: {len(nodes)}{f' ({states})' if states else ''}; {counts}"), *_above(screen, quota)]
    nodes = sorted(nodes, key=lambda node: (order.index(node["state"]), node["since"], node["id"]))
    rows = [
        [
            node["id"],
            node["state"],
            duration(now - node["since"]),
            str(node["jobs"] or ""),
            node["worker"] or "",
            "/".join(filter(None, (node["pool"], node["flavour"]))),
            _reason(node),
        ]
        for node in nodes
    ]
    head = ("NODE", "STATE", "FOR", "JOBS", "WORKER", "POOL", "REASON")
    styles = [STATES.get(node["state"], "") for node in nodes]
    return lines + (screen.table(head, rows, styles, spare="POOL WORKER") if rows else [])


def _reason(node: Status) -> str:
    """Of its state, and what a person has ordered that is not begun yet."""
    ordered = node.get("ordered") or ""
    return str(node["reason"]) + (f"; goes: {ordered}" if ordered and ordered not in node["reason"] else "")


def _count(limited: Status) -> str:
    return f"{limited['counted']} {'counts' if limited['counted'] == 1 else 'count'}"


def _above(screen: Screen, limited: Status) -> list[str]:
    """More than the limit of the cluster or of a pool: it was lowered, or machines were found again."""
    if limited["max_vms"] is None or limited["counted"] <= limited["max_vms"]:
        return []
    text = f"! above max_vms: {_count(limited)}, {limited['max_vms']} may; none is launched until fewer do"
    return [screen.line(text, "warn")]


def _limits(screen: Screen, limits: list[Status]) -> list[str]:
    """The hard stops of launches and cost that are set, and how near they are."""
    if not limits:
        return []
    said = [f"{one['limit']}: {one['used']:.4g} {one['counts']}, {max(0, one['left']):.4g} left" for one in limits]
    # What is left must pay for one more machine; sums of prices are a little off.
    reached = [one["limit"] for one in limits if one["left"] + 1e-9 < one.get("least", 1.0)]
    lines = [screen.line(f"limits: {'; '.join(said)}")]
    if reached:
        lines.append(screen.line(f"! reached, nothing is launched: {', '.join(reached)}", "warn"))
    return lines


def _pools(screen: Screen, pools: list[Status]) -> list[str]:
    """What cannot grow, and why; all of them where there are several."""
    lines = []
    for pool in pools:
        trouble = [f"breaker: {pool['breaker']}"] if pool["breaker"] else []
        # Of what a block holds back, it says itself; one of a pool or a site holds back all of its offers.
        trouble += [f"block: {why}" for why in dict.fromkeys(pool["blocked"].values())]
        above = _above(screen, pool)
        if pool["drained"]:
            trouble.insert(0, f"out of service, until elastiqctl undrain-pool {pool['name']}")
        if len(pools) > 1 or trouble or above:
            most = "" if pool["max_vms"] is None else f" of at most {pool['max_vms']}"
            terms = "".join(f", {key} {pool[key]:g}" for key in ("min_vms", "min_idle_vms", "priority") if pool[key])
            lines.append(screen.line(f"pool {pool['name']}: {_count(pool)}{most}{terms}"))
        lines += ["  " + line for line in above]
        lines += [screen.line(f"  ! {line}", "warn") for line in trouble]
    return lines


def _plan(screen: Screen, status: Status, now: float) -> list[str]:
    """The last decision, and the last one that was more than to do nothing."""
    plan, action = status["last_plan"], status["last_action"]
    if plan["at"] is None:
        return ["last decision: none yet"]
    lines = [f"last decision, {duration(now - plan['at'])} ago: {plan['summary']}"]
    if action["at"] is not None and action["at"] != plan["at"]:
        lines.append(f"last action, {duration(now - action['at'])} ago: {action['summary']}")
    return [screen.line(line) for line in lines]


def sources(screen: Screen, sources: list[Status], said: str) -> list[str]:
    """What is read; ``said`` is what the notices have said already."""
    rows, styles = [], []
    for source in sources:
        error = source["error"] or source.get("why_unsettled") or ""
        error = "see above" if error and error in said else error
        age = "never" if source["age_s"] is None else f"{duration(source['age_s'])} ago"
        rows.append([source["name"], age, "known" if source["known"] else "unknown", error])
        styles.append("" if source["known"] else "bad")
    return screen.table(("SOURCE", "READ", "IS", "TROUBLE"), rows, styles)
