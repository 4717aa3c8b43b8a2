"""Names of plugins that elastiq itself does not have: those of third parties, and what was most likely meant.

Imported only for such a name.
"""

from __future__ import annotations

import difflib
from importlib.metadata import distributions
from typing import Iterable, Mapping

from elastiq.inifile import ConfigError

# What people call a batch system, or what it consists of, where no spelling leads to the plugin's name.
OTHER_NAMES = {
    **dict.fromkeys(("sge", "uge", "age", "ocs", "gcs", "ge", "grid_engine", "univa", "altair"), "gridengine"),
    **dict.fromkeys(("rabbitmq", "redis", "amqp", "kombu"), "celery"),
    **dict.fromkeys(("condor", "ht_condor"), "htcondor"),
    **dict.fromkeys(("moab", "maui"), "torque"),
    **dict.fromkeys(("pbspro", "pbs_pro", "openpbs"), "pbs"),
    **dict.fromkeys(("script", "scripts", "exec", "executable"), "command"),
}


def known(group: str, built_in: Mapping[str, str]) -> dict[str, str]:
    """Where each plugin of an entry-point group is to be found, also a third party's."""
    found = [point for dist in distributions() for point in dist.entry_points if point.group == group]
    # As with imports, the first one counts.
    return {**{point.name: point.value for point in reversed(found)}, **built_in}


def place_of(name: str, group: str, built_in: Mapping[str, str]) -> str:
    """Where the plugin of that name is to be found. Raises `ConfigError`."""
    places = known(group, built_in)
    if not name:
        raise ConfigError([f"names no plugin for {group}, known are: {', '.join(sorted(places))}"])
    if name not in places:
        if (meant := OTHER_NAMES.get(name.lower(), "")) in places:
            raise ConfigError([f"there is no plugin `{name}` for {group}, did you mean `{meant}`?"])
        raise ConfigError([f"there is no plugin `{name}` for {group}, {hint(name, sorted(places))}"])
    return places[name]


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name that was most likely meant, empty if none is near."""
    return next(iter(difflib.get_close_matches(name.lower(), sorted(known), 1)), "")


def hint(name: str, known: Iterable[str], form: str = "`{}`") -> str:
    """For a complaint about an unknown name: the one that was most likely meant, else all."""
    meant = nearest(name, known)
    return f"did you mean {form.format(meant)}?" if meant else f"known are: {', '.join(known)}"
