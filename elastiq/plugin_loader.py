"""Finds the class behind a plugin's name. A plugin's module is imported only when it is asked for here."""

from __future__ import annotations

import difflib
import importlib
from typing import Any, Iterable, cast

from elastiq.inifile import ConfigError
from elastiq.interfaces import BatchSystem, Cloud

BATCH_GROUP = "elastiq.batch"
CLOUD_GROUP = "elastiq.cloud"

BUILT_IN: dict[str, dict[str, str]] = {
    BATCH_GROUP: {"htcondor": "elastiq.plugins.batch.htcondor:HTCondor"},
    CLOUD_GROUP: {"ec2": "elastiq.plugins.cloud.ec2:EC2Cloud"},
}


def batch_class(name: str) -> type[BatchSystem]:
    """The batch system of that name. Raises `ConfigError`."""
    return cast("type[BatchSystem]", _load(BATCH_GROUP, name, BatchSystem))


def cloud_class(kind: str) -> type[Cloud]:
    """The cloud whose pools are the sections [kind] and [kind:NAME]. Raises `ConfigError`."""
    return cast("type[Cloud]", _load(CLOUD_GROUP, kind, Cloud))


def batch_names() -> list[str]:
    return _names(BATCH_GROUP)


def cloud_kinds() -> list[str]:
    return _names(CLOUD_GROUP)


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name that was most likely meant, empty if none is near."""
    return next(iter(difflib.get_close_matches(name.lower(), sorted(known), 1)), "")


def _third_party(group: str) -> dict[str, str]:
    from importlib.metadata import entry_points  # costs memory that a built-in plugin's user need not pay

    found = entry_points()
    # Python 3.9 answers with a dictionary.
    select = getattr(found, "select", None)
    listed: Any = select(group=group) if select else cast("Any", found).get(group, ())
    return {point.name: point.value for point in listed}


def _names(group: str) -> list[str]:
    return sorted({*BUILT_IN[group], *_third_party(group)})


def _load(group: str, name: str, base: Any) -> Any:
    place = BUILT_IN[group].get(name) or _third_party(group).get(name)
    if place is None:
        known = _names(group)
        meant = nearest(name, known)
        hint = f"did you mean `{meant}`?" if meant else f"known are: {', '.join(known)}"
        raise ConfigError([f"there is no plugin `{name}` for {group}, {hint}"])
    module_name, _, attribute = place.partition(":")
    try:
        module = importlib.import_module(module_name.strip())
    except ImportError as error:
        raise ConfigError([f"plugin `{name}` cannot be loaded ({error}), install what it needs"]) from error
    found = getattr(module, attribute.strip(), None)
    if not (isinstance(found, type) and issubclass(found, base)):
        raise ConfigError([f"plugin `{name}` is no {base.__name__} ({place}), ask its author"])
    return found
