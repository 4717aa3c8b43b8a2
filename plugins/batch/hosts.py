"""Host names and addresses, without any look-up. Pure."""

from __future__ import annotations

import ipaddress
from contextlib import suppress
from typing import Iterable


def addresses(host: str, texts: Iterable[str] = ()) -> frozenset[str]:
    """Of the texts those that are addresses by which a machine can be known, and the one that the host's name spells:
    ``10-0-0-7.domain``, ``2001-db8--7.domain``, EC2's ``ip-10-0-0-7``; or the name is one itself."""
    label, found = host.partition(".")[0].removeprefix("ip-"), set()
    for text in (host, label.replace("-", "."), label.replace("-", ":"), *texts):
        with suppress(ValueError):
            ip = ipaddress.ip_address(text)
            if not (ip.is_loopback or ip.is_unspecified or ip.is_link_local):
                found.add(str(ip))
    return frozenset(found)
