"""A drain in two steps, for systems that have no "drain, but only if it is idle"."""

from __future__ import annotations

from typing import Callable

from elastiq.errors import SourceError
from elastiq.interfaces import DrainAnswer, DrainMode, DrainOutcome

BUSY = DrainAnswer(DrainOutcome.BUSY, "a job runs there")


def drain(
    mode: DrainMode, jobs_there: Callable[[], int], close: Callable[[], None], reopen: Callable[[], None]
) -> DrainAnswer:
    """Keep new jobs off (``close``), then look whether one slipped in, and if so let it have its machine (``reopen``).

    ``jobs_there`` reads anew how many jobs are there, those being started and being ended too. ``close`` ends no job.
    A `SourceError` of theirs passes; where the second look fails, the worker is opened again first if it can be.
    """
    if mode is DrainMode.PEACEFUL:
        close()
        return DrainAnswer(DrainOutcome.DRAINED)
    if jobs_there():
        return BUSY
    close()
    try:
        slipped_in = jobs_there()
    except SourceError as error:
        try:
            reopen()
        except SourceError as again:
            raise SourceError(f"{error}; it could not be opened again either: {again}") from None
        raise
    if not slipped_in:
        return DrainAnswer(DrainOutcome.DRAINED)
    reopen()
    return BUSY
