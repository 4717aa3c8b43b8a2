"""Whether the account's quota has room for a pool's machines.

AWS counts vCPUs, by families of instance types and by market ("Amazon EC2 instance type quotas" and "Spot Instance
quotas", EC2 documentation), and tells of it by another service, Service Quotas. The families are in the names of the
quotas: "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances", "All G and VT Spot Instance Requests".
Elsewhere DescribeAccountAttributes may tell of `max-instances`, which AWS does not keep any more. A dry run of a
launch looks at none of this.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Iterator, Mapping, Optional
from urllib.parse import urlsplit

from elastiq.interfaces import Check, Pool
from elastiq.plugins.cloud.ec2_client import EC2Client, pages
from elastiq.plugins.cloud.ec2_dialects import of_endpoint
from elastiq.plugins.cloud.ec2_fault import Fault
from elastiq.plugins.cloud.ec2_looks import IAM, NOT_ALLOWED, Rows, Site, judged
from elastiq.plugins.cloud.ec2_regions import REGION

RAISE = "ask for a higher quota, or lower min_vms and max_vms"
LOOK = "look for yourself: the account's quota of vCPUs, or of instances"
_NAME = re.compile(r"^(?:Running On-Demand (?P<on_demand>.+) instances|All (?P<spot>.+) Spot Instance Requests)$")
_NO_FAMILY = {"standard", "and"}
_OTHER_NAMES = {"memory": "u"}  # "High Memory" instances are u-6tb1.metal and the like
# Types whose first letter is not their family's; of others (im4gn) it is.
_LONG = ("dl", "hpc", "inf", "mac", "trn", "u", "vt")
_RUNS = ("pending", "running")


@dataclass(frozen=True)
class Quota:
    name: str
    vcpus: float
    market: str
    families: frozenset[str]


def service_quotas_url(options: Mapping[str, Any]) -> Optional[str]:
    """Where Service Quotas is: empty for AWS's own endpoint of it, None for a cloud that has none."""
    return "" if of_endpoint(options) == "aws" else None


def quota(site: Site, pool: Pool, subject: str) -> Iterator[Check]:
    site.reach()
    url = service_quotas_url(site.options)
    try:
        yield _of_attributes(site, pool, subject) if url is None else _of_vcpus(site, pool, subject, url)
    except Fault as fault:
        check = site.told(subject, fault, "warning" if fault.refused and fault.code not in NOT_ALLOWED else "unknown")
        allow = "servicequotas:ListServiceQuotas" if url is not None else f"ec2:{fault.operation}"
        may = fault.code in NOT_ALLOWED
        yield Check(subject, check.level, check.text, f"allow {allow} ({IAM}), or {LOOK}" if may else LOOK)


# --------------------------------------------------------------------------- a number of instances


def _of_attributes(site: Site, pool: Pool, subject: str) -> Check:
    asked: dict[str, Any] = {"AttributeNames": ["max-instances"]}
    rows = site.described("describe_account_attributes", "AccountAttributes", **asked)
    values = [
        str(value.get("AttributeValue"))
        for row in rows
        if row.get("AttributeName") == "max-instances"
        for value in row.get("AttributeValues") or ()
    ]
    if not values or not re.fullmatch("-?[0-9]+", values[0]):
        return Check(subject, "warning", "this cloud does not tell how many instances the account may have", LOOK)
    most = int(values[0])
    if most < 0:
        return Check(subject, "ok", "unlimited")
    used = sum(1 for row in site.listed() if (row.get("State") or {}).get("Name") != "terminated")
    return judged(subject, f"{most} instances, {used} are there", max(0, most - used), site.owned(pool), pool, RAISE)


# --------------------------------------------------------------------------- a number of vCPUs


def _of_vcpus(site: Site, pool: Pool, subject: str, url: str) -> Check:
    quotas = list(_quotas(site.once("quotas", lambda: _listed(site.options, url))))
    sizes = _vcpus(site, sorted({*pool.flavours} - {""}))
    rooms: list[tuple[int, str]] = []
    for market in dict.fromkeys(market or "on-demand" for market in pool.markets):
        for flavour, size in sizes.items():
            limit = quota_of(flavour, market, quotas)
            if limit is not None:
                used = _used(site.listed(), limit, quotas)
                each = f"{limit.name}: {limit.vcpus:g} vCPUs, {used:g} are in use; {flavour} has {size:g}"
                rooms.append((max(0, int((limit.vcpus - used) // size)), each))
    if not rooms:
        return Check(subject, "warning", "no quota of these flavours is known to Service Quotas", LOOK)
    room, text = max(rooms)  # the offers of one quota share it: of the best one alone there is room for so many
    return judged(subject, text, room, site.owned(pool), pool, RAISE)


def _listed(options: Mapping[str, Any], url: str) -> Rows:
    """All quotas of EC2 that Service Quotas knows. Raises `Fault`."""
    client = EC2Client(of_service(options, url))
    return pages(client.call, "list_service_quotas", "Quotas", ServiceCode="ec2", MaxResults=100)


def of_service(options: Mapping[str, Any], url: str) -> dict[str, Any]:
    """The options of a client of Service Quotas: its endpoint is another one, of the region that EC2's has."""
    in_host = REGION.search(urlsplit(options.get("api_url") or "").hostname or "")
    region = options.get("region") or (in_host[1] if in_host else None)
    return {**options, "service": "service-quotas", "api_url": url or None, "region": region, "signature": None}


def _quotas(rows: Rows) -> Iterator[Quota]:
    for row in rows:
        found = _NAME.match(str(row.get("QuotaName")))
        if found and row.get("Value") is not None:
            market, text = ("spot", found["spot"]) if found["spot"] else ("on-demand", found["on_demand"])
            words = {_OTHER_NAMES.get(word, word) for word in re.findall("[a-z]+[0-9]*", text.lower())}
            yield Quota(row["QuotaName"], float(row["Value"]), market, frozenset(words - _NO_FAMILY))


def quota_of(flavour: str, market: str, quotas: list[Quota]) -> Optional[Quota]:
    """The quota that a flavour counts for; None if none is known."""
    found = re.match("([a-z]+)([0-9]*)", flavour.lower())
    if not found:
        return None
    letters, number = found.groups()
    names = [letters + number, letters, *([] if letters in _LONG else [letters[0]])]
    for name in names:
        for one in quotas:
            if one.market == market and name in one.families:
                return one
    return None


def _used(rows: Rows, limit: Quota, quotas: list[Quota]) -> float:
    """The vCPUs that run now and count for that quota, whoever's they are."""
    counted = 0.0
    for row in rows:
        market = "spot" if row.get("InstanceLifecycle") == "spot" else "on-demand"
        runs = (row.get("State") or {}).get("Name") in _RUNS
        if runs and quota_of(row.get("InstanceType") or "", market, quotas) == limit:
            cpu = row.get("CpuOptions") or {}
            counted += (cpu.get("CoreCount") or 0) * (cpu.get("ThreadsPerCore") or 1)
    return counted


def _vcpus(site: Site, names: list[str]) -> dict[str, float]:
    asked = [{"Name": "instance-type", "Values": names}]
    rows = site.described("describe_instance_types", "InstanceTypes", Filters=asked)
    sizes = {row.get("InstanceType"): (row.get("VCpuInfo") or {}).get("DefaultVCpus") for row in rows}
    return {name: float(size) for name in names if (size := sizes.get(name))}
