"""elastiq itself on the ground of the others: the real daemon, on its production code path.

Its default is what the example configuration says, for machines of the workload's flavours.
"""

from __future__ import annotations

import random
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Mapping

from benchmarks.policy.ground import LATENCY, NEGOTIATION_S, Ground, Workload, image_of
from elastiq import config
from elastiq.interfaces import Pool, Resources
from elastiq.settings import Settings
from elastiq.simulation.cluster import Cluster

EXAMPLE = Path(__file__).resolve().parents[2] / "elastiq.conf.example"
OLD_FILE = {"idle_for_time_s": 3600.0}  # what a file of elastiq 1.0 says, and was the default


def settings_of(workload: Workload, changed: Mapping[str, Any]) -> Settings:
    """The example file's settings with the workload's machines, and some of them changed."""
    sizes = workload.sizes
    capacity = next(iter(sizes.values())) if len(sizes) == 1 else Resources()  # of several, the catalogue tells
    prices = {name: (size.cpus or 0.0) / workload.cpus for name, size in sizes.items()}
    pool = Pool("ec2", "simulated", tuple(sizes), capacity=capacity, prices=prices)
    shipped = config.load(EXAMPLE).settings
    return replace(shipped, pools=(pool,), max_vms=workload.max_vms, **changed)


def parsed(text: str) -> dict[str, Any]:
    """Settings as ``key=value key=value``. Raises ValueError for a key that there is not."""
    kinds = {one.name: one.default for one in fields(Settings)}
    found: dict[str, Any] = {}
    for part in text.split():
        key, equals, value = part.partition("=")
        if not equals or key not in kinds:
            raise ValueError(f"{part!r}: not a setting")
        default = kinds[key]
        if isinstance(default, bool):
            found[key] = value in ("yes", "true", "1", "on")
        elif isinstance(default, (int, float)):
            found[key] = _number(value, type(default))
        else:
            found[key] = value
    return found


def _number(value: str, kind: type) -> Any:
    try:
        return kind(float(value))
    except ValueError:
        return value  # a word that stands for a number, as "auto"


class Elastiq(Cluster):
    """The daemon of a cluster whose world is `Ground`."""

    ends_all = True

    def __init__(self, workload: Workload, seed: int, changed: Mapping[str, Any]) -> None:
        rng = random.Random(seed)
        settings = settings_of(workload, changed)
        super().__init__(settings, workload.sizes, rng, latency=LATENCY, leave_out=True)
        self.world: Ground = Ground(self.events, self.clock, rng, workload.sizes, image_of(workload))
        self.world.negotiate_every_s = NEGOTIATION_S
        self.world.catalogue = True

    def start(self) -> None:
        """As `Runner.start`."""
        self.start_daemon()
