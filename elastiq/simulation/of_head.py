"""What befalls the daemon, its disk and its head node."""

from __future__ import annotations

from typing import Mapping

from elastiq.simulation.kinds import Kind
from elastiq.simulation.scenario import Happening
from elastiq.simulation.stage import Stage


def kill(stage: Stage, it: Happening) -> None:
    """The daemon is killed at its ``number``th operation from now whose name begins with ``at`` ("" for any), at
    the latest after ``for_s``, and started again ``down_s`` later; ``lost``: requests on their way are, too."""
    args = it.args
    stage.arm(args.get("at", ""), args["number"], args["down_s"], args["for_s"], bool(args.get("lost")))


KINDS: Mapping[str, Kind] = {"kill": kill}
