"""The user data of new instances: %ipv4%, %ipv6% and %fqdn% in it become the head node's.

User data may be binary (gzip, MIME with attachments): everything here works on bytes. The head node's
addresses are found without a packet: connecting a UDP socket only asks the kernel for a route.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from contextlib import suppress
from pathlib import Path
from typing import Mapping, Optional

from elastiq.identity import IdentityError, own_addresses

LIMIT = 16_384
"""Bytes before base64 (EC2 User Guide, "Run commands at launch with instance user data")."""

_PLACEHOLDER = re.compile(rb"%(ipv4|ipv6|fqdn)%")

# Addresses for documentation (RFC 5737, RFC 3849): nobody's, so that the default route is meant.
_FAR = {"ipv4": (socket.AF_INET, "192.0.2.1"), "ipv6": (socket.AF_INET6, "2001:db8::1")}


class SubstitutionError(Exception):
    """A placeholder has no value. ``name`` is the key of [substitute] that would give it one."""

    def __init__(self, name: str) -> None:
        super().__init__(f"%{name}% cannot be found out on this machine, set [substitute] {name}")
        self.name = name


def substitute(data: bytes, given: Mapping[str, Optional[str]]) -> bytes:
    """Put in the given values, or what this machine says. Raises `SubstitutionError`."""
    values = {}
    for name in sorted({match.decode() for match in _PLACEHOLDER.findall(data)}):
        value = given.get(name) or (fqdn() if name == "fqdn" else own_address(name))
        if value is None:
            raise SubstitutionError(name)
        values[name.encode()] = value.encode()
    return _PLACEHOLDER.sub(lambda match: values[match.group(1)], data)


def own_address(name: str) -> Optional[str]:
    """This machine's address ("ipv4" or "ipv6") towards the default route, or its only one; else None."""
    family, far = _FAR[name]
    with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((far, 9))
        address = ipaddress.ip_address(probe.getsockname()[0].partition("%")[0])
        if not (address.is_loopback or address.is_link_local or address.is_unspecified):
            return str(address)
    with suppress(IdentityError):
        version = 4 if family is socket.AF_INET else 6
        found = [text for text in own_addresses() if ipaddress.ip_address(text).version == version]
        return found[0] if len(found) == 1 else None
    return None


def fqdn(root: Path = Path("/")) -> Optional[str]:
    """This machine's full name: its host name, or what /etc/hosts or /etc/resolv.conf add to it; no DNS."""
    host = socket.gethostname().rstrip(".")
    if "." in host:
        return host
    for words in _lines(root / "etc/hosts"):
        if host in words[1:]:
            full = next((word for word in words[1:] if word.startswith(f"{host}.")), None)
            if full and full.partition(".")[2] != "localdomain":
                return full
    domains = [words[1] for words in _lines(root / "etc/resolv.conf") if words[0] in ("domain", "search")]
    return f"{host}.{domains[-1].strip('.')}" if domains and domains[-1].strip(".") else None


def _lines(path: Path) -> list[list[str]]:
    try:
        text = path.read_text("utf-8", errors="replace")
    except OSError:
        return []
    lines = (line.partition("#")[0].split() for line in text.splitlines())
    return [words for words in lines if len(words) > 1]
