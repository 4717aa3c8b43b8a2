"""Launches: journalled first, asked for once, sought when the answer was lost."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial
from typing import Callable, Optional

from elastiq.core import Core
from elastiq.executor import Outcome
from elastiq.interfaces import BatchSystem, Cloud, Instance, Intent, LaunchError, SourceError, TransientError
from elastiq.nodes import Node, State
from elastiq.observations import STALE_PERIODS
from elastiq.planner import Launch

log = logging.getLogger("elastiq")


@dataclass
class OpenIntent:
    """A launch of unknown outcome: it counts in full until this much of good reads showed nothing of it."""

    intent: Intent
    site: str
    ended: float  # monotonic: reads begun before prove nothing
    last_good: Optional[float] = None
    good_s: float = 0.0

    def observe(self, began: float, good: bool, longest_s: float) -> None:
        """A listing that began then came back. Reads further apart than ``longest_s`` left a time in which
        nobody looked."""
        if not good:
            self.last_good = None
        elif began > self.ended:
            passed_s = began - self.last_good if self.last_good is not None else 0.0
            self.good_s += passed_s if passed_s <= longest_s else 0.0
            self.last_good = began


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
            if not nodes:
                self._close(intent)
                continue
            self.open[intent.id] = OpenIntent(intent, nodes[0].site, core.now())
            log.warning("the outcome of launch %s is not known: looking for its instances", intent.id)

    # ------------------------------------------------------------------ launching

    def launch(self, order: Launch) -> bool:
        """Journal and ask; False if nothing was asked for."""
        core = self._core
        pool = core.settings.pool(order.offer.pool)
        if pool is None:
            return False
        if core.settings.dry_run_boot_vms:
            core.tell_once(f"dry run {order.offer}", f"dry run: would launch {order.count} of {order.offer}")
            return False
        identifier = core.new_id()
        intent = Intent(identifier, core.owner.token_prefix + identifier, order.offer, order.count, core.wall())
        nodes = [
            Node(
                id=f"{identifier}.{number}",
                pool=pool.name,
                site=pool.site,
                flavour=order.offer.flavour,
                network=order.offer.network,
                intent=identifier,
                reason=order.reason,
                since=intent.created_at,
                created_at=intent.created_at,
                groups=_share(order, number),
            )
            for number in range(order.count)
        ]
        if not core.stored(partial(core.store.journal, intent, nodes)):
            return False
        for node in nodes:
            core.registry.add(node)
        core.count("launches_asked", order.count)
        core.record("launch", identifier, pool.name, f"{order.count} of {order.offer}: {order.reason}")
        call = partial(_prepare_and_launch, core.batch, core.clouds[pool.site], intent)
        core.act_on_cloud(pool.site, f"launch {identifier}", call, partial(self._answered, intent, pool.site))
        return True

    def _answered(self, intent: Intent, site: str, outcome: Outcome[tuple[Instance, ...]]) -> None:
        core = self._core
        error = outcome.error
        if error is None:
            self._made(intent, outcome.value or ())
            self._drop_rest(intent, "the cloud gave fewer than asked for")
            got = len(outcome.value or ())
            if got < intent.count:
                core.health.short(intent.offer, got, intent.count, core.now())
            else:
                core.health.launched(intent.offer, site)
            core.tell(f"launching from {intent.offer}", "")
        else:
            text = core.explain(error)
            core.count("launch_errors")
            scope = core.health.refused(intent.offer, site, error, core.now())
            core.tell(f"launching from {intent.offer}", f"{text} ({scope} is held back)", logging.ERROR)
            if isinstance(error, LaunchError) and error.launched_nothing:
                self._drop_rest(intent, text)
            else:
                self.open[intent.id] = OpenIntent(intent, site, outcome.ended)
                log.warning("launch %s: %s: its outcome is unknown, looking for instances", intent.id, text)
        self._replan()

    def _made(self, intent: Intent, instances: tuple[Instance, ...]) -> int:
        """Give the intent's nodes their instances; those that are known already, or are more than
        asked for, are left to the next listing."""
        core = self._core
        free = core.registry.requested(intent.id)
        bound = 0
        for instance in instances:
            if not free or core.registry.by_instance(instance.id) is not None:
                continue
            node = free.pop(0)
            core.registry.bind(node, instance.id)
            node.instance, node.addresses = instance, instance.addresses
            node.listed_by = core.now() + core.settings.intent_settle_s
            core.registry.move(node, State.PENDING, f"launched as {instance.id}: {node.reason}", core.wall())
            bound += 1
            if type(core.batch).register is not BatchSystem.register:
                core.act_on_batch(node, partial(core.batch.register, instance), self._registered)
        core.count("launched", bound)
        return bound

    def _registered(self, outcome: Outcome[None]) -> None:
        if outcome.error is not None:
            self._core.tell("register", self._core.explain(outcome.error))

    def _drop_rest(self, intent: Intent, reason: str) -> None:
        """The rest of the intent surely was not made."""
        for node in self._core.registry.requested(intent.id):
            self._core.registry.move(node, State.GONE, reason, self._core.wall())
        self._core.persist()
        if not self._core.store_broken:
            self._close(intent)
        else:  # the nodes are still stored as requested: the next run must know why
            self.open.pop(intent.id, None)

    def _close(self, intent: Intent) -> None:
        self.open.pop(intent.id, None)
        self._core.stored(partial(self._core.store.close_intent, intent.id))

    # ------------------------------------------------------------------ seeking

    def listing(self, site: str, began: float, good: bool) -> None:
        """A listing of a site came back; a good one was taken into the registry already."""
        cloud = self._core.clouds.get(site)
        longest_s = cloud.call_deadline_s if cloud else 0.0
        longest_s += STALE_PERIODS * self._core.settings.check_vms_every_s
        for entry in [e for e in self.open.values() if e.site == site]:
            entry.observe(began, good, longest_s)
            if not self._core.registry.requested(entry.intent.id):
                self._core.persist()
                self._close(entry.intent)
            elif not self._can_find(site):
                self._give_up_if_settled(entry)

    def seek(self) -> None:
        """Ask each site for one intent of unknown outcome, the oldest first."""
        asked: set[str] = set()
        for entry in list(self.open.values()):
            if entry.site in asked or not self._can_find(entry.site):
                continue
            asked.add(entry.site)
            self.open[entry.intent.id] = self.open.pop(entry.intent.id)  # to the end of the queue
            self._find(entry, self._core.clouds[entry.site])

    def _can_find(self, site: str) -> bool:
        cloud = self._core.clouds.get(site)
        return cloud is not None and cloud.capabilities.find

    def _find(self, entry: OpenIntent, cloud: Cloud) -> None:
        core = self._core

        def found(outcome: Outcome[tuple[Instance, ...]]) -> None:
            if outcome.error is not None:
                core.tell_once(f"find {entry.intent.id}", f"seeking a launch: {core.explain(outcome.error)}")
                return
            if self._made(entry.intent, outcome.value or ()):
                log.info("launch %s had made instances: adopted", entry.intent.id)
            if not core.registry.requested(entry.intent.id):
                core.persist()
                self._close(entry.intent)
            else:
                self._give_up_if_settled(entry)

        core.read(f"find {entry.site}", cloud, partial(cloud.find, entry.intent), found)

    def _give_up_if_settled(self, entry: OpenIntent) -> None:
        if entry.last_good is not None and entry.good_s >= self._core.settings.intent_settle_s:
            text = f"nothing of the launch was seen in {entry.good_s:.0f} s of complete reads"
            self._drop_rest(entry.intent, text)
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
