"""Machines that never joined. Imported when there is one.

Each is in the log as it fails; once an hour the log says how many of which pool there were.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, Any, Mapping

from elastiq import refusals

if TYPE_CHECKING:
    from elastiq.core import Core

EVERY_S = 3600.0


def failed(core: Core, pool: str) -> None:
    """Hold back what such a boot concerns, and count it."""
    refusals.boot_failed(core.health, pool, core.now())
    hour = next((one for one in core.listeners if isinstance(one, _Hour)), None)
    if hour is None:
        hour = _Hour(core)
        core.listeners.append(hour)
    hour.failed[pool] += 1


class _Hour:
    """The failed boots of an hour, by pool. It is found among the listeners, and leaves them when it has told."""

    def __init__(self, core: Core) -> None:
        self._core, self.failed = core, Counter[str]()
        core.events.after(EVERY_S, self._tell)

    def __call__(self, event: str, fields: Mapping[str, Any]) -> None:
        """It only counts."""

    def _tell(self) -> None:
        core = self._core
        core.listeners.remove(self)
        for pool, count in sorted(self.failed.items()):
            machines = f"{count} machine{'s' * (count != 1)}"
            text = f"pool {pool}: {machines} launched there did not join in the last hour"
            core.say("failed_boots", text, logging.WARNING, pool=pool, count=count)
