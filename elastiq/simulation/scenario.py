"""What is to happen to a simulated cluster, as plain values: one whole number makes a whole scenario."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any, Mapping

from elastiq.interfaces import Resources
from elastiq.settings import Settings
from elastiq.simulation.executor import Latency
from elastiq.simulation.world import Image

# The arguments that say how long a happening acts: they add up, or run at once.
LENGTHS = ("for_s", "down_s", "late_s", "lag_s", "stay_s", "back_s", "ahead_s", "think_s")
DELAYS = ("released_after_s", "removed_after_s")


@dataclass(frozen=True)
class Happening:
    """One thing that befalls the cluster from outside, now or for a while.

    It stands for itself: whatever else is left out of a scenario, it draws the same chances, by its ``key``.
    """

    at_s: float  # since the start
    kind: str  # of `elastiq.simulation.happenings.KINDS`
    args: Mapping[str, Any] = field(default_factory=dict)  # JSON
    key: str = ""  # of its chances

    @property
    def ends_s(self) -> float:
        """When it acts no more by itself, since the start."""
        length_s = sum(float(self.args.get(name, 0.0)) for name in LENGTHS)
        return self.at_s + length_s + max(float(self.args.get(name, 0.0)) for name in DELAYS)

    def __str__(self) -> str:
        hours, rest = divmod(self.at_s, 3600.0)
        said = " ".join(f"{name}={_short(value)}" for name, value in self.args.items())
        return f"{hours:.0f}:{rest // 60:02.0f}:{rest % 60:04.1f} {self.kind} {said}".rstrip()


def _short(value: Any) -> str:
    text = f"{value:g}" if isinstance(value, float) else value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 60 else f"{text[:50]}...({len(value)})"


@dataclass(frozen=True)
class Scenario:
    """All that `elastiq.simulation.stage.Stage` needs. Leave out any happenings: the rest happens alike."""

    seed: int
    settings: Settings
    flavours: Mapping[str, Resources]  # more than the settings name: later ones may be named by a change
    happenings: tuple[Happening, ...] = ()  # in the order of time
    calm_at_s: float = 0.0  # nothing from outside acts after this, but jobs that run or wait
    profile: str = "mixed"
    image: Image = field(default_factory=Image)
    latency: Latency = Latency()  # noqa: RUF009 - immutable
    lease_s: float = 2400.0
    negotiate_every_s: float = 20.0
    limits: Mapping[str, int] = field(default_factory=dict)  # machines of a flavour that the cloud has
    can_drain: bool = True
    catalogue: bool = False  # the cloud tells what its flavours have
    registers: bool = False  # the batch system lets only workers in that were made known to it
    can_find: bool = True  # the cloud finds what a launch made; else listings show it

    def without(self, dropped: frozenset[int]) -> Scenario:
        """The scenario without the happenings at these places."""
        kept = tuple(one for place, one in enumerate(self.happenings) if place not in dropped)
        return replace(self, happenings=kept)


def generate(seed: int, profile: str = "mixed") -> Scenario:
    """The scenario of a seed. ``profile``: see `elastiq.simulation.drawing.PROFILES`."""
    from elastiq.simulation import drawing

    return drawing.draw(seed, profile)
