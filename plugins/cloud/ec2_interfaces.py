"""Several network interfaces of one instance. Loaded where ``network_interfaces`` is set.

Pure.
"""

from __future__ import annotations

from typing import Any, Iterable, Sequence


def interfaces(entries: Iterable[str], groups: Sequence[str]) -> list[dict[str, Any]]:
    """As RunInstances takes them, of entries ``SUBNET`` or ``SUBNET:GROUP+GROUP``; ``groups`` are of those that name
    none."""
    found = []
    for index, entry in enumerate(entries):
        network, _, own = entry.partition(":")
        one = {"DeviceIndex": index, "SubnetId": network, "DeleteOnTermination": True}
        taken = own.split("+") if own else groups
        found.append({**one, "Groups": list(taken)} if taken else one)
    return found
