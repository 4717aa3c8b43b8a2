"""Scenarios drawn from a seed."""

from __future__ import annotations

from elastiq.interfaces import Pool, Resources
from elastiq.settings import Settings
from elastiq.simulation.chance import Dice
from elastiq.simulation.scenario import Happening, Scenario

FLAVOURS = {"medium": Resources(cpus=4, memory_mb=8192), "large": Resources(cpus=16, memory_mb=65536)}
HOUR_S = 3600.0


def draw(seed: int, profile: str = "mixed") -> Scenario:
    """All of a scenario."""
    dice = Dice(seed, profile)
    pool = Pool("ec2", "aws", ("medium",), capacity=FLAVOURS["medium"])
    settings = Settings("sim", (pool,), waiting_jobs_time_s=0.0, idle_for_time_s=600.0, max_vms=dice.whole(3, 20))
    lengths = [round(dice.between(30, 1200), 1) for _ in range(dice.whole(10, 60))]
    happenings = [
        Happening(dice.between(0, 600), "jobs", {"cpus": 1.0, "memory_mb": 1000.0, "lengths": lengths}, f"{seed}.0"),
        Happening(30.0, "batch_fails", {"for_s": 600.0, "share": 0.5}, f"{seed}.1"),
        Happening(60.0, "launch_lost", {"for_s": 600.0, "share": 0.5}, f"{seed}.2"),
        Happening(90.0, "kill", {"at": "launch", "number": 2, "for_s": 600.0, "down_s": 60.0}, f"{seed}.3"),
    ]
    happenings.sort(key=lambda one: one.at_s)
    calm = max(one.ends_s for one in happenings)
    return Scenario(seed, settings, FLAVOURS, tuple(happenings), calm, profile)
