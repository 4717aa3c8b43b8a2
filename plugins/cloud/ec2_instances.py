"""What DescribeInstances tells, as `Instance` objects: whose they are, their state and addresses. Pure."""

from __future__ import annotations

import ipaddress
from datetime import datetime, timezone
from typing import Any, Iterable, Iterator, Mapping, Optional

from elastiq.interfaces import Instance, Instances, InstanceState, Owner
from elastiq.plugins.cloud.ec2_request import TAG_CLUSTER, TAG_HEAD, TAG_INTENT, TAG_POOL

_ENDING_EVENTS = ("instance-retirement", "instance-stop")


def sort_instances(rows: Iterable[Mapping[str, Any]], owner: Owner, known: frozenset[str]) -> Instances:
    """Whose each instance is. Tags decide where there are any, else the token, else the store's memory.

    A tag of another head wins over our token and memory: it was adopted there.
    """
    owned: list[Instance] = []
    others: list[Instance] = []
    foreign: list[Instance] = []
    for row, one in {row["InstanceId"]: (row, described(row)) for row in rows}.values():
        cluster = _tags(row).get(TAG_CLUSTER, "")
        ours = (cluster, one.head) == (owner.cluster, owner.head)
        elsewhere = cluster not in ("", owner.cluster) or one.head not in ("", owner.head)
        made_here = one.token.startswith(owner.token_prefix) or one.id in known
        if one.id == owner.instance_id or one.addresses & owner.addresses:
            foreign.append(one)  # the head node itself, whatever its tags say
        elif ours or (made_here and not elsewhere):
            owned.append(one)
        else:
            (others if cluster == owner.cluster else foreign).append(one)
    live = [one for one in foreign if one.state is not InstanceState.TERMINATED]
    return Instances(
        owned=tuple(owned),
        other_heads=tuple(one for one in others if one.state is not InstanceState.TERMINATED),
        foreign=len(live),
        foreign_addresses=frozenset().union(*(one.addresses for one in live)),
    )


def described(row: Mapping[str, Any]) -> Instance:
    """One instance. States go by name: OpenStack sends "error" with the code of "pending"."""
    tags = _tags(row)
    state, detail = _state(row)
    launched: Optional[datetime] = row.get("LaunchTime")
    if launched and launched.tzinfo is None:
        launched = launched.replace(tzinfo=timezone.utc)  # some clouds leave the Z out
    return Instance(
        id=row["InstanceId"],
        state=state,
        addresses=frozenset(_addresses(row)),
        launched_at=launched.timestamp() if launched else None,
        flavour=row.get("InstanceType") or "",
        pool=tags.get(TAG_POOL, ""),
        intent=tags.get(TAG_INTENT, ""),
        token=row.get("ClientToken") or "",
        state_detail=detail,
        head=tags.get(TAG_HEAD, ""),
    )


def problem(row: Mapping[str, Any]) -> str:
    """What DescribeInstanceStatus holds against an instance, empty for nothing."""
    found = []
    for key, label in (("SystemStatus", "system"), ("InstanceStatus", "instance")):
        status = row.get(key) or {}
        if status.get("Status") == "impaired":
            failed = [one.get("Name") for one in status.get("Details") or () if one.get("Status") == "failed"]
            found.append(f"{label} status impaired" + (f" ({', '.join(map(str, failed))})" if failed else ""))
    for event in row.get("Events") or ():
        text = str(event.get("Description") or "")
        if event.get("Code") in _ENDING_EVENTS and not text.startswith(("[Completed]", "[Canceled]")):
            found.append(" ".join(f"{event['Code']} scheduled: {text}".split()).rstrip(": "))
    return "; ".join(found)


def _state(row: Mapping[str, Any]) -> tuple[InstanceState, str]:
    word = str((row.get("State") or {}).get("Name") or "")
    reason = (row.get("StateReason") or {}).get("Message") or row.get("StateTransitionReason") or ""
    try:
        state = InstanceState(word.strip().lower())
    except ValueError:
        state = InstanceState.UNKNOWN
    return state, " ".join(f"{word or 'no state'}: {reason}".split()).rstrip(": ")


def _tags(row: Mapping[str, Any]) -> dict[str, str]:
    return {str(tag.get("Key")): str(tag.get("Value") or "") for tag in row.get("Tags") or ()}


def _addresses(row: Mapping[str, Any]) -> Iterator[str]:
    """All private addresses of all interfaces, IPv6 included, in their usual spelling."""
    places = [row.get("PrivateIpAddress"), row.get("Ipv6Address")]
    places.append(row.get("PrivateDnsName"))  # OpenNebula puts the address there
    for interface in row.get("NetworkInterfaces") or ():
        places.append(interface.get("PrivateIpAddress"))
        places += [one.get("PrivateIpAddress") for one in interface.get("PrivateIpAddresses") or ()]
        places += [one.get("Ipv6Address") for one in interface.get("Ipv6Addresses") or ()]
    for place in places:
        address = _address(place)
        if address:
            yield address


def _address(text: Optional[str]) -> str:
    try:
        return str(ipaddress.ip_address(text or ""))
    except ValueError:
        return ""
