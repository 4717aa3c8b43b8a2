"""Launches that failed. What one of unknown outcome made is sought; it is never sent again.

Imported when there is one.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from elastiq.core import Core
from elastiq.executor import Outcome, UnsentError
from elastiq.interfaces import Instance, Intent, LaunchError, Offer
from elastiq.observations import STALE_PERIODS, Watch
from elastiq.refusals import refused

if TYPE_CHECKING:
    from elastiq.launching import Launching


def take_up(launching: Launching, intent: Intent) -> None:
    """An intent of an earlier run."""
    core = launching.core
    nodes = core.registry.requested(intent.id)
    if nodes:
        launching.open[intent.id] = OpenIntent(launching, intent, nodes[0].site, core.now())
        text = f"the outcome of launch {intent.id} is not known: looking for its instances"
        core.say("launch_unknown", text, logging.WARNING, intent=intent.id, pool=intent.offer.pool, reason="")
    else:
        launching.close(intent)


def failed(launching: Launching, intent: Intent, site: str, error: BaseException, ended: float) -> None:
    """Hold back what was refused, and give up the launch if surely nothing was made. ``ended`` is monotonic."""
    core, subject = launching.core, f"launching from {intent.offer}"
    text = core.explain(error)
    core.count("launch_errors")
    core.health.times["failure"] = core.now()
    scope = refused(core.health, intent.offer, site, error, core.now())
    core.tell(subject, f"{text} ({scope} is held back)", logging.ERROR)
    core.events.after(core.health.blocks[scope].wait_s, partial(_block_over, core, subject, intent.offer, site))
    if isinstance(error, UnsentError) or (isinstance(error, LaunchError) and error.launched_nothing):
        launching.drop_rest(intent, text)
    else:
        launching.open[intent.id] = OpenIntent(launching, intent, site, ended)
        told = f"launch {intent.id}: {text}: its outcome is unknown, looking for instances"
        core.say("launch_unknown", told, logging.WARNING, intent=intent.id, pool=intent.offer.pool, reason=text)


def _block_over(core: Core, subject: str, offer: Offer, site: str) -> None:
    """Nothing is known of it any more, unless it was refused once more: the next launch there is the probe."""
    if not core.health.blocked(offer, site, core.now()):
        core.notices.pop(subject, None)


@dataclass
class OpenIntent:
    """A launch of unknown outcome: it counts in full until this much of good reads showed nothing of it."""

    launching: Launching
    intent: Intent
    site: str
    ended: float  # monotonic: reads begun before prove nothing
    watch: Watch = field(default_factory=Watch)
    good_s: float = 0.0

    def listing(self, began: float, good: bool) -> None:
        """A listing that began then came back."""
        core = self.launching.core
        cloud = core.clouds.get(self.site)
        longest_s = STALE_PERIODS * core.settings.check_vms_every_s + (cloud.call_deadline_s if cloud else 0.0)
        self.good_s += self.watch.passed_s(began, good and began > self.ended, longest_s)
        if cloud is None or not cloud.capabilities.find or not core.registry.requested(self.intent.id):
            self._judge()

    def seek(self) -> None:
        """Ask the site for it, where the cloud can be asked; it is at the end of the queue then."""
        core, intent, waiting = self.launching.core, self.intent, self.launching.open
        cloud = core.clouds[self.site]
        if cloud.capabilities.find:
            waiting[intent.id] = waiting.pop(intent.id)
            core.read(f"find {self.site}", cloud, partial(cloud.find, intent), self._found)

    def _found(self, outcome: Outcome[tuple[Instance, ...]]) -> None:
        if self.launching.core.failed(f"find {self.intent.id}", "seeking a launch", outcome):
            return
        if self.launching.made(self.intent, outcome.value or ()):
            text, pool = f"launch {self.intent.id} had made instances: adopted", self.intent.offer.pool
            self.launching.core.say("launch_found", text, intent=self.intent.id, pool=pool)
        self._judge()

    def _judge(self) -> None:
        """Close an intent whose machines are all known; give up what good reads have not shown for long."""
        core, launching = self.launching.core, self.launching
        if not core.registry.requested(self.intent.id):
            core.persist()
            launching.close(self.intent)
        elif self.watch.last_good is not None and self.good_s >= core.settings.intent_settle_s:
            why = f"nothing of the launch was seen in {self.good_s:.0f} s of complete reads"
            launching.drop_rest(self.intent, why)
            launching.replan()
