"""What people command by elastiqctl: pause, scale, drain, undrain, terminate. They see what there is, think for a
while, and are refused at times.

What they ordered is kept for the checker: `elastiq.simulation.orders`.
"""

from __future__ import annotations

import math
from concurrent.futures import Future
from functools import partial
from typing import Any, Callable, Mapping, Optional

from elastiq.commanding import carry_out
from elastiq.core import Core
from elastiq.protocol import Refused
from elastiq.settings import Settings
from elastiq.simulation.chance import Dice
from elastiq.simulation.kinds import Kind, later
from elastiq.simulation.menu import HOUR_S, Args, Dish, span
from elastiq.simulation.model import Machine
from elastiq.simulation.scenario import Happening
from elastiq.simulation.stage import Stage

AGAIN_S = 20.0  # after a command that could not be given
Drawn = tuple[float, str, Args]


def command(stage: Stage, verb: str, args: Mapping[str, Any]) -> Any:
    """Its answer, or a future of it; None where nobody listens, or it is refused."""
    if stage.daemon is None or stage.asleep:
        return None
    try:
        return carry_out(stage.daemon, verb, args)
    except Refused:
        return None


def _undo(stage: Stage, verb: str, args: Mapping[str, Any], due: Callable[[Core], object]) -> None:
    """Give a command as long as it is due, once somebody listens."""
    if stage.core is not None and not due(stage.core):
        return
    if command(stage, verb, args) is None:
        stage.events.after(AGAIN_S, partial(_undo, stage, verb, args, due))


# --------------------------------------------------------------------------- the whole cluster


def paused(stage: Stage, it: Happening) -> None:
    """For ``for_s`` a person lets elastiq do none of ``acts`` ("launch", "terminate")."""
    acts = dict.fromkeys(it.args["acts"], True)
    # First: the daemon may be killed while it carries it out.
    later(stage, it, partial(_undo, stage, "resume", acts, lambda core: core.paused.keys() & acts))
    command(stage, "pause", {**acts, "reason": "the person's own"})


def scaled(stage: Stage, it: Happening) -> None:
    """For ``for_s`` a person holds the cluster, or one of its pools, at a ``share`` of its largest size."""
    settings, name = stage.settings, it.args.get("pool", "")
    pool = settings.pool(name)
    most = (pool.max_vms if pool is not None else None) or settings.max_vms or 3
    later(stage, it, partial(_undo, stage, "scale", {"vms": None, "pool": name}, lambda core: name in core.scaled))
    command(stage, "scale", {"vms": math.floor(it.args["share"] * most), "pool": name})


# --------------------------------------------------------------------------- one machine


def drained_by_hand(stage: Stage, it: Happening) -> None:
    """A person drains one of the machines: ``which``, from the oldest (0) to the youngest (towards 1)."""
    machine = stage.machine(it.args["which"])
    if machine is not None:
        known = machine.id in stage.orders.out
        if _give(stage, "drain", machine, {"reason": "the person's own"}) is None and not known:
            stage.orders.out.discard(machine.id)


def undrained_by_hand(stage: Stage, it: Happening) -> None:
    """A person returns the ``which`` of all that were drained so."""
    there = [name for name in sorted(stage.orders.out) if name in stage.world.machines]
    if there:
        name = there[int(it.args["which"] * len(there))]
        if command(stage, "undrain", {"node": name}) is not None:
            stage.orders.out.discard(name)


def ended_by_hand(stage: Stage, it: Happening) -> None:
    """A person ends one of the machines, if no job runs there."""
    machine = stage.machine(it.args["which"])
    if machine is not None:
        known = machine.id in stage.orders.out
        answer = _give(stage, "terminate", machine, {})
        refused = answer is None or isinstance(answer, Future)  # the latter names the jobs
        if refused and not known:
            stage.orders.out.discard(machine.id)


