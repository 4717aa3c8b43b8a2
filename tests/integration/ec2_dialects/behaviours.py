"""How each cloud answers, by its source or its documentation; the names of sources are in ec2_dialects.ini.

This table is not the daemon's: it says what the servers do, and the tests see whether the daemon's table
copes with it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Optional

ALL_TAGS = frozenset({"launch", "create"})


@dataclass(frozen=True)
class Behaviour:
    """One cloud. The defaults are EC2's own ways."""

    dialect: str  # what an administrator sets
    path: str = "/"
    signature: str = "v4"
    versions: Optional[tuple[str, ...]] = None  # those it knows, None: all; to others Eucalyptus gives its inner form
    declaration: bool = True  # an XML declaration
    request_id: bool = True
    # What it does with a parameter that it does not know: "refuse", "ignore", "crash" (ec2-api).
    unknown: str = "refuse"
    tags: frozenset[str] = ALL_TAGS  # "launch": TagSpecification is known; "create": CreateTags
    tokens: str = "honour"  # or "first" (finds one machine of it), "show", "ignore"
    pages: bool = True  # MaxResults and NextToken
    status: bool = True  # DescribeInstanceStatus
    types: str = "ec2"  # the form of DescribeInstanceTypes: "ec2", "eucalyptus", or "" where there is none
    stops: str = "all"  # StopInstances and StartInstances: as ``ended``, or "" where there are none
    spot: bool = False  # InstanceMarketOptions is known
    shutdown: bool = True  # InstanceInitiatedShutdownBehavior is known
    dry_run: bool = True
    # TerminateInstances names who ends: "all", "numbers" (12), "true" (nobody, but says true), "nobody" (says false)
    ended: str = "all"
    sequential: bool = False  # it ends one after the other up to the first unknown id, else all or none
    not_found: str = "InvalidInstanceID.NotFound"
    lingers: bool = True  # what has ended is listed for a while
    ids: str = "i-%017x"  # of machines in DescribeInstances
    ids_at_launch: str = ""  # in RunInstances, if they differ
    one_reservation: bool = False
    address: str = "privateIpAddress"  # where it tells the address
    two_addresses: bool = False  # two, in one element


AWS = Behaviour("aws", spot=True)

EUCALYPTUS = Behaviour(
    "eucalyptus", path="/services/compute", versions=("2013-02-01",), declaration=False, request_id=False,
    unknown="ignore", tags=frozenset({"create"}), tokens="show", pages=False, dry_run=False, ended="all",
    types="eucalyptus", ids="i-%08x",
)  # fmt: skip

EC2API = Behaviour(
    "openstack-ec2api", declaration=False, unknown="crash", tags=frozenset({"create"}), pages=False, status=False,
    types="", stops="true", dry_run=False, lingers=False, ids="i-%08x",
)  # fmt: skip

OPENNEBULA = Behaviour(
    "opennebula", signature="v2", declaration=False, request_id=False, unknown="ignore", tags=frozenset(),
    tokens="first", pages=False, status=False, types="", stops="", shutdown=False, dry_run=False, ended="numbers",
    sequential=True, ids="i-%d", ids_at_launch="i-%08d", one_reservation=True, address="privateDnsName",
    two_addresses=True,
)  # fmt: skip

OUTSCALE = Behaviour("outscale", types="", tags=frozenset({"create"}), ids="i-%08x")

# A cloud that nobody has heard of: it knows EC2 of ten years ago and refuses what is newer.
UNHEARD = Behaviour(
    "generic", tags=frozenset(), tokens="show", pages=False, status=False, types="", stops="", shutdown=False,
    dry_run=False, ids="i-%08x",
)  # fmt: skip

# OpenStack before ec2-api: nova drops in silence what it does not know, the token too.
NOVA = Behaviour(
    "generic", path="/services/Cloud", declaration=False, unknown="ignore", tags=frozenset(), tokens="ignore",
    pages=False, status=False, types="", stops="true", shutdown=False, dry_run=False, ended="true",
    not_found="InstanceNotFound", lingers=False, ids="i-%08x",
)  # fmt: skip

# A cloud that says yes to TagSpecification and forgets it.
FORGETFUL = Behaviour("generic", unknown="ignore", tags=frozenset({"create"}), ended="nobody", ids="i-%08x")

NAMED = {one.dialect: one for one in (AWS, EUCALYPTUS, EC2API, OPENNEBULA, OUTSCALE)}
# What `dialect` is left at auto for, at an endpoint that tells nothing.
GENERIC = {
    "generic": UNHEARD,
    "generic-nova": NOVA,
    "generic-forgetful": FORGETFUL,
    "generic-ec2api": replace(EC2API, dialect="generic"),
}
EVERY = {**NAMED, **GENERIC}
