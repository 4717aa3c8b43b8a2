"""What `elastiqctl check` looks at where batch system and cloud meet: whether workers can be told from one another, and
whether the pools that the batch system's side speaks of are there."""

from __future__ import annotations

from functools import partial
from typing import Iterable, Iterator, Protocol, Sequence, runtime_checkable

from elastiq.interfaces import BatchSystem, Check, Cloud, Instances, InstanceState, Looks, Owner, Worker
from elastiq.settings import Settings

SUBJECT = "workers and instances"
PUBLISH = "let it show its instance's id or addresses (docs, the page of the batch system: the worker image)"
POOLS = "names of pools"
_GONE = (InstanceState.TERMINATED, InstanceState.SHUTTING_DOWN)


def looks(settings: Settings, owner: Owner, batch: BatchSystem, clouds: Sequence[Cloud]) -> Looks:
    """``clouds`` only read (`Cloud.read_only`)."""
    found: Looks = {SUBJECT: partial(_identity, settings, owner, batch, clouds)}
    return {**found, POOLS: partial(_pools, settings, batch)} if isinstance(batch, NamesPools) else found


@runtime_checkable
class NamesPools(Protocol):
    """A batch system whose keys or jobs speak of elastiq's pools, which it does not know itself."""

    def pools_named(self) -> Iterable[tuple[str, str, bool]]:
        """Where one is named, its name, and whether a flavour may be named there. Raises `SourceError`."""


def _pools(settings: Settings, batch: NamesPools) -> Iterator[Check]:
    pools = {pool.name.lower() for pool in settings.pools}
    flavours = {flavour.lower() for pool in settings.pools for flavour in pool.flavours}
    named = list(dict.fromkeys(batch.pools_named()))
    wrong = [one for one in named if one[1].lower() not in (pools | flavours if one[2] else pools)]
    for where, name, or_flavour in wrong[:3]:
        text = f"{where} names `{name}`, which is no pool{' and no flavour' if or_flavour else ''}"
        more = f" (and {len(wrong) - 3} more)" if len(wrong) > 3 else ""
        yield Check(POOLS, "warning", f"{text}{more}", f"pools are: {', '.join(sorted(pools))}")
    if not wrong:
        yield Check(POOLS, "ok", "those that are named are there" if named else "none is named")


def _identity(settings: Settings, owner: Owner, batch: BatchSystem, clouds: Sequence[Cloud]) -> Iterator[Check]:
    workers = batch.workers().workers
    views = [cloud.instances(frozenset()) for cloud in clouds]
    static = {name.lower() for name in settings.static_workers}
    ours = [one for one in workers if one.name not in static and not _is_head(one, owner)]
    if not ours:
        text = (
            "the batch system shows no worker yet: whether workers show which instance they are is seen with the first"
        )
        yield Check(SUBJECT, "warning", text, "check again when the first machine has joined")
        return
    yield judged(ours, views)


def judged(workers: Sequence[Worker], views: Sequence[Instances]) -> Check:
    """Workers against all instances: by the id that a worker publishes, else by its addresses."""
    told: dict[str, list[str]] = {"by id": [], "by address": [], "foreign": [], "lost": [], "stranger": []}
    for worker in workers:
        told[_of(worker, views)].append(worker.name)
    counted = f"{len(told['by id'])} by their id, {len(told['by address'])} by address"
    if told["stranger"]:
        text = f"{_some(told['stranger'])}: no instance has its id or address ({counted})"
        why = "elastiq ends nothing there as lost or never joined while that is so"
        return Check(SUBJECT, "warning", f"{text}; {why}", f"{PUBLISH}, or name them in static_workers")
    if told["lost"]:
        text = f"{_some(told['lost'])}: its instance has ended, or no site lists it ({counted})"
        return Check(SUBJECT, "warning", text, "none, if it just ended; else name its site's section")
    if shared := _shared(workers, views):
        remedy = "let each worker show the id and the addresses of its own machine, and no other's"
        return Check(SUBJECT, "warning", f"{shared}: which of them its machine is cannot be told", remedy)
    if told["foreign"]:
        text = f"{_some(told['foreign'])}: on an instance that is not elastiq's ({counted})"
        return Check(SUBJECT, "ok", f"{text}; it is never ended")
    if told["by address"]:
        return Check(SUBJECT, "ok", f"told {counted}; the id is surer, where a worker can show it")
    return Check(SUBJECT, "ok", f"told {counted}")


def _of(worker: Worker, views: Sequence[Instances]) -> str:
    owned = [one for view in views for one in (*view.owned, *view.other_heads)]
    if worker.instance_id:
        its = [one for one in owned if one.id == worker.instance_id]
        if any(one.state not in _GONE for one in its):
            return "by id"
        if its:
            return "lost"
    if any(worker.addresses & one.addresses for one in owned if one.state not in _GONE):
        return "by address"
    if any(worker.addresses & view.foreign_addresses for view in views):
        return "foreign"
    return "lost" if worker.instance_id else "stranger"


def _shared(workers: Sequence[Worker], views: Sequence[Instances]) -> str:
    """The first workers that show one instance as theirs, empty if none do."""
    owned = [one for view in views for one in (*view.owned, *view.other_heads) if one.state not in _GONE]
    ids = {one.id for one in owned}
    for one in owned:
        by_address = [worker for worker in workers if worker.instance_id not in ids]
        names = [worker.name for worker in workers if worker.instance_id == one.id]
        names += [worker.name for worker in by_address if worker.addresses & one.addresses]
        if len(names) > 1:
            return f"{_some(names)}: more than one worker has the id or an address of {one.id}"
    return ""


def _is_head(worker: Worker, owner: Owner) -> bool:
    return bool(worker.addresses & owner.addresses) or worker.instance_id == (owner.instance_id or "")


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"
