"""What DescribeInstances tells, as `Instance` objects: whose they are, their state and addresses. Pure."""

from __future__ import annotations

import ipaddress
from contextlib import suppress
from datetime import datetime, timezone
from typing import Any, Iterable, Iterator, Mapping, Optional

from elastiq.interfaces import Instance, Instances, InstanceState, Owner
from elastiq.plugins.cloud.ec2_request import TAG_CLUSTER, TAG_HEAD, TAG_INTENT, TAG_POOL

_SPOT_ENDS = ("Server.SpotInstanceTermination", "Server.SpotInstanceShutdown")  # "StateReason", EC2 API Reference


def sort_instances(rows: Iterable[Mapping[str, Any]], owner: Owner, known: frozenset[str]) -> Instances:
    """Whose each instance is. Tags decide where there are any, else the token, else the store's memory.

    A tag of another head wins over our token and memory: it was adopted there.
    """
    owned: list[Instance] = []
    others: list[Instance] = []
    foreign: list[Instance] = []
    for row in {row["InstanceId"]: row for row in rows}.values():
        one, cluster = described(row), _tags(row).get(TAG_CLUSTER, "")
        ours = (cluster, one.head) == (owner.cluster, owner.head)
        elsewhere = cluster not in ("", owner.cluster) or one.head not in ("", owner.head)
        made_here = one.token.startswith(owner.token_prefix) or one.id in known
        if one.id == owner.instance_id or one.addresses & owner.addresses:
            place = foreign  # the head node itself, whatever its tags say
        elif ours or (made_here and not elsewhere):
            place = owned
        else:
            place = others if cluster == owner.cluster else foreign
        if place is owned or one.state is not InstanceState.TERMINATED:
            place.append(one)
    return Instances(tuple(owned), tuple(others), len(foreign), frozenset().union(*(one.addresses for one in foreign)))


def described(row: Mapping[str, Any]) -> Instance:
    """One instance. States go by name: OpenStack sends "error" with the code of "pending"."""
    tags = _tags(row)
    state, detail = _state(row)
    launched: Optional[datetime] = row.get("LaunchTime")
    launched_at = None
    with suppress(ValueError):  # a zone of more than a day; some clouds leave the zone out
        launched_at = launched.replace(tzinfo=launched.tzinfo or timezone.utc).timestamp() if launched else None
    return Instance(
        id=row["InstanceId"],
        state=state,
        addresses=frozenset(_addresses(row)),
        launched_at=launched_at,
        flavour=row.get("InstanceType") or "",
        pool=tags.get(TAG_POOL, ""),
        intent=tags.get(TAG_INTENT, ""),
        token=row.get("ClientToken") or "",
        state_detail=detail,
        head=tags.get(TAG_HEAD, ""),
        notice=detail if (row.get("StateReason") or {}).get("Code") in _SPOT_ENDS else "",
        image=row.get("ImageId") or "",
    )


def _state(row: Mapping[str, Any]) -> tuple[InstanceState, str]:
    word = str((row.get("State") or {}).get("Name") or "")
    reason = (row.get("StateReason") or {}).get("Message") or row.get("StateTransitionReason") or ""
    state = next((state for state in InstanceState if state.value == word.strip().lower()), InstanceState.UNKNOWN)
    return state, " ".join(f"{word or 'no state'}: {reason}".split()).rstrip(": ")


def _tags(row: Mapping[str, Any]) -> dict[str, str]:
    return {str(tag.get("Key")): str(tag.get("Value") or "") for tag in row.get("Tags") or ()}


def _addresses(row: Mapping[str, Any]) -> Iterator[str]:
    """All private addresses of all interfaces, IPv6 included, in their usual spelling."""
    places = [row, *(row.get("NetworkInterfaces") or ())]
    for one in places[1:]:
        places += [*(one.get("PrivateIpAddresses") or ()), *(one.get("Ipv6Addresses") or ())]
    # OpenNebula puts addresses where the name belongs, several in one
    keys = ("PrivateIpAddress", "Ipv6Address", "PrivateDnsName")
    for text in ",".join(place.get(key) or "" for place in places for key in keys).split(","):
        with suppress(ValueError):
            yield str(ipaddress.ip_address(text.strip()))
