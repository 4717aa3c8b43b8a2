"""Who this head node is: a name that survives a lost state directory, and what must never be ended.

Read from files only; nothing here waits for a network.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
import os
import re
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Iterator, Optional

from elastiq.interfaces import Owner

HEAD_ID_FILE = "head-id"
_ID = re.compile(r"[0-9a-f]{32}")
_INSTANCE_ID = re.compile(r"i-[0-9a-f]{8,17}")


class IdentityError(Exception):
    """This head node cannot be told from others. The text is one line for a person."""


def owner(cluster_name: str, statedir: Path, *, root: Path = Path("/")) -> Owner:
    """Who we are, for this user, cluster and machine. ``root`` holds the machine's /etc, /proc and /sys.

    The head's id is a keyed hash, so that the machine id itself (which is confidential, machine-id(5))
    is in no tag. Raises `IdentityError`.
    """
    machine = _machine_id(root) or _kept_id(statedir)
    message = f"elastiq:{os.getuid()}:{cluster_name}".encode()
    head = hmac.new(machine.encode(), message, hashlib.sha256).hexdigest()
    return Owner(cluster_name, head, own_addresses(root), own_instance_id(root))


def _machine_id(root: Path) -> Optional[str]:
    """The id of this machine; None where it has none: missing, empty, "uninitialized", all zero."""
    for name in ("etc/machine-id", "var/lib/dbus/machine-id"):
        with suppress(OSError, ValueError):
            text = (root / name).read_text("ascii").strip().lower()
            if _ID.fullmatch(text) and text.strip("0"):
                return text
    return None


def _kept_id(statedir: Path) -> str:
    """A random id, made once and kept: whoever loses it loses the right to his own instances."""
    path = statedir / HEAD_ID_FILE
    try:
        if not path.exists():
            part = statedir / f"{HEAD_ID_FILE}.{os.getpid()}"
            fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(fd, "w", encoding="ascii") as file:
                file.write(secrets.token_hex(16) + "\n")
                file.flush()
                os.fsync(fd)
            with suppress(FileExistsError):
                os.link(part, path)  # never replaces what another process has just made
            part.unlink()
        text = path.read_text("ascii", errors="replace").strip()
    except OSError as error:
        raise IdentityError(
            f"{path}: this machine has no machine id, and one of our own cannot be kept: {error.strerror}"
        ) from None
    if not _ID.fullmatch(text):
        raise IdentityError(f"{path}: does not hold an id of 32 hexadecimal digits; restore or remove it")
    return text


def own_addresses(root: Path = Path("/")) -> frozenset[str]:
    """All addresses of this machine, but loopback and link-local ones. Raises `IdentityError`."""
    net = root / "proc/net"
    try:
        found = set(_ipv4((net / "fib_trie").read_text("ascii")))
    except OSError as error:
        # Unknown is not empty: without its addresses the head node could not tell itself from a worker.
        raise IdentityError(f"{net}/fib_trie: cannot read our own addresses: {error.strerror}") from None
    with suppress(FileNotFoundError):  # IPv6 is switched off
        found.update(_ipv6((net / "if_inet6").read_text("ascii")))
    return frozenset(
        str(address)
        for address in map(ipaddress.ip_address, found)
        if not (address.is_loopback or address.is_link_local)
    )


def _ipv4(fib_trie: str) -> Iterator[str]:
    """The kernel's local table: an address on a line of its own, what it is on the next one."""
    address = ""
    for line in fib_trie.splitlines():
        words = line.split()
        if words[:1] == ["|--"]:
            address = words[1]
        elif words == ["/32", "host", "LOCAL"]:
            yield address


def _ipv6(if_inet6: str) -> Iterator[str]:
    for line in if_inet6.splitlines():
        yield str(ipaddress.IPv6Address(bytes.fromhex(line.split()[0])))


def own_instance_id(root: Path = Path("/")) -> Optional[str]:
    """The cloud's name of this machine: from the firmware (EC2 writes it there), else from what cloud-init
    left on disk. None where neither says."""
    with suppress(OSError, ValueError):
        text = (root / "sys/class/dmi/id/board_asset_tag").read_text("ascii").strip()
        if _INSTANCE_ID.fullmatch(text):
            return text
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):  # of another shape
        data = json.loads((root / "run/cloud-init/instance-data.json").read_text("utf-8"))
        ec2 = (data.get("ds") or {}).get("meta_data") or {}
        for found in (ec2.get("instance-id"), data["v1"].get("instance_id")):
            if isinstance(found, str) and _INSTANCE_ID.fullmatch(found):
                return found
    with suppress(OSError, ValueError):
        text = (root / "var/lib/cloud/data/instance-id").read_text("ascii").strip()
        if _INSTANCE_ID.fullmatch(text):
            return text
    return None
