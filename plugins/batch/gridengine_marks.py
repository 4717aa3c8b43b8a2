"""Who has disabled a queue of a host: ``qmod -d`` leaves no reason, so we leave a mark of our own.

A mark is the host's membership in a host group that no queue uses, ``@elastiq.HEAD.QUEUE``: set before ``qmod -d``,
taken away after ``qmod -e``, both in one step by the master (``qconf -aattr``, ``-dattr``). It outlives elastiq and the
master, and says which instances of the queues are ours to enable, where an administrator had disabled others before.
"""

from __future__ import annotations

from typing import Iterable, Mapping

from elastiq.errors import SourceError
from elastiq.plugins.batch import gridengine_xml as xml
from elastiq.plugins.batch.gridengine_master import Master
from elastiq.plugins.batch.tools import failed

PREFIX = "@elastiq."
STDIN = "/proc/self/fd/0"  # qconf reads files only
EXISTS = "already exists"


class Marks:
    """The marks of all heads in one cluster. Every method raises `SourceError`."""

    def __init__(self, master: Master, head: str) -> None:
        self._master, self._head = master, head

    def all(self) -> Mapping[str, Mapping[str, str]]:
        """By host (in lower case) and queue: the head that has disabled it."""
        found: dict[str, dict[str, str]] = {}
        for group in host_groups(self._master):
            head, _, queue = group[len(PREFIX) :].partition(".")
            if group.startswith(PREFIX) and queue:
                for name in members(self._master, group):
                    found.setdefault(name, {})[queue] = head
        return found

    def ours(self, host: str) -> frozenset[str]:
        """The queues of a host that we have disabled."""
        found = self.all().get(host.lower(), {})
        return frozenset(queue for queue, head in found.items() if head == self._head)

    def set(self, host: str, queues: Iterable[str]) -> None:
        for queue in queues:
            add_to_group(self._master, host, f"{PREFIX}{self._head}.{queue}")

    def clear(self, host: str, queues: Iterable[str]) -> None:
        for queue in queues:
            remove_from_group(self._master, host, f"{PREFIX}{self._head}.{queue}")


def host_groups(master: Master) -> list[str]:
    """The names of all host groups."""
    result = master.run("qconf", "-shgrpl")
    if result.returncode != 0:
        if b"no host group" in result.stderr + result.stdout:
            return []
        raise failed(result, ["qconf", "-shgrpl"])
    return result.text.split()


def members(master: Master, group: str) -> list[str]:
    """What a group lists, in lower case: hosts, and other groups by their names."""
    listed = xml.configuration(master.ask("qconf", "-shgrp", group)).get("hostlist")
    if listed is None:
        raise SourceError(f"qconf -shgrp {group} printed no hostlist")
    return [name.lower() for name in listed.split() if name != "NONE"]


def add_to_group(master: Master, host: str, group: str) -> None:
    """Make the host a member; the group is made where there is none."""
    said = master.change("qconf", "-aattr", "hostgroup", "hostlist", host, group, fine="does not exist")
    if "does not exist" in said:
        text = f"group_name {group}\nhostlist {host}\n".encode()
        said = master.change("qconf", "-Ahgrp", STDIN, stdin=text, fine=EXISTS)
        if EXISTS in said:  # somebody was faster
            master.change("qconf", "-aattr", "hostgroup", "hostlist", host, group)
        elif "added" not in said:  # a file that it cannot read is no failure to qconf
            raise SourceError(f"the host group {group} could not be made: {' '.join(said.split())[:200]}")


def remove_from_group(master: Master, host: str, group: str) -> None:
    """Let the host be no member, where there is such a group."""
    master.change("qconf", "-dattr", "hostgroup", "hostlist", host, group, fine="does not exist")
