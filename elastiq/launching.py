"""Launches: journalled first, asked for once, sought when the answer was lost."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Callable

from elastiq.core import Core
from elastiq.executor import Outcome
from elastiq.interfaces import Instance, Intent
from elastiq.nodes import Node, State
from elastiq.planner import Launch

if TYPE_CHECKING:
    from elastiq.failed_launches import OpenIntent


class Launching:
    """The launcher. ``replan`` is called when an outcome may allow another launch at once."""

    def __init__(self, core: Core, replan: Callable[[], None]) -> None:
        self.core, self.replan = core, replan
        self.open: dict[str, OpenIntent] = {}

    def restore(self) -> None:
        """Intents of an earlier run: their calls are never sent again, their machines are sought."""
        for intent in self.core.store.intents():
            from elastiq.failed_launches import take_up

            take_up(self, intent)

    # ------------------------------------------------------------------ launching

    def launch(self, order: Launch) -> bool:
        """Journal and ask; False if nothing was asked for."""
        core = self.core
        offer, now = order.offer, core.wall()
        if offer.market == "stopped":
            from elastiq.stopping import start

            return start(self, order)
        pool = core.settings.pool(offer.pool)
        if off := core.off("launch"):
            core.tell_once(f"dry run {offer}", f"{off}: would launch {order.count} of {offer}")
        if pool is None or off:
            return False
        identifier = core.new_id()
        intent = Intent(identifier, core.owner.token_prefix + identifier, offer, order.count, now)
        names = (pool.name, pool.site, State.REQUESTED, offer.flavour, offer.network, offer.market)
        blank = Node("", *names, identifier, reason=order.reason, since=now, created_at=now, build=pool.build)
        nodes = [replace(blank, id=f"{identifier}.{n}", groups=_share(order, n)) for n in range(order.count)]
        taken = [core.registry.nodes[name] for name in order.replaces]
        changed = [*nodes, *(replace(node, replaced=True) for node in taken)]
        if not core.stored(partial(core.store.journal, intent, changed)):
            return False
        for node in taken:
            node.replaced = True
        for node in nodes:
            core.registry.add(node)
        core.store_is_new, core.health.times["launch"] = False, core.now()
        # Before the ledger is stored: when one is begun, it counts the lines that are younger.
        core.record("launch", identifier, pool.name, f"{order.count} of {offer}: {order.reason}")
        if core.ledger is not None:
            core.ledger.launched(order.count)
            core.persist()
        core.count("launches_asked", order.count)
        call = partial(core.clouds[pool.site].launch, intent)
        if core.records is not None:
            call = partial(core.records.launching, core.clouds[pool.site], intent)
        core.act_on_cloud(pool.site, f"launch {identifier}", call, partial(self._answered, intent, pool.site))
        return True

    def _answered(self, intent: Intent, site: str, outcome: Outcome[tuple[Instance, ...]]) -> None:
        core, got = self.core, outcome.value or ()
        if outcome.error is not None:
            from elastiq.failed_launches import failed

            failed(self, intent, site, outcome.error, outcome.ended)
        else:
            self.made(intent, got)
            self.drop_rest(intent, "the cloud gave fewer than asked for")
            if len(got) < intent.count:
                from elastiq.refusals import short

                short(core.health, intent.offer, len(got), intent.count, core.now())
            else:
                core.health.launched(intent.offer, site)
            core.tell(f"launching from {intent.offer}", "")
        self.replan()

    def made(self, intent: Intent, instances: tuple[Instance, ...]) -> int:
        """Give the intent's nodes their instances; those that are known already, or are more than
        asked for, are left to the next listing."""
        core = self.core
        free = core.registry.requested(intent.id)
        new = {instance.id: instance for instance in instances if core.registry.by_instance(instance.id) is None}
        for node, instance in zip(free, new.values()):
            core.registry.bind(node, instance.id)
            node.instance, node.addresses = instance, instance.addresses
            node.listed_by = core.now() + core.settings.intent_settle_s
            core.registry.move(node, State.PENDING, f"launched as {instance.id}: {node.reason}", core.wall())
        bound = min(len(free), len(new))
        core.count("launched", bound)
        return bound

    def drop_rest(self, intent: Intent, reason: str) -> None:
        """The rest of the intent surely was not made."""
        core = self.core
        for node in core.registry.requested(intent.id):
            core.registry.move(node, State.GONE, reason, core.wall())
        core.persist()
        self.open.pop(intent.id, None)
        if not core.store_broken:  # else the nodes are still stored as requested: the next run must know why
            self.close(intent)

    def close(self, intent: Intent) -> None:
        self.open.pop(intent.id, None)
        self.core.stored(partial(self.core.store.close_intent, intent.id))

    # ------------------------------------------------------------------ seeking

    def listing(self, site: str, began: float, good: bool) -> None:
        """A listing of a site came back; a good one was taken into the registry already."""
        for entry in [one for one in self.open.values() if one.site == site]:
            entry.listing(began, good)

    def seek(self) -> None:
        """Ask each site for one intent of unknown outcome, the oldest first."""
        for site in self.core.clouds if self.open else ():
            entry = next((one for one in self.open.values() if one.site == site), None)
            if entry is not None:
                entry.seek()


def _share(order: Launch, number: int) -> dict[str, int]:
    """The waiting jobs that one machine of an order is for."""
    return {key: (jobs + number) // order.count for key, jobs in sorted(order.groups.items())}
