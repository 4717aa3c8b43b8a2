"""What befalls the queue, the workers and the machines themselves."""

from __future__ import annotations

from typing import Mapping

from elastiq.interfaces import Resources
from elastiq.simulation.kinds import Kind
from elastiq.simulation.model import JobState
from elastiq.simulation.scenario import Happening
from elastiq.simulation.stage import Stage


def jobs(stage: Stage, it: Happening) -> None:
    """A user submits jobs of one shape: ``lengths`` (seconds) has one entry for each. ``held`` ones may be
    released after ``released_after_s``; all that still wait may be removed after ``removed_after_s``.
    ``matches`` false: no worker ever takes one, and no answer says so; ``not_eligible``: it says why."""
    args = it.args
    request = Resources(args.get("cpus"), args.get("memory_mb"), args.get("disk_mb"), args.get("gpus"))
    held, matches = bool(args.get("held")), bool(args.get("matches", True))
    made = [
        stage.world.submit(request, length_s, held, matches, args.get("not_eligible", ""))
        for length_s in args["lengths"]
    ]

    def release() -> None:
        for job in made:
            stage.world.release(job)

    def remove() -> None:
        for job in made:
            if job.state in (JobState.WAITING, JobState.HELD):
                stage.world.remove(job)

    if args.get("released_after_s") is not None:
        stage.events.after(args["released_after_s"], release)
    if args.get("removed_after_s") is not None:
        stage.events.after(args["removed_after_s"], remove)


KINDS: Mapping[str, Kind] = {"jobs": jobs}
