"""Who this head node is: a name that survives a lost state directory, and what must never be ended.

Read from files only; nothing here waits for a network.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Mapping, Optional

from elastiq.interfaces import Owner

# None where it is "uninitialized", or all zero.
_MACHINE_ID = dict.fromkeys(("etc/machine-id", "var/lib/dbus/machine-id"), r"\s*((?!0{32})[0-9A-Fa-f]{32})\s*\Z")
# In /proc/net/fib_trie: an address on a line of its own, what it is on the next ones.
_LOCAL_IPV4 = re.compile(r"\|-- (\S+)\n(?: +/.*\n)*? +/32 host LOCAL\b")
# Where an instance finds its own id: in the firmware (EC2 writes it there), else in what cloud-init left on disk.
_INSTANCE_ID = {
    "sys/class/dmi/id/board_asset_tag": r"\s*(i-[0-9a-f]{8,17})\s*\Z",
    "run/cloud-init/instance-data.json": r'(?s:.*?)"instance[-_]id"\s*:\s*"(i-[0-9a-f]{8,17})"',
    "var/lib/cloud/data/instance-id": r"\s*(i-[0-9a-f]{8,17})\s*\Z",
}


class IdentityError(Exception):
    """This head node cannot be told from others. The text is one line for a person."""


def owner(cluster_name: str, statedir: Path, *, root: Path = Path("/"), uid: Optional[int] = None) -> Owner:
    """Who we are, for this user, cluster and machine. ``root`` holds the machine's /etc, /proc and /sys.

    The head's id is a keyed hash, so that the machine id itself (which is confidential, machine-id(5))
    is in no tag. Raises `IdentityError`.
    """
    machine = _said(root, _MACHINE_ID)
    if machine is None:
        from elastiq.headid import kept_id

        try:
            machine = kept_id(statedir)
        except ValueError as error:
            raise IdentityError(str(error)) from None
    message = f"elastiq:{os.getuid() if uid is None else uid}:{cluster_name}".encode()
    head = hmac.new(machine.lower().encode(), message, hashlib.sha256).hexdigest()
    return Owner(cluster_name, head, own_addresses(root), own_instance_id(root))


def own_addresses(root: Path = Path("/")) -> frozenset[str]:
    """All addresses of this machine, but loopback and link-local ones. Raises `IdentityError`."""
    net = root / "proc/net"
    try:
        found: list[str | bytes] = _LOCAL_IPV4.findall((net / "fib_trie").read_text("ascii"))
        with suppress(FileNotFoundError):  # IPv6 is switched off
            found += [bytes.fromhex(line[:32]) for line in (net / "if_inet6").read_text("ascii").splitlines()]
    except OSError as error:
        # Unknown is not empty: without its addresses the head node could not tell itself from a worker.
        raise IdentityError(f"{net}: cannot read our own addresses: {error.strerror}") from None
    return frozenset(str(one) for one in map(ipaddress.ip_address, found) if not (one.is_loopback or one.is_link_local))


def own_instance_id(root: Path = Path("/")) -> Optional[str]:
    """The cloud's name of this machine; None where nothing on it says."""
    return _said(root, _INSTANCE_ID)


def _said(root: Path, places: Mapping[str, str]) -> Optional[str]:
    """What the first file that has it says, as its pattern finds it."""
    for name, pattern in places.items():
        with suppress(OSError, ValueError):
            found = re.match(pattern, (root / name).read_text("utf-8"))
            if found:
                return found[1]
    return None
