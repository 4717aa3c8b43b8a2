"""Names of nodes and addresses of machines. PBS tells names only, so an address is one that we registered the name
with, or that the name spells, or what the head node's resolver says of it (PBS itself needs a resolver that knows
every node)."""

from __future__ import annotations

import ipaddress
import re
from typing import Iterable, Mapping

from elastiq.errors import SourceError
from elastiq.interfaces import Instance
from elastiq.plugins.batch import hosts
from elastiq.plugins.batch.tools import Tools

LOOK_UP_S = 10.0
LINE = re.compile(r"^(\S+)[ \t]+STREAM[ \t]*(\S*)", re.MULTILINE)
RESOLVABLE = re.compile(r"[A-Za-z0-9][\w.-]*")


class Addresses:
    """Which addresses the machines behind the nodes have, as far as is known."""

    def __init__(self) -> None:
        self._registered: dict[str, Instance] = {}  # by the name of the node
        self._looked_up: dict[str, frozenset[str]] = {}
        self.tools = Tools(LOOK_UP_S, "getent is a part of glibc")

    def names_of(self, instance: Instance) -> set[str]:
        """The names that an instance was registered with."""
        return {name for name, one in self._registered.items() if one.id == instance.id}

    def register(self, name: str, instance: Instance) -> None:
        for former in self.names_of(instance):
            del self._registered[former]
        self._registered[name] = instance

    def unregister(self, name: str) -> None:
        self._registered.pop(name, None)

    def registered(self, name: str) -> str:
        """The id of the instance that the node was registered for last, as far as we know."""
        return self._registered[name].id if name in self._registered else ""

    def of(self, names: Iterable[str]) -> Mapping[str, frozenset[str]]:
        """Those of each node; none where nothing tells."""
        found = {name: hosts.addresses(name) for name in names}
        found.update({name: self._registered[name].addresses for name in found.keys() & self._registered.keys()})
        unknown = sorted(name for name, addresses in found.items() if not addresses and RESOLVABLE.fullmatch(name))
        if unknown:
            self._look_up(unknown)
        return {name: addresses or self._looked_up.get(name, frozenset()) for name, addresses in found.items()}

    def _look_up(self, names: list[str]) -> None:
        """In a child process, since a resolver can hang; what it said before holds as long as it says nothing. It
        prints what it finds in the order of the names, each with its canonical name in the first line."""
        try:
            result = self.tools.run("getent", "ahosts", *names)
        except SourceError:
            return
        found: dict[str, set[str]] = {}
        canonical = ""
        for address, said in LINE.findall(result.text):
            canonical = said.lower() or canonical
            found.setdefault(canonical, set()).add(address)
        for name in names:
            texts = found.get(name) or next((found[one] for one in found if one.startswith(f"{name}.")), None)
            if texts is None and len(names) == 1 and found:
                texts = set().union(*found.values())
            if texts is not None:
                self._looked_up[name] = hosts.addresses(name, texts)


def chosen_address(instance: Instance) -> str:
    """The address of an instance that its node is named by: a private one before others, IPv4 before IPv6, the
    lowest."""
    addresses = sorted((not ip.is_private, ip.version, int(ip)) for ip in map(ipaddress.ip_address, instance.addresses))
    if not addresses:
        raise SourceError(f"no address of {instance.id} is known: its node cannot be named yet")
    _, version, number = addresses[0]
    return str(ipaddress.IPv4Address(number) if version == 4 else ipaddress.IPv6Address(number))


def filled(template: str, instance: Instance) -> str:
    """A template of the configuration with what is known of an instance. Raises `SourceError` if it has no address
    yet."""
    address = chosen_address(instance)
    values = {"ip": re.sub(r"[.:]", "-", address), "address": address, "instance": instance.id}
    values.update({"pool": instance.pool, "flavour": instance.flavour})
    return re.sub(r"%(\w+)%", lambda place: values.get(place[1], place[0]), template)
