"""What befalls the batch system's answers, and its drains."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Mapping

from elastiq.interfaces import DrainAnswer, DrainOutcome, Jobs, Resources, SourceError, Workers
from elastiq.simulation.chaos import Fault, Strike
from elastiq.simulation.kinds import (
    BATCH,
    READS,
    Kind,
    answered_late,
    hanging,
    hanging_after,
    raising,
    raising_after,
    unheard_late,
    window,
)
from elastiq.simulation.scenario import Happening
from elastiq.simulation.stage import Stage

VIEWS = ("jobs", "workers")
DAY_S = 86_400.0


def _reads(fault: Fault) -> Kind:
    return lambda stage, it: window(stage, it, READS, fault)


def _drains(fault: Fault) -> Kind:
    return lambda stage, it: window(stage, it, ("drain",), fault)


def _partial(strike: Strike) -> Any:
    """A part does not answer: what it knows is left out, and it is named."""
    answer = strike.work()
    if isinstance(answer, Jobs):
        rows = tuple(row for row in answer.groups if strike.chance(row.key) < 0.5)
        return replace(answer, groups=rows, missing=("schedd2",))
    kept = tuple(worker for worker in answer.workers if strike.chance(worker.name) < 0.5)
    return replace(answer, workers=kept, missing=("collector2",))


def _empty(strike: Strike) -> Any:
    """A valid answer without anything in it, from a source that has been up for long."""
    return Jobs(()) if isinstance(strike.work(), Jobs) else Workers((), source_up_s=DAY_S)


def _halved(strike: Strike) -> Any:
    """A valid answer that lacks some of what is there and says nothing of it. Always the same ones."""
    answer = strike.work()
    if isinstance(answer, Jobs):
        return answer
    kept = tuple(worker for worker in answer.workers if strike.window.chance(worker.name) >= 0.4)
    return replace(answer, workers=kept)


def batch_late(stage: Stage, it: Happening) -> None:
    """Answers come up to ``late_s`` late; also those of acts."""
    window(stage, it, BATCH, answered_late(it.args["late_s"]))


def _refused(strike: Strike) -> Any:
    return DrainAnswer(DrainOutcome.REFUSED, "not authorized")


def _drain_not_done(strike: Strike) -> Any:
    """Answered as done, with nothing done."""
    return DrainAnswer(DrainOutcome.DRAINED)


def drain_late(stage: Stage, it: Happening) -> None:
    """Drains fail, and take effect up to ``late_s`` later all the same."""
    window(stage, it, ("drain",), unheard_late(stage, SourceError, it.args["late_s"]))


def undrain_fails(stage: Stage, it: Happening) -> None:
    """Returns to service fail without an effect."""
    window(stage, it, ("undrain",), raising(SourceError, "communication error"))


def undrain_unheard(stage: Stage, it: Happening) -> None:
    """Returns to service take effect and are answered with an error."""
    window(stage, it, ("undrain",), raising_after(SourceError, "communication error"))


def slips_in(stage: Stage, it: Happening) -> None:
    """A job of ``length_s`` starts on a worker in the moment before its drain or its machine's end takes effect,
    if the worker takes jobs."""

    def fault(strike: Strike) -> Any:
        named = strike.call.args[0] if strike.call.args else ()
        world = stage.world
        workers = [worker for worker in world.workers.values() if worker.name == named]
        if strike.call.name in ("terminate", "stop"):
            workers = [m.worker for m in world.machines.values() if m.id in named and m.worker is not None]
        for worker in workers:
            free = worker.free()
            if worker.takes_jobs and (free.cpus or 0.0) >= 1.0:
                world.start(world.submit(Resources(cpus=1.0), it.args["length_s"]), worker)
        return strike.work()

    window(stage, it, ("drain", "terminate", "stop"), fault)


def starts_between(stage: Stage, it: Happening) -> None:
    """A job of ``length_s`` starts on a worker right after the read that shows it idle."""

    def fault(strike: Strike) -> Any:
        answer = strike.work()
        world = stage.world
        idle = [worker for worker in world.workers.values() if worker.takes_jobs and not worker.jobs]
        if idle:
            worker = idle[int(strike.chance("who") * len(idle))]
            world.start(world.submit(Resources(cpus=1.0), it.args["length_s"]), worker)
        return answer

    window(stage, it, ("workers", "jobs", "jobs_recorded_on"), fault)


KINDS: Mapping[str, Kind] = {
    "batch_fails": _reads(raising(SourceError, "communication error")),
    "batch_hangs": _reads(hanging),
    "batch_late": batch_late,
    "batch_partial": lambda stage, it: window(stage, it, VIEWS, _partial),
    "batch_empty": lambda stage, it: window(stage, it, VIEWS, _empty),
    "workers_missing": lambda stage, it: window(stage, it, ("workers",), _halved),
    "drain_refused": _drains(_refused),
    "drain_fails": _drains(raising(SourceError, "communication error")),
    "drain_hangs": _drains(hanging),
    "drain_not_done": _drains(_drain_not_done),
    "drain_unheard": _drains(raising_after(SourceError, "communication error")),
    "drain_answered_too_late": _drains(hanging_after),
    "drain_late": drain_late,
    "undrain_fails": undrain_fails,
    "undrain_unheard": undrain_unheard,
    "slips_in": slips_in,
    "starts_between": starts_between,
}