def ended_by_force(stage: Stage, it: Happening) -> None:
    """A person looks which jobs run on one of the machines, thinks for ``think_s``, and ends it with them; ``any``:
    whichever they are by then."""
    machine = stage.machine(it.args["which"])
    looked = command(stage, "terminate", {"node": machine.id, "look": True}) if machine is not None else None

    def think(answer: Future[Any]) -> None:
        if answer.exception() is None and machine is not None:
            stage.events.after(it.args["think_s"], partial(_force, stage, it, machine, answer.result()))

    if isinstance(looked, Future):
        looked.add_done_callback(think)


def _force(stage: Stage, it: Happening, machine: Machine, seen: Mapping[str, Any]) -> None:
    orders = stage.orders
    before = machine.id in orders.out, orders.doomed.get(machine.id, ())
    names = None if it.args.get("any") or not seen["known"] else frozenset(seen["named"])
    orders.doomed[machine.id] = names

    def taken_back(answer: Optional[Future[Any]]) -> None:
        if answer is not None and answer.exception() is None:
            return
        if not before[0]:
            orders.out.discard(machine.id)
        if before[1] == ():
            orders.doomed.pop(machine.id, None)

    jobs = None if names is None else sorted(names)
    answer = _give(stage, "terminate", machine, {"force": True, "jobs": jobs})
    if isinstance(answer, Future):
        answer.add_done_callback(taken_back)
    else:
        taken_back(None)


def _give(stage: Stage, verb: str, machine: Machine, args: Mapping[str, Any]) -> Any:
    stage.orders.out.add(machine.id)  # first: the daemon may be killed while it carries it out
    return command(stage, verb, {"node": machine.id, **args})


KINDS: Mapping[str, Kind] = {
    "paused": paused,
    "scaled": scaled,
    "drained_by_hand": drained_by_hand,
    "undrained_by_hand": undrained_by_hand,
    "ended_by_hand": ended_by_hand,
    "ended_by_force": ended_by_force,
}

# --------------------------------------------------------------------------- how they are drawn


def _which(dice: Dice, s: Settings) -> Args:
    return {"which": round(dice.random(), 3)}


def _paused(dice: Dice, s: Settings) -> Args:
    acts = dice.one_of((["launch"], ["terminate"], ["launch", "terminate"]))
    return {"acts": acts, "for_s": span(dice, 60.0, HOUR_S)}


def _scaled(dice: Dice, s: Settings) -> Args:
    drawn: Args = {"share": dice.one_of((0.0, 0.3, 0.6, 1.0)), "for_s": span(dice, 300.0, HOUR_S)}
    return {**drawn, "pool": dice.one_of(s.pools).name} if dice.happens(0.4) else drawn


def _forced(dice: Dice, s: Settings) -> Args:
    drawn = {**_which(dice, s), "think_s": span(dice, 1.0, 120.0)}
    return {**drawn, "any": True} if dice.happens(0.3) else drawn


DISHES: Mapping[str, Dish] = {
    "paused": Dish(2, _paused),
    "scaled": Dish(2, _scaled, 3),
    "drained_by_hand": Dish(4, _which),
    "undrained_by_hand": Dish(2, _which),
    "ended_by_hand": Dish(4, _which),
    "ended_by_force": Dish(3, _forced),
}
OFTEN = 0.15  # of all scenarios


def people(dice: Dice, settings: Settings, hours_s: float) -> list[Drawn]:
    """What they do in one scenario: often nothing."""
    if not dice.happens(OFTEN):
        return []
    bag = [kind for kind, dish in DISHES.items() for _ in range(int(dish.weight))]
    kinds = [dice.one_of(bag) for _ in range(dice.whole(1, 3))]
    drawn = []
    for _ in range(dice.whole(1, 8)):
        kind = dice.one_of(kinds)
        drawn.append((round(hours_s * dice.random(), 1), kind, DISHES[kind].args(dice, settings)))
    return drawn
