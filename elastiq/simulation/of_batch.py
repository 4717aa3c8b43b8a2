"""What befalls the batch system's answers."""

from __future__ import annotations

from typing import Mapping

from elastiq.interfaces import SourceError
from elastiq.simulation.kinds import READS, Kind, raising, window
from elastiq.simulation.scenario import Happening
from elastiq.simulation.stage import Stage


def batch_fails(stage: Stage, it: Happening) -> None:
    """Reads fail."""
    window(stage, it, READS, raising(SourceError, "communication error"))


KINDS: Mapping[str, Kind] = {"batch_fails": batch_fails}
