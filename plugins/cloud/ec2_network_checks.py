"""A pool's subnets, security groups and key pair, before the first launch."""

from __future__ import annotations

from typing import Iterator

from elastiq.interfaces import Check, Pool
from elastiq.plugins.cloud.ec2_fault import Fault
from elastiq.plugins.cloud.ec2_looks import Rows, Site, judged, listing

MORE = "add a subnet, or free addresses"


def _interfaces(pool: Pool) -> list[tuple[str, list[str]]]:
    """The subnet and the own groups of each interface: SUBNET[:GROUP+GROUP]."""
    entries = (entry.partition(":") for entry in pool.options.get("network_interfaces") or ())
    return [(subnet, own.split("+") if own else []) for subnet, _, own in entries]


def subnets_of(site: Site, pool: Pool) -> Rows:
    """What the cloud says of the pool's subnets. Raises `Fault`."""
    named = [*(pool.options.get("subnet_id") or ()), *(subnet for subnet, _ in _interfaces(pool))]
    wanted = list(dict.fromkeys(named))
    rows = site.described("describe_subnets", "Subnets", SubnetIds=wanted) if wanted else []
    return [row for row in rows if row.get("SubnetId") in wanted]  # some clouds list all


def subnets(site: Site, pool: Pool, subject: str) -> Iterator[Check]:
    site.reach()
    try:
        rows = subnets_of(site, pool)
    except Fault as fault:
        yield site.not_described(subject, fault)
        return
    wanted = {*(pool.options.get("subnet_id") or ()), *(subnet for subnet, _ in _interfaces(pool))}
    absent = sorted(wanted - {row["SubnetId"] for row in rows})
    if absent:
        yield Check(subject, "error", f"{listing(absent)}: no such subnet at {site.name}", "check subnet_id")
        return
    closed = [f"{row['SubnetId']} is {row['State']}" for row in rows if row.get("State") not in (None, "available")]
    if closed:
        yield Check(subject, "error", listing(closed), "name subnets that are available")
        return
    free = [int(row["AvailableIpAddressCount"]) for row in rows if "AvailableIpAddressCount" in row]
    if len(free) < len(rows):  # not every cloud counts them
        yield Check(subject, "ok", f"{listing(sorted(wanted))}: there")
        return
    # A machine takes an address in each of its interfaces' subnets, but in one subnet of subnet_id.
    room = min(free) if _interfaces(pool) else sum(free)
    yield judged(subject, f"addresses in {listing(sorted(wanted))}", room, site.owned(pool), pool, MORE)


def groups(site: Site, pool: Pool, subject: str) -> Iterator[Check]:
    """Whether they are there, and in the network of the subnets."""
    site.reach()
    own = [group for _, groups in _interfaces(pool) for group in groups]
    wanted = sorted({*(pool.options.get("security_group_ids") or ()), *own})
    if not wanted:
        yield Check(subject, "ok", "none named: the network's default group")
        return
    ids = [group for group in wanted if group.startswith("sg-")]
    names = [group for group in wanted if not group.startswith("sg-")]
    try:
        rows: Rows = []
        if ids:
            rows += site.described("describe_security_groups", "SecurityGroups", GroupIds=ids)
        if names:
            rows += site.described("describe_security_groups", "SecurityGroups", GroupNames=names)
    except Fault as fault:
        yield site.not_described(subject, fault)
        return
    found = [row for row in rows if {row.get("GroupId"), row.get("GroupName")} & {*wanted}]
    absent = sorted({*wanted} - {str(row.get(key)) for row in found for key in ("GroupId", "GroupName")})
    if absent:
        text = f"{listing(absent)}: no such security group at {site.name}"
        yield Check(subject, "error", text, "check security_group_ids")
        return
    networks = {str(row["VpcId"]) for row in found if row.get("VpcId")}
    theirs = _networks(site, pool)
    if networks and theirs and networks != theirs:
        text = f"of {', '.join(sorted(networks))}, while the subnets are of {', '.join(sorted(theirs))}"
        yield Check(subject, "error", text, "take groups and subnets of one network")
    else:
        yield Check(subject, "ok", f"{listing(wanted)}: there")


def _networks(site: Site, pool: Pool) -> set[str]:
    try:
        return {str(row["VpcId"]) for row in subnets_of(site, pool) if row.get("VpcId")}
    except Fault:
        return set()  # subnets have a check of their own


def key_pair(site: Site, pool: Pool, subject: str) -> Iterator[Check]:
    site.reach()
    name = pool.options["key_name"]
    try:
        rows = site.described("describe_key_pairs", "KeyPairs", KeyNames=[name])
    except Fault as fault:
        yield site.not_described(subject, fault)
        return
    if any(row.get("KeyName") == name for row in rows):
        yield Check(subject, "ok", f"{name} is there")
    else:
        yield Check(subject, "error", f"{name}: no such key pair at {site.name}", "check key_name")
