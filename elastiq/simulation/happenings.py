"""What may befall a simulated cluster, by kind: functions of the stage and of one happening with its arguments.

Which kinds there are, and what each takes, is told in the six modules that define them.
"""

from __future__ import annotations

from typing import Mapping

from elastiq.simulation import of_batch, of_cloud, of_head, of_people, of_records, of_world
from elastiq.simulation.kinds import Kind
from elastiq.simulation.scenario import Happening
from elastiq.simulation.stage import Stage

KINDS: Mapping[str, Kind] = {
    **of_world.KINDS,
    **of_batch.KINDS,
    **of_cloud.KINDS,
    **of_head.KINDS,
    **of_people.KINDS,
    **of_records.KINDS,
}


def apply(stage: Stage, happening: Happening) -> None:
    """Let it happen now. An unknown kind is a KeyError."""
    stage.on_happening(happening)
    KINDS[happening.kind](stage, happening)
