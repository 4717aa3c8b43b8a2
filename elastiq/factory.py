"""The one place that puts a daemon together: the service, the demo and the tests all use it."""

from __future__ import annotations

from typing import Mapping

from elastiq import planner
from elastiq.core import Core
from elastiq.daemon import Daemon, Plans
from elastiq.interfaces import BatchSystem, Cloud, Owner
from elastiq.plugin_loader import batch_class, cloud_class
from elastiq.settings import Settings


def plugins(settings: Settings, owner: Owner) -> tuple[BatchSystem, Mapping[str, Cloud]]:
    """Make the batch system and the cloud of each site that the settings name; reads nothing outside."""
    batch = batch_class(settings.batch_plugin).from_config(settings.batch_options, owner)
    clouds = {site: cloud_class(pools[0].kind).from_config(pools, owner) for site, pools in settings.sites.items()}
    return batch, clouds


def build(core: Core, plans: Plans = planner.plan) -> Daemon:
    """Put a daemon together. ``plans`` is for simulations and tests."""
    return Daemon(core, plans)
