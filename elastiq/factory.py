"""The one place that puts a daemon together: the service, the demo and the tests all use it."""

from __future__ import annotations

import random
from typing import Callable, Mapping, Optional

from elastiq import planner
from elastiq.core import Core, new_id
from elastiq.daemon import Daemon, Plans
from elastiq.events import EventQueue
from elastiq.executor import Executor
from elastiq.interfaces import BatchSystem, Cloud, Owner
from elastiq.plugin_loader import batch_class, cloud_class
from elastiq.settings import Settings
from elastiq.store import Store


def plugins(settings: Settings, owner: Owner) -> tuple[BatchSystem, Mapping[str, Cloud]]:
    """Make the batch system and the cloud of each site that the settings name; reads nothing outside."""
    batch = batch_class(settings.batch_plugin).from_config(settings.batch_options, owner)
    clouds = {site: cloud_class(pools[0].kind).from_config(pools, owner) for site, pools in settings.sites.items()}
    return batch, clouds


def build(
    settings: Settings,
    *,
    batch: BatchSystem,
    clouds: Mapping[str, Cloud],
    owner: Owner,
    events: EventQueue,
    executor: Executor,
    store: Store,
    new_id: Callable[[], str] = new_id,
    jitter: Optional[random.Random] = None,
    plans: Plans = planner.plan,
) -> Daemon:
    """Put a daemon together. ``new_id``, ``jitter`` and ``plans`` are for simulations and tests."""
    jitter = jitter or random.Random()
    return Daemon(Core(settings, batch, clouds, owner, events, executor, store, new_id, jitter), plans)
