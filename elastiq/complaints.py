"""What is said of a configuration with keys, sections or a batch_plugin that nobody knows, or without cluster_name.

Imported only for such a file.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Any, Callable, Iterable

from elastiq.inifile import ConfigError, Entry, Problems, Section
from elastiq.keys import CORE, POOL, check_cluster_name
from elastiq.names import hint, known, nearest
from elastiq.options import Option
from elastiq.plugin_loader import BATCH_GROUP, BUILT_IN, CLOUD_GROUP, batch_class, cloud_class


def unknown_key(entry: Entry, keys: Iterable[str], problems: Problems) -> None:
    """Of a key that its section does not have."""
    homes = {**CORE, **{kind: (*POOL, *cloud_class(kind).OPTIONS) for kind in BUILT_IN[CLOUD_GROUP]}}
    home = next((name for name, options in homes.items() if entry.key in {one.name for one in options}), None)
    meant = nearest(entry.key, keys)
    what = f"it belongs to [{home}]" if home else f"did you mean `{meant}`?" if meant else "remove it"
    problems.add(entry.line, entry.section, entry.key if meant else entry.label, f"is not a known key, {what}")


def unread_section(section: str, why: str, extras: Iterable[str], problems: Problems, warnings: Problems) -> None:
    """Of a section that is neither the core's, the batch system's nor one of ``extras``; ``why`` says why it is no
    pool either."""
    kind = section.partition(":")[0]
    batches, clouds = (sorted(known(group, BUILT_IN[group])) for group in (BATCH_GROUP, CLOUD_GROUP))
    if kind in batches:
        warnings.at(section, "", f"is not read: batch_plugin is another, set it to {kind} or remove the section")
    elif kind in clouds:
        problems.at(section, "", why)
    else:
        names = [*CORE, "schedule", *sorted(extras), *batches, *clouds]
        problems.at(section, "", f"is not a known section, {hint(kind, names, '[{}]')}")


Values = Callable[[Section, Iterable[Option]], dict[str, Any]]


def unknown_batch(name: str, error: ConfigError, problems: Problems, values: Values) -> tuple[str, dict[str, Any]]:
    """Of a batch_plugin that cannot be loaded. The sections that are named after others are checked: one of them may
    be meant."""
    problems.at("elastiq", "batch_plugin", error.problems[0])
    for other in known(BATCH_GROUP, BUILT_IN[BATCH_GROUP]).keys() & problems.sections.keys():
        with suppress(ConfigError):
            batch = batch_class(other)
            values(problems.sections.get(batch.section) or Section(batch.section, 1), batch.OPTIONS)
    return name, {}


def host_name(problems: Problems, warnings: Problems) -> str:
    """The cluster's name for a file that says none, as those of 1.0."""
    name = socket.gethostname().partition(".")[0]
    if check_cluster_name(name):
        problems.at("elastiq", "cluster_name", "is missing and cannot be the host name, set it")
    warnings.at("elastiq", "cluster_name", f"is not set, it is `{name}` until the host name changes; set it")
    return name
