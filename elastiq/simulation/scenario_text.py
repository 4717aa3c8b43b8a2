"""A scenario as a line of JSON, and back: so that one that failed once still is what it was when the drawing of
scenarios has changed."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any, Mapping

from elastiq.interfaces import Pool, Resources
from elastiq.settings import Settings
from elastiq.simulation.executor import Latency
from elastiq.simulation.scenario import Happening, Scenario
from elastiq.simulation.world import Image

_NOT_KEPT = ("options", "batch_options")  # of the plugins; may hold what is secret


def dumps(scenario: Scenario) -> str:
    """On one line."""
    plain = asdict(scenario)
    plain["happenings"] = [[one.at_s, one.kind, dict(one.args), one.key] for one in scenario.happenings]
    for part in (plain["settings"], *plain["settings"]["pools"]):
        for name in _NOT_KEPT:
            part.pop(name, None)
    return json.dumps(plain, separators=(",", ":"))


def loads(text: str) -> Scenario:
    """Of `dumps`. What later versions added has its default; what is no field any more is a TypeError."""
    plain: dict[str, Any] = json.loads(text)
    settings = plain["settings"]
    pools = tuple(Pool(**_tuples({**pool, "capacity": Resources(**pool["capacity"])})) for pool in settings["pools"])
    plain.update(
        settings=Settings(**_tuples({**settings, "pools": pools})),
        flavours={name: Resources(**size) for name, size in plain["flavours"].items()},
        happenings=tuple(Happening(at_s, kind, args, key) for at_s, kind, args, key in plain["happenings"]),
        image=Image(**_tuples(plain["image"])),
        latency=Latency(**plain["latency"]),
    )
    return Scenario(**plain)


def _tuples(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
