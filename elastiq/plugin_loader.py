"""Finds the class behind a plugin's name. A plugin's module is imported only when it is asked for here."""

from __future__ import annotations

import importlib
from typing import Any, Mapping, cast

from elastiq.inifile import ConfigError
from elastiq.interfaces import BatchSystem, Cloud, Owner
from elastiq.settings import Settings

BATCH_GROUP = "elastiq.batch"
CLOUD_GROUP = "elastiq.cloud"

_BATCH = ("htcondor:HTCondor", "command:Command", "slurm:Slurm", "celery:Celery", "gridengine:GridEngine")
_PBS = ("torque:Torque", "pbs:PBS")
BUILT_IN: dict[str, dict[str, str]] = {
    BATCH_GROUP: {place.partition(":")[0]: f"elastiq.plugins.batch.{place}" for place in _BATCH + _PBS},
    CLOUD_GROUP: {"ec2": "elastiq.plugins.cloud.ec2:EC2Cloud"},
}


def batch_class(name: str) -> type[BatchSystem]:
    """The batch system of that name. Raises `ConfigError`."""
    return cast("type[BatchSystem]", _load(BATCH_GROUP, name, BatchSystem))


def cloud_class(kind: str) -> type[Cloud]:
    """The cloud whose pools are the sections [kind] and [kind:NAME]. Raises `ConfigError`."""
    return cast("type[Cloud]", _load(CLOUD_GROUP, kind, Cloud))


def plugins(settings: Settings, owner: Owner) -> tuple[BatchSystem, Mapping[str, Cloud]]:
    """Make the batch system and the cloud of each site that the settings name; reads nothing outside."""
    batch = batch_class(settings.batch_plugin).from_config(settings.batch_options, owner)
    clouds = {site: cloud_class(pools[0].kind).from_config(pools, owner) for site, pools in settings.sites.items()}
    return batch, clouds


def _load(group: str, name: str, base: Any) -> Any:
    place = BUILT_IN[group].get(name)
    if place is None:
        from elastiq.names import place_of  # costs time and memory that a built-in plugin's user need not pay

        place = place_of(name, group, BUILT_IN[group])
    module, _, attribute = place.partition(":")
    try:
        found = getattr(importlib.import_module(module.strip()), attribute.strip(), None)
    except ImportError as error:
        raise ConfigError([f"plugin `{name}` cannot be loaded ({error}), install what it needs"]) from error
    if not (isinstance(found, type) and issubclass(found, base)):
        raise ConfigError([f"plugin `{name}` is no {base.__name__} ({place}), ask its author"])
    return found
