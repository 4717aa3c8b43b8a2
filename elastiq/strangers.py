"""Workers that match no node of ours. Imported when there are some.

Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Iterable, Mapping, Optional, Sequence

from elastiq.interfaces import Instances, Owner, Worker
from elastiq.nodes import Registry, State


@dataclass
class Stranger:
    """A worker that matches no node of ours. ``explained`` says why that is no cause for alarm."""

    worker: Worker
    number: int
    explained: str = ""
    room_s: float = 0.0


def take_strangers(
    registry: Registry,
    strangers: Sequence[Worker],
    ours: set[str],
    settled: bool,
    observed_s: float,
    explain: Mapping[str, str],
) -> None:
    """Bring the strangers of a read into the registry. ``ours`` are the names of the workers that are nodes; an
    unsettled view does not show that a stranger is there no more."""
    known = {name: stranger for name, stranger in registry.strangers.items() if name not in ours}
    registry.strangers = {} if settled else dict(known)
    for worker in strangers:
        registry.strangers[worker.name] = _stranger(registry, known.get(worker.name), worker, observed_s, explain)


def _stranger(
    registry: Registry, before: Optional[Stranger], worker: Worker, observed_s: float, explain: Mapping[str, str]
) -> Stranger:
    seen_at = (worker.name, worker.instance_id or "", *sorted(worker.addresses))
    text = next((explain[name] for name in seen_at if name in explain), "")
    if before is None:
        number = registry.stranger_numbers.get(worker.name) or registry.next_number()
        return Stranger(worker, number, text)
    same = (before.worker.free, before.worker.jobs) == (worker.free, worker.jobs)
    return Stranger(worker, before.number, text, before.room_s + observed_s if same else 0.0)


def explained(owner: Owner, views: Iterable[Instances], static_workers: Iterable[str]) -> dict[str, str]:
    """Addresses, ids and names at which a worker need not be a node of ours."""
    known = dict.fromkeys([*owner.addresses, *filter(None, [owner.instance_id])], "the head node")
    for view in views:
        known.update(dict.fromkeys(view.foreign_addresses, "an instance that is not ours"))
        known.update((instance.id, "another head's") for instance in view.other_heads)
    known.update((name.lower(), "a static worker") for name in static_workers)
    return known


def doubt(registry: Registry) -> str:
    """What strangers cast doubt upon; empty if nothing."""
    unexplained = sorted(name for name, stranger in registry.strangers.items() if not stranger.explained)
    doubted = registry.count(None, {State.BOOTING, State.LOST, State.FAILED})
    text = (
        f"workers {', '.join(unexplained[:5])} match no instance: nothing that may be one of them is ended "
        "as never joined or lost; let the image publish its instance id, or set static_workers"
    )
    return text if unexplained and doubted else ""
