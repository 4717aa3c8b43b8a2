"""Launches: journalled first, asked for once, sought when the answer was lost."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Callable

from elastiq.core import Core, log
from elastiq.executor import Outcome, UnsentError
from elastiq.interfaces import BatchSystem, Cloud, Instance, Intent, LaunchError, Offer, SourceError, TransientError
from elastiq.nodes import Node, State
from elastiq.observations import STALE_PERIODS, Watch
from elastiq.planner import Launch


@dataclass
class OpenIntent:
    """A launch of unknown outcome: it counts in full until this much of good reads showed nothing of it."""

    intent: Intent
    site: str
    ended: float  # monotonic: reads begun before prove nothing
    watch: Watch = field(default_factory=Watch)
    good_s: float = 0.0

    def observe(self, began: float, good: bool, longest_s: float) -> None:
        """A listing that began then came back."""
        self.good_s += self.watch.passed_s(began, good and began > self.ended, longest_s)


class Launching:
    """The launcher. ``replan`` is called when an outcome may allow another launch at once."""

    def __init__(self, core: Core, replan: Callable[[], None]) -> None:
        self._core, self._replan = core, replan
        self.open: dict[str, OpenIntent] = {}

    def restore(self) -> None:
        """Intents of an earlier run: their calls are never sent again, their machines are sought."""
        core = self._core
        for intent in core.store.intents():
            nodes = core.registry.requested(intent.id)
            if nodes:
                self.open[intent.id] = OpenIntent(intent, nodes[0].site, core.now())
                log.warning("the outcome of launch %s is not known: looking for its instances", intent.id)
            else:
                self._close(intent)

    # ------------------------------------------------------------------ launching

    def launch(self, order: Launch) -> bool:
        """Journal and ask; False if nothing was asked for."""
        core = self._core
        offer, now = order.offer, core.wall()
        pool = core.settings.pool(offer.pool)
        if core.settings.dry_run_boot_vms:
            core.tell_once(f"dry run {offer}", f"dry run: would launch {order.count} of {offer}")
        if pool is None or core.settings.dry_run_boot_vms:
            return False
        identifier = core.new_id()
        intent = Intent(identifier, core.owner.token_prefix + identifier, offer, order.count, now)
        blank = Node("", pool.name, pool.site, State.REQUESTED, offer.flavour, offer.network, identifier)
        blank.reason, blank.since, blank.created_at = order.reason, now, now
        nodes = [replace(blank, id=f"{identifier}.{n}", groups=_share(order, n)) for n in range(order.count)]
        if not core.stored(partial(core.store.journal, intent, nodes)):
            return False
        for node in nodes:
            core.registry.add(node)
        core.store_is_new = False
        # Before the ledger is stored: when one is begun, it counts the lines that are younger.
        core.record("launch", identifier, pool.name, f"{order.count} of {offer}: {order.reason}")
        if core.ledger is not None:
            core.ledger.launched(order.count)
            core.persist()
        core.count("launches_asked", order.count)
        call = partial(_prepare_and_launch, core.batch, core.clouds[pool.site], intent)
        core.act_on_cloud(pool.site, f"launch {identifier}", call, partial(self._answered, intent, pool.site))
        return True

    def _answered(self, intent: Intent, site: str, outcome: Outcome[tuple[Instance, ...]]) -> None:
        core, error, subject = self._core, outcome.error, f"launching from {intent.offer}"
        if error is None:
            got = len(outcome.value or ())
            self._made(intent, outcome.value or ())
            self._drop_rest(intent, "the cloud gave fewer than asked for")
            if got < intent.count:
                core.health.short(intent.offer, got, intent.count, core.now())
            else:
                core.health.launched(intent.offer, site)
            core.tell(subject, "")
        else:
            text = core.explain(error)
            core.count("launch_errors")
            scope = core.health.refused(intent.offer, site, error, core.now())
            core.tell(subject, f"{text} ({scope} is held back)", logging.ERROR)
            core.events.after(core.health.blocks[scope].wait_s, partial(self._block_over, subject, intent.offer, site))
            if isinstance(error, UnsentError) or (isinstance(error, LaunchError) and error.launched_nothing):
                self._drop_rest(intent, text)
            else:
                self.open[intent.id] = OpenIntent(intent, site, outcome.ended)
                log.warning("launch %s: %s: its outcome is unknown, looking for instances", intent.id, text)
        self._replan()

    def _block_over(self, subject: str, offer: Offer, site: str) -> None:
        """Nothing is known of it any more, unless it was refused once more: the next launch there is the probe."""
        if not self._core.health.blocked(offer, site, self._core.now()):
            self._core.notices.pop(subject, None)

    def _made(self, intent: Intent, instances: tuple[Instance, ...]) -> int:
        """Give the intent's nodes their instances; those that are known already, or are more than
        asked for, are left to the next listing."""
        core = self._core
        free = core.registry.requested(intent.id)
        new = {instance.id: instance for instance in instances if core.registry.by_instance(instance.id) is None}
        for node, instance in zip(free, new.values()):
            core.registry.bind(node, instance.id)
            node.instance, node.addresses = instance, instance.addresses
            node.listed_by = core.now() + core.settings.intent_settle_s
            core.registry.move(node, State.PENDING, f"launched as {instance.id}: {node.reason}", core.wall())
            if core.batch_has("register"):
                core.act_on_batch(node, partial(core.batch.register, instance), self._registered)
        bound = min(len(free), len(new))
        core.count("launched", bound)
        return bound

    def _registered(self, outcome: Outcome[None]) -> None:
        if outcome.error is not None:
            self._core.tell("register", self._core.explain(outcome.error))

    def _drop_rest(self, intent: Intent, reason: str) -> None:
        """The rest of the intent surely was not made."""
        core = self._core
        for node in core.registry.requested(intent.id):
            core.registry.move(node, State.GONE, reason, core.wall())
        core.persist()
        if not core.store_broken:
            self._close(intent)
        else:  # the nodes are still stored as requested: the next run must know why
            self.open.pop(intent.id, None)

    def _close(self, intent: Intent) -> None:
        self.open.pop(intent.id, None)
        self._core.stored(partial(self._core.store.close_intent, intent.id))

    # ------------------------------------------------------------------ seeking

    def listing(self, site: str, began: float, good: bool) -> None:
        """A listing of a site came back; a good one was taken into the registry already."""
        core, cloud = self._core, self._core.clouds.get(site)
        longest_s = STALE_PERIODS * core.settings.check_vms_every_s + (cloud.call_deadline_s if cloud else 0.0)
        can_find = cloud is not None and cloud.capabilities.find
        for entry in [e for e in self.open.values() if e.site == site]:
            entry.observe(began, good, longest_s)
            if not can_find or not core.registry.requested(entry.intent.id):
                self._judge(entry)

    def seek(self) -> None:
        """Ask each site for one intent of unknown outcome, the oldest first."""
        for site, cloud in self._core.clouds.items():
            entry = next((e for e in self.open.values() if e.site == site), None)
            if entry is not None and cloud.capabilities.find:
                self.open[entry.intent.id] = self.open.pop(entry.intent.id)  # to the end of the queue
                call = partial(cloud.find, entry.intent)
                self._core.read(f"find {site}", cloud, call, partial(self._found, entry))

    def _found(self, entry: OpenIntent, outcome: Outcome[tuple[Instance, ...]]) -> None:
        if self._core.failed(f"find {entry.intent.id}", "seeking a launch", outcome):
            return
        if self._made(entry.intent, outcome.value or ()):
            log.info("launch %s had made instances: adopted", entry.intent.id)
        self._judge(entry)

    def _judge(self, entry: OpenIntent) -> None:
        """Close an intent whose machines are all known; give up what good reads have not shown for long."""
        core = self._core
        if not core.registry.requested(entry.intent.id):
            core.persist()
            self._close(entry.intent)
        elif entry.watch.last_good is not None and entry.good_s >= core.settings.intent_settle_s:
            self._drop_rest(entry.intent, f"nothing of the launch was seen in {entry.good_s:.0f} s of complete reads")
            self._replan()


def _share(order: Launch, number: int) -> dict[str, int]:
    """The waiting jobs that one machine of an order is for."""
    return {key: (jobs + number) // order.count for key, jobs in sorted(order.groups.items())}


def _prepare_and_launch(batch: BatchSystem, cloud: Cloud, intent: Intent) -> tuple[Instance, ...]:
    try:
        batch.prepare(intent)
    except SourceError as exc:
        raise TransientError(f"the batch system was not ready for a launch: {exc}", launched_nothing=True) from exc
    return cloud.launch(intent)
