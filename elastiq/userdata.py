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
from typing import Callable, Mapping, Optional

from elastiq.identity import IdentityError, own_addresses
from elastiq.inifile import ConfigError, Entry, Problems, Section, read_file

LIMIT = 16_384
"""Bytes before base64 (EC2 User Guide, "Run commands at launch with instance user data")."""

_PLACEHOLDER = re.compile(rb"%(ipv4|ipv6|fqdn)%")

# Addresses for documentation (RFC 5737, RFC 3849): nobody's, so that the default route is meant.
_FAR = {"ipv4": (socket.AF_INET, "192.0.2.1"), "ipv6": (socket.AF_INET6, "2001:db8::1")}


def of_section(
    section: Section,
    file: Optional[str],
    data: bytes,
    given: Mapping[str, Optional[str]],
    bad: Callable[[Entry, str], None],
    warnings: Problems,
) -> bytes:
    """What new instances get: ``data``, or what is in the file, if any. ``bad`` is told of what cannot be used."""
    entry = section.entries["user_data_file" if file else "user_data_b64"]
    try:
        if file:
            data, mode = read_file(file, 4 * LIMIT)
            warnings.at_open_file(entry.section, entry.key, file, mode)
        return substitute(data, given)
    except ConfigError as error:
        bad(entry, error.problems[0])
        return b""


def substitute(data: bytes, given: Mapping[str, Optional[str]]) -> bytes:
    """Put in the given values, or what this machine says.

    Raises `ConfigError` if a placeholder has no value, and if the outcome has more than `LIMIT` bytes.
    """
    values = {}
    for name in sorted({match.decode() for match in _PLACEHOLDER.findall(data)}):
        value = given.get(name) or (fqdn() if name == "fqdn" else own_address(name))
        if value is None:
            raise ConfigError([f"%{name}% cannot be found out on this machine, set [substitute] {name}"])
        values[name.encode()] = value.encode()
    whole = _PLACEHOLDER.sub(lambda match: values[match.group(1)], data)
    if len(whole) > LIMIT:
        raise ConfigError([f"has {len(whole)} bytes or more, the limit is {LIMIT}; fetch the rest at boot"])
    return whole


def own_address(name: str) -> Optional[str]:
    """This machine's address ("ipv4" or "ipv6") towards the default route, or its only one; else None."""
    with suppress(IdentityError):
        mine = [text for text in own_addresses() if name == f"ipv{ipaddress.ip_address(text).version}"]
        family, far = _FAR[name]
        with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((far, 9))
            towards: str = probe.getsockname()[0]
            if towards in mine:  # which holds no loopback or link-local address
                return towards
        if len(mine) == 1:
            return mine[0]
    return None


def fqdn(root: Path = Path("/")) -> Optional[str]:
    """This machine's full name: its host name, or what /etc/hosts or /etc/resolv.conf add to it; no DNS."""
    host = socket.gethostname().rstrip(".")
    if "." in host:
        return host
    names = [word for words in _lines(root / "etc/hosts") if host in words[1:] for word in words[1:]]
    full = [name for name in names if name.startswith(f"{host}.") and name != f"{host}.localdomain"]
    domains = [words[1].strip(".") for words in _lines(root / "etc/resolv.conf") if words[0] in ("domain", "search")]
    full += [f"{host}.{domain}" for domain in domains[-1:] if domain]  # the last one counts (resolv.conf(5))
    return full[0] if full else None


def _lines(path: Path) -> list[list[str]]:
    """The words of each line that has more than one, none where there is no such file."""
    with suppress(OSError):
        lines = path.read_text("utf-8", errors="replace").splitlines()
        return [words for line in lines if len(words := line.partition("#")[0].split()) > 1]
    return []
