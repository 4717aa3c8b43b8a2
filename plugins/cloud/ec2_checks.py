"""What can be found wrong with an EC2 site before the first launch: `elastiqctl check`.

Everything is a read, but for dry runs (`ec2_dry_runs`). docs/check.md says what each means.
"""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from functools import partial
from typing import Any, Callable, Iterable, Iterator, Mapping

from elastiq.interfaces import Check, Looks, Owner, Pool, SourceError, ThrottledError, TransientError
from elastiq.plugins.cloud import ec2_dry_runs, ec2_network_checks, ec2_pool_checks, ec2_quotas
from elastiq.plugins.cloud.ec2_fault import Fault
from elastiq.plugins.cloud.ec2_instances import sort_instances
from elastiq.plugins.cloud.ec2_looks import IAM, NOT_ALLOWED, Site, listing
from elastiq.plugins.cloud.ec2_notices import peek
from elastiq.plugins.cloud.ec2_rare_values import is_open, original

# EC2 refuses what was signed 5 minutes ago or more (RequestExpired; "Signature Version 4", IAM User Guide).
REFUSED_S, DOUBTFUL_S = 300.0, 60.0
OF_A_POOL: Mapping[str, Callable[[Site, Pool, str], Iterator[Check]]] = {
    "image": ec2_pool_checks.image,
    "launch template": ec2_pool_checks.template,
    "flavours": ec2_pool_checks.flavours,
    "user data": ec2_pool_checks.user_data,
    "subnets": ec2_network_checks.subnets,
    "security groups": ec2_network_checks.groups,
    "key pair": ec2_network_checks.key_pair,
    "dry run of a launch": ec2_dry_runs.launch,
    "quota of the account": ec2_quotas.quota,
}


def looks(name: str, pools: Iterable[Pool], owner: Owner, refused: frozenset[str], options: Mapping[str, Any]) -> Looks:
    """The checks of a site, each by its subject; ``options`` are those of its client, ``refused`` the extras of
    RunInstances that this cloud is known not to take."""
    site = Site(name, pools, owner, refused, options)
    found: dict[str, Callable[[], Iterable[Check]]] = {
        subject: partial(look, site, subject)
        for subject, look in (
            ("endpoint and credentials", _endpoint),
            ("clock", _clock),
            ("instances of this cluster", _others),
            ("instance status", _status),
            ("right to terminate", ec2_dry_runs.terminate),
            ("right to tag", ec2_dry_runs.tag),
        )
    }
    if site.options.get("credentials_file"):
        found["file of keys"] = partial(_file, site, "file of keys")
    if site.options.get("interruption_queue"):
        found["interruption queue"] = partial(_queue, site, "interruption queue")
    for pool in site.pools:
        for what, look_at in OF_A_POOL.items():
            subject = f"pool {pool.name}: {what}"
            if ec2_pool_checks.concerns(what, pool):
                found[subject] = partial(_of_a_pool, look_at, site, pool, subject)
    return found


def _of_a_pool(
    look: Callable[[Site, Pool, str], Iterator[Check]], site: Site, pool: Pool, subject: str
) -> Iterator[Check]:
    try:
        yield from look(site, pool, subject)
    except Fault as fault:
        yield site.told(subject, fault)


def _endpoint(site: Site, subject: str) -> Iterator[Check]:
    """Nothing works without; so one that cannot be reached, or is something else, is an error."""
    try:
        count = len(site.listed())
    except Fault as fault:
        passing = fault.kind is ThrottledError or (fault.kind is TransientError and 500 <= fault.status)
        check = site.told(subject, fault, "unknown" if passing else "error")
        there = "check api_url, and that this machine reaches it (network, firewall, proxy)"
        yield check if passing or fault.kind is not TransientError else replace(check, remedy=there)
        return
    yield Check(subject, "ok", f"answers, takes the credentials, lists {count} instances ({site.about})")


def _clock(site: Site, subject: str) -> Iterator[Check]:
    """By the time in the answer's head, which a refusal has, too."""
    try:
        site.listed()
    except Fault:
        pass  # what it is about is said elsewhere
    off_s = site.skew_s
    if off_s is None:
        raise SourceError("the endpoint did not say what time it is")
    text = f"this machine's is {abs(off_s):.0f} s {'ahead of' if off_s > 0 else 'behind'} the cloud's"
    remedy = "set the clock, and keep it right: chrony or systemd-timesyncd"
    if abs(off_s) > DOUBTFUL_S:
        near = abs(off_s) < REFUSED_S - DOUBTFUL_S
        yield Check(subject, "warning" if near else "error", f"{text}; from {REFUSED_S:.0f} s on EC2 refuses", remedy)
    else:
        yield Check(subject, "ok", "as the cloud's" if abs(off_s) < 3 else text)


def _others(site: Site, subject: str) -> Iterator[Check]:
    site.reach()
    found = sort_instances(_listed(site), site.owner, frozenset())
    if found.other_heads:
        names = listing([one.id for one in found.other_heads])
        text = f"{names}: of another head node with the same cluster_name; counted, and never touched"
        remedy = "choose another cluster_name, or take them over: elastiqctl adopt"
        yield Check(subject, "warning", text, remedy)
    else:
        yield Check(subject, "ok", f"{len(found.owned)} of this head node, none of another's")


def _listed(site: Site) -> Iterable[Mapping[str, Any]]:
    try:
        return site.listed()
    except Fault as fault:
        raise site.error(fault) from None


def _status(site: Site, subject: str) -> Iterator[Check]:
    """Without it elastiq learns of broken machines later: by what becomes of their workers."""
    site.reach()
    if not site.dialect.getboolean("status"):
        yield Check(subject, "ok", "this cloud has none: a broken machine is known by its worker that is lost")
        return
    try:
        site.described("describe_instance_status", "InstanceStatuses")
        yield Check(subject, "ok", "can be read")
    except Fault as fault:
        check = site.told(subject, fault, "warning" if fault.denied else "")
        remedy = f"allow ec2:DescribeInstanceStatus ({IAM})" if fault.code in NOT_ALLOWED else check.remedy
        yield Check(subject, check.level, f"{check.text}: a broken machine is known only by its lost worker", remedy)


def _file(site: Site, subject: str) -> Iterator[Check]:
    """Who else can read the keys."""
    path = site.options["credentials_file"]
    if (itself := original(path)) != path:
        text = f"{os.path.basename(path)}, which systemd gives to the service alone"
        if is_open(itself):
            text = f"{text}; but {itself}, of which it is a copy, is open to all users"
            yield Check(subject, "warning", text, f"chmod go= {itself}")
        else:
            yield Check(subject, "ok", text)
        return
    try:
        mode = stat.S_IMODE(os.stat(path).st_mode)
    except OSError as error:
        yield Check(subject, "error", f"{path}: {error.strerror}", "check credentials_file")
        return
    if mode & 0o077:
        text = f"{path}: others can read or write it (mode {mode:04o})"
        yield Check(subject, "warning", text, f"chmod go= {path}; docs/service.md shows how it can be for root alone")
    else:
        yield Check(subject, "ok", f"{path}: mode {mode:04o}")


def _queue(site: Site, subject: str) -> Iterator[Check]:
    try:
        peek(site.options)
        yield Check(subject, "ok", "can be read; what is in it was left there")
    except Fault as fault:
        check = site.told(subject, fault)
        yield Check(subject, check.level, check.text, f"{check.remedy} (docs/spot.md)")
