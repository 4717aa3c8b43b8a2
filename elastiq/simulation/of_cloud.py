"""What befalls the cloud's answers and its launches."""

from __future__ import annotations

from typing import Mapping

from elastiq.interfaces import TransientError
from elastiq.simulation.kinds import Kind, raising_after, window
from elastiq.simulation.scenario import Happening
from elastiq.simulation.stage import Stage


def launch_lost(stage: Stage, it: Happening) -> None:
    """Launches take effect, and the answer is an error."""
    window(stage, it, {"launch"}, raising_after(TransientError, "HTTP 504"))


KINDS: Mapping[str, Kind] = {"launch_lost": launch_lost}
