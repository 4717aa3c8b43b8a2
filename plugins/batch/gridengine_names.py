"""Names and addresses of hosts, by the machine's own resolver: /etc/hosts, DNS, whatever nsswitch.conf(5) says.

Grid Engine knows hosts by names alone. A name that spells its address (EC2's ``ip-10-0-0-7``) needs no look-up; others
are looked up once, by ``getent``, in a process that can be given up.
"""

from __future__ import annotations

import ipaddress
from typing import Iterable

from elastiq.errors import SourceError
from elastiq.plugins.batch import hosts
from elastiq.plugins.batch.tools import Tools

NOT_FOUND = 2  # getent(1)
NEW_AT_ONCE = 20  # look-ups in one read
AGAIN_READS = 20  # after which a name without an address is looked up again
HOW = "see docs/batch/gridengine.md, Names"


class Names:
    """What was looked up, and what was registered."""

    def __init__(self, timeout_s: float) -> None:
        self._tools = Tools(min(timeout_s, 10.0), "getent belongs to the C library")
        self._addresses: dict[str, frozenset[str]] = {}
        self._unknown: dict[str, int] = {}  # for how many reads more a name is not looked up

    def name_of(self, addresses: Iterable[str]) -> str:
        """The name of the host with one of these addresses. Raises `SourceError` if none has one."""
        ordered = sorted(addresses, key=lambda text: (ipaddress.ip_address(text).version, text))
        for address in ordered:
            result = self._tools.run("getent", "hosts", address)
            words = result.text.split()
            if result.returncode == 0 and len(words) >= 2:
                return words[1]
            if result.returncode != NOT_FOUND:
                raise SourceError(f"getent hosts {address} failed with {result.ending}")
        raise SourceError(f"the address {', '.join(ordered)} has no name, by which Grid Engine would know it ({HOW})")

    def register(self, name: str, addresses: frozenset[str]) -> None:
        """Remember whose name this is."""
        self._addresses[name.lower()] = addresses
        self._unknown.pop(name.lower(), None)

    def forget(self, name: str) -> None:
        self._addresses.pop(name.lower(), None)

    def look_up(self, names: Iterable[str]) -> None:
        """Find the addresses of names that do not spell theirs, a few in each read; what is not found is not known."""
        wanted = [name for name in map(str.lower, names) if name not in self._addresses and not hosts.addresses(name)]
        self._unknown = {name: reads - 1 for name, reads in self._unknown.items() if reads > 1}
        for name in [name for name in wanted if name not in self._unknown][:NEW_AT_ONCE]:
            try:
                result = self._tools.run("getent", "ahosts", name)
            except SourceError:
                return  # the resolver hangs: the next read tries again, and the others need not wait for it
            lines = [line.split() for line in result.text.splitlines()]
            found = hosts.addresses(name, [words[0] for words in lines if words])
            if found:
                self._addresses[name] = found
            else:
                self._unknown[name] = AGAIN_READS

    def addresses(self, name: str) -> frozenset[str]:
        """As far as they are known; no look-up."""
        return hosts.addresses(name, self._addresses.get(name.lower(), ()))
