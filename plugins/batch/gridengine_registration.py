"""Makes a new machine known to the master, and an ended one unknown.

To take part a host must be an administrative host (its execd may join), an execution host, and a member of a host group
that a queue lists (``qconf -ah``, ``-aattr hostgroup``: the latter makes it an execution host, seen with 8.1.9).
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping

from elastiq.errors import SourceError
from elastiq.interfaces import Instance, Owner
from elastiq.plugins.batch import gridengine_marks as groups
from elastiq.plugins.batch.gridengine_master import Master, checked
from elastiq.plugins.batch.gridengine_names import Names
from elastiq.plugins.batch.gridengine_options import values_by_kind

GONE = "does not exist"


class Registration:
    """The hosts of our instances. Every method raises `SourceError`, and is then asked again."""

    def __init__(self, master: Master, names: Names, values: Mapping[str, Any], owner: Owner) -> None:
        self._master, self._names, self._owner = master, names, owner
        self._groups: tuple[str, ...] = tuple(values["hostgroups"])
        self._values = values_by_kind(values["complex_values"])
        self._holders: dict[str, str] = {}  # the instance that has a name now

    def register(self, instance: Instance) -> None:
        """Let the master expect the host of an instance. What is so already stays."""
        if not instance.addresses:
            return
        name = checked(self._names.name_of(instance.addresses))
        self._holders[name.lower()] = instance.id
        self._names.register(name, instance.addresses)
        self._master.change("qconf", "-ah", name, fine=groups.EXISTS)
        for group in self._groups_of(instance):
            groups.add_to_group(self._master, name, group)
        values = self._values.get(instance.pool.lower()) or self._values.get(instance.flavour.lower())
        if values:
            self._master.change("qconf", "-mattr", "exechost", "complex_values", values, name)

    def _groups_of(self, instance: Instance) -> Iterable[str]:
        for group in self._groups:
            yield group.replace("%pool%", instance.pool).replace("%flavour%", instance.flavour)

    def unregister(self, instance: Instance) -> None:
        """Take the host of an ended instance out of the host groups, the administrative and the execution hosts. The
        master keeps a host on which it records jobs: an error until they are gone."""
        names = [name for name, holder in self._holders.items() if holder == instance.id]
        for name in names or self._by_address(instance):
            self.remove(name)

    def _by_address(self, instance: Instance) -> list[str]:
        """The hosts that have one of its addresses, as far as no other instance has registered them."""
        if not instance.addresses or instance.addresses & self._owner.addresses:
            return []
        try:
            found = [checked(self._names.name_of(instance.addresses))]
        except SourceError:  # it was never registered, or its name is gone
            known = [host.name for host in self._master.hosts()]
            self._names.look_up(known)
            found = [name for name in known if self._names.addresses(name) & instance.addresses]
            if not all(map(self._names.addresses, known)):
                raise
        return [name for name in map(str.lower, found) if name not in self._holders]

    def remove(self, name: str) -> None:
        """Take a host out of every host group, the administrative and the execution hosts."""
        master = self._master
        for group in groups.host_groups(master):
            if name.lower() in groups.members(master, group):
                groups.remove_from_group(master, name, group)
        # Before the execution host: an execd that still runs would have itself made one again.
        master.change("qconf", "-dh", name, fine=GONE)
        try:
            master.change("qconf", "-de", name, fine=GONE)
        except SourceError as error:
            host = master.host(name)
            jobs = ", ".join(dict.fromkeys(job[0] for job in host.jobs)) if host else ""
            raise SourceError(f"{error}{jobs and f'; jobs are recorded there, which qdel -f ends: {jobs}'}") from None
        self._names.forget(name)
        self._holders.pop(name.lower(), None)
