"""How a kind of happening is made: what it is given, and the windows of time that most of them are."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any, Callable, Iterable, Optional

from elastiq.interfaces import SourceError, TransientError
from elastiq.simulation.chaos import Birth, Fault, Strike, Window
from elastiq.simulation.scenario import Happening
from elastiq.simulation.stage import Stage

Kind = Callable[[Stage, Happening], object]

READS = frozenset({"jobs", "workers", "jobs_recorded_on"})
LISTINGS = frozenset({"instances", "find"})
LAUNCHES = frozenset({"launch", "start"})
CLOUD = LISTINGS | LAUNCHES | {"terminate", "stop", "problems", "adopt", "flavours"}
BATCH = READS | {"drain", "undrain", "forget"}


def window(
    stage: Stage, it: Happening, calls: Iterable[str] = (), fault: Optional[Fault] = None, birth: Optional[Birth] = None
) -> Window:
    """Open a window for ``for_s`` seconds. ``share`` of the calls are struck (all by default), or only so many
    ``times``; ``calls`` may name fewer of them; ``site`` one site."""
    taken = frozenset(it.args.get("calls", calls)) & frozenset(calls)
    opened = Window(
        it.kind,
        it.key,
        stage.clock,
        stage.clock.monotonic() + it.args["for_s"],
        taken,
        fault,
        birth,
        it.args.get("share", 1.0),
        it.args.get("site", ""),
        it.args.get("times", math.inf),
    )
    stage.chaos.open(opened)
    return opened


def raising(error: Callable[[str], Exception], text: str) -> Fault:
    """A fault without an effect."""

    def fault(strike: Strike) -> Any:
        raise error(f"{strike.call.name} at {strike.call.source}: {text}")

    return fault


def raising_after(error: Callable[[str], Exception], text: str) -> Fault:
    """A fault whose call takes effect, but nobody hears what it was."""

    def fault(strike: Strike) -> Any:
        strike.work()
        raise error(f"{strike.call.name} at {strike.call.source}: {text}")

    return fault


def hanging(strike: Strike) -> Any:
    """No effect, and no answer: an error when nobody waits for it any more."""
    strike.hang()
    error = TransientError if strike.call.name in LAUNCHES else SourceError
    raise error(f"{strike.call.name} at {strike.call.source}: connection reset")


def hanging_after(strike: Strike) -> Any:
    """As a call that is made, and answered when nobody waits any more."""
    strike.hang()
    return strike.work()


def answered_late(late_s: float) -> Fault:
    """The effect at its time, the answer up to so much later."""

    def fault(strike: Strike) -> Any:
        strike.delay_answer(late_s * strike.chance("late"))
        return strike.work()

    return fault


def unheard_late(stage: Stage, error: Callable[[str], Exception], late_s: float) -> Fault:
    """The answer is an error; the effect comes up to so much later, and nobody hears of it."""

    def fault(strike: Strike) -> Any:
        def work() -> None:
            with suppress(SourceError):
                strike.work()

        stage.events.after(late_s * strike.chance("late"), work)
        raise error(f"{strike.call.name} at {strike.call.source}: read timed out")

    return fault


def later(stage: Stage, it: Happening, undo: Callable[[], object]) -> None:
    """What ends the happening, after its ``for_s``."""
    stage.events.after(it.args["for_s"], undo)
