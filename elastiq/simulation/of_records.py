"""What befalls the records of a batch system that lets only known workers in."""

from __future__ import annotations

from typing import Any, Mapping

from elastiq.interfaces import SourceError
from elastiq.simulation.chance import Dice
from elastiq.simulation.chaos import Fault
from elastiq.simulation.kinds import Kind, answered_late, hanging, hanging_after, raising, raising_after, window
from elastiq.simulation.scenario import Happening
from elastiq.simulation.stage import Stage

CALLS = ("forget", "register", "unregister")
OFTEN = 0.2  # of all scenarios


def _records(fault: Fault) -> Kind:
    return lambda stage, it: window(stage, it, CALLS, fault)


def records_late(stage: Stage, it: Happening) -> None:
    """They take effect, and the answers come up to ``late_s`` late."""
    window(stage, it, CALLS, answered_late(it.args["late_s"]))


KINDS: Mapping[str, Kind] = {
    "records_fail": _records(raising(SourceError, "communication error")),
    "records_unheard": _records(raising_after(SourceError, "communication error")),
    "records_hang": _records(hanging),
    "records_answered_too_late": _records(hanging_after),
    "records_late": records_late,
}


def records(dice: Dice, hours_s: float) -> list[tuple[float, str, dict[str, Any]]]:
    """What befalls them in one scenario."""
    drawn = []
    for _ in range(dice.whole(0, 4)):
        kind = dice.one_of(sorted(KINDS))
        args: dict[str, Any] = {"for_s": round(60.0 * 30.0 ** dice.random(), 1)}
        if kind == "records_late":
            args["late_s"] = round(dice.between(5.0, 120.0), 1)
        if dice.happens(0.5):
            args["calls"] = [dice.one_of(CALLS)]
        if dice.happens(0.5):
            args["share"] = dice.one_of((0.7, 0.4))
        drawn.append((round(hours_s * dice.random(), 1), kind, args))
    return drawn
