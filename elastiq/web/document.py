"""The page's data, as JSON: what was published, cut to what a person can look at. On the server's threads."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from typing import Any, Callable, Iterable, Mapping

from elastiq.web.feed import Feed, Published
from elastiq.web.trend import series, totals

SCHEMA = 1
NODES, GROUPS, NOTICES, POOLS = 300, 100, 30, 50
POINTS = 360
HOUR_S, DAY_S = 3600, 86_400
RANGES = (HOUR_S, 6 * HOUR_S, DAY_S, 7 * DAY_S, 60 * DAY_S)

# What the page shows of the status; what it does not show, as addresses, is not sent.
_STATUS = "version cluster state at schedules quota sources last_action no_launch no_end no_drain log_failures".split()
_QUEUE = "known complete waiting_jobs running_jobs unmatchable_jobs age_s".split()
_NODE = "id node pool flavour market state since reason joined_at worker jobs condemned explanation".split()
_GROUP = (
    "key sample_job cpus memory_mb disk_mb gpus waiting running waiting_s held launching matchable reason explanation"
).split()
_POOL = "name flavours min_vms max_vms min_idle_vms priority drained counted to_come joined breaker blocked".split()
# The states that want a look come first.
_ORDER = "failed lost requested pending booting draining terminating busy idle stopped".split()


class Documents:
    """The two documents that the page polls. Each is made once of what was published, whoever asks for it."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._lock = threading.RLock()
        self._made: dict[str, tuple[object, Any]] = {}

    def now(self) -> bytes:
        """The status, with how old it is when it is sent."""
        published = self._feed.look()
        age_s = time.monotonic() - published.made
        body = self._once("now", published, lambda: json.dumps(self._now(published))[1:])
        return f'{{"age_s": {age_s:.1f}, {body}'.encode()

    def history(self, span_s: int) -> bytes:
        """The trend of the last so many seconds, which are one of RANGES."""
        published = self._feed.look()
        wall = float(published.status["at"])

        def make() -> bytes:
            found = series(published.rows, self._feed.pace.tiers, wall - span_s, wall, POINTS)
            return json.dumps({"since": wall - span_s, "until": wall, **found}).encode()

        made: bytes = self._once(f"history {span_s}", published.rows, make)
        return made

    def _once(self, name: str, of: object, make: Callable[[], Any]) -> Any:
        with self._lock:
            before, made = self._made.get(name, (None, None))
            if before is not of:
                made = make()
                self._made[name] = (of, made)
            return made

    def _now(self, published: Published) -> dict[str, Any]:
        status, pace = published.status, self._feed.pace
        order = {state: number for number, state in enumerate(_ORDER)}
        nodes = sorted(status["nodes"], key=lambda node: (order.get(node["state"], 0), node["since"], node["id"]))
        groups = sorted(
            (group for group in status["queue"]["groups"] if group["waiting"]),
            key=lambda group: (group["matchable"], -group["waiting"], group["key"]),
        )
        pools = [{**_only(pool, _POOL), "blocked": sorted(set(pool["blocked"].values()))} for pool in status["pools"]]
        since = float(status["at"]) - DAY_S
        return {
            "schema": SCHEMA,
            "speed": pace.speed,
            "began": pace.began,
            "utc_offset_s": time.localtime(status["at"]).tm_gmtoff,
            "status": {
                **_only(status, _STATUS),
                "queue": {**_only(status["queue"], _QUEUE), "groups": _cut(groups, _GROUP, GROUPS)},
                "nodes": _cut(nodes, _NODE, NODES),
                "pools": pools[:POOLS],
                "notices": status["notices"][:NOTICES],
                "last_plan": _only(status["last_plan"], ("at", "summary")),
                "faults": len(status["faults"]),
            },
            "states": dict(Counter(node["state"] for node in nodes)),
            "left_out": {
                "nodes": max(0, len(nodes) - NODES),
                "groups": max(0, len(groups) - GROUPS),
                "pools": max(0, len(pools) - POOLS),
                "notices": max(0, len(status["notices"]) - NOTICES),
            },
            "decisions": list(reversed(published.entries)),
            "cost": published.cost,
            "off": published.off,
            "day": self._once("day", published.rows, lambda: totals(published.rows, pace.tiers, since)),
        }


def _only(what: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    return {key: what[key] for key in keys if key in what}


def _cut(rows: list[Mapping[str, Any]], keys: Iterable[str], most: int) -> list[dict[str, Any]]:
    return [_only(row, keys) for row in rows[:most]]
