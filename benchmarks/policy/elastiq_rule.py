"""elastiq itself on the ground of the others: the real daemon, on its production code path.

Its default is what the example configuration says, for machines of the workload's flavours; the batch system tells when
its queue has changed, as HTCondor does by default.
"""

from __future__ import annotations

import random
import re
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Mapping

from benchmarks.policy.ground import LATENCY, Ground, Workload, ground
from elastiq import config
from elastiq.interfaces import Resources
from elastiq.settings import Settings
from elastiq.simulation.cluster import Cluster

EXAMPLE = Path(__file__).resolve().parents[2] / "elastiq.conf.example"


def settings_of(workload: Workload, changed: Mapping[str, str]) -> Settings:
    """The example file's settings with the workload's machines, and some keys changed, as a file would say it. Raises
    `ConfigError`, or ValueError for a key that the file does not name."""
    loaded = _loaded(tuple(sorted(changed.items())))
    sizes = workload.sizes
    capacity = next(iter(sizes.values())) if len(sizes) == 1 else Resources()  # of several, the catalogue tells
    prices = {name: (size.cpus or 0.0) / workload.cpus for name, size in sizes.items()}
    pool = replace(
        loaded.pools[0], site="simulated", flavours=tuple(sizes), capacity=capacity, prices=prices, markets=("",)
    )
    return replace(loaded, pools=(replace(pool, networks=("",)),), max_vms=workload.max_vms)


@cache
def _loaded(changed: tuple[tuple[str, str], ...]) -> Settings:
    text = EXAMPLE.read_text()
    for key, value in changed:
        text, found = re.subn(rf"(?m)^#?{re.escape(key)} *=.*$", f"{key} = {value}", text, count=1)
        if not found:
            raise ValueError(f"{key}: {EXAMPLE.name} names no such key")
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, EXAMPLE.name)
        path.write_text(text)
        return config.load(path).settings


def parsed(text: str) -> dict[str, str]:
    """Keys and values out of ``key=value key=value``. Raises ValueError for what is none."""
    found = {}
    for part in text.split():
        key, equals, value = part.partition("=")
        if not equals:
            raise ValueError(f"{part!r} is not key=value")
        found[key] = value
    return found


class Elastiq(Cluster):
    """The daemon of a cluster whose world is `Ground`."""

    ends_all = True

    def __init__(self, workload: Workload, seed: int, changed: Mapping[str, str]) -> None:
        rng = random.Random(seed)
        settings = settings_of(workload, changed)
        super().__init__(settings, workload.sizes, rng, latency=LATENCY, leave_out=True, forgetful=True, watches=True)
        self.world: Ground = ground(workload, self.events, self.clock, rng)

    def start(self) -> None:
        """As `Runner.start`."""
        self.start_daemon()
