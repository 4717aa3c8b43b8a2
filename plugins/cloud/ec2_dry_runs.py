"""Whether EC2 would allow what elastiq does: DryRun.

A permitted dry run is refused with DryRunOperation, another one with UnauthorizedOperation ("Amazon EC2 API
Reference", each action). It tells of rights and of what the request names, not of room: limits are not looked at
(aws-parallelcluster, pull request 1779). A cloud that ignores DryRun would launch, so that it is sent only where the
dialect is known to take it (``dry_run`` in ec2_dialects.ini); what is launched all the same is ended at once, and
said loudly.

Nothing is dry-run on an instance that is there: a mistake, ours or the cloud's, would cost jobs.
"""

from __future__ import annotations

import uuid
from contextlib import suppress
from typing import Iterator, Mapping, Optional

from elastiq.interfaces import Check, Intent, Offer, Pool
from elastiq.plugins.cloud.ec2_errors import NOT_FOUND
from elastiq.plugins.cloud.ec2_extras import refused_extras
from elastiq.plugins.cloud.ec2_fault import Fault
from elastiq.plugins.cloud.ec2_looks import IAM, NOT_ALLOWED, Site, listing
from elastiq.plugins.cloud.ec2_request import TAG_CLUSTER, TAG_HEAD, run_parameters, tag_list

WOULD = "DryRunOperation"
NOBODYS = "i-0e1a5719c4ec00d1e"  # the form of an id, and no instance's
OFFERS = 24  # so many of a pool are tried
END_TRIES = 3


def launch(site: Site, pool: Pool, subject: str) -> Iterator[Check]:
    """Each offer of the pool, with all that a launch would send."""
    site.reach()
    if not site.dialect.getboolean("dry_run"):
        yield _not_tried(site, subject, "a launch", "the first launch shows")
        return
    offers = pool.offers()
    found: dict[Check, list[Offer]] = {}
    for offer in offers[:OFFERS]:
        found.setdefault(_launch(site, pool, offer, subject), []).append(offer)
    for check, of in found.items():
        which = "" if len(of) == len(offers) else f" (for {listing([str(offer) for offer in of])})"
        yield Check(subject, check.level, check.text + which, check.remedy)


def _launch(site: Site, pool: Pool, offer: Offer, subject: str) -> Check:
    name = f"check-{uuid.uuid4().hex[:8]}"
    intent = Intent(name, site.owner.token_prefix + name, offer, 1, 0.0)
    parameters = run_parameters(pool, intent, site.owner, site.refused, _image(site, pool))
    try:
        answer = site.call("run_instances", DryRun=True, **parameters)
    except Fault as fault:
        if fault.code == WOULD:
            return Check(subject, "ok", "it would be allowed")
        if (made := _made(site, intent.token)) if fault.sent and not 400 <= fault.status < 500 else ():
            return _ended(site, subject, made)
        extras = refused_extras(fault, parameters)
        if extras:
            check = site.told(subject, fault, "warning")
            return Check(subject, check.level, check.text, f"none: elastiq goes without {' and '.join(sorted(extras))}")
        return site.told(subject, fault)
    made = [one["InstanceId"] for one in answer.get("Instances") or () if one.get("InstanceId")]
    return _ended(site, subject, made or _made(site, intent.token))


def _image(site: Site, pool: Pool) -> Mapping[str, object]:
    """As for a launch; what is wrong with it is another check's."""
    wanted = pool.options.get("image_id")
    with suppress(Fault):
        rows = site.described("describe_images", "Images", ImageIds=[wanted]) if wanted else []
        return next((row for row in rows if row.get("ImageId") == wanted), {})
    return {}


def _made(site: Site, token: str) -> list[str]:
    """What a dry run made whose answer told nothing, by its token: looked for anew."""
    with suppress(Fault):
        groups = site.call("describe_instances").get("Reservations") or ()
        rows = [one for group in groups for one in group.get("Instances") or ()]
        return [one["InstanceId"] for one in rows if one.get("ClientToken") == token]
    return []


def _ended(site: Site, subject: str, made: list[str]) -> Check:
    """End what should never have been made."""
    if not made:
        text = "the cloud ignored DryRun and answered as if it had launched, but names no instance"
        return Check(subject, "error", text, "look for an instance that nobody wanted; set `dialect = generic`")
    ids, error = listing(made, 99), None
    for _ in range(END_TRIES):
        try:
            site.call("terminate_instances", InstanceIds=made)
        except Fault as fault:
            error = fault
        else:
            text = f"THE CLOUD IGNORED DryRun AND LAUNCHED {ids}, which was ended again at once"
            return Check(subject, "error", text, f"see that {ids} is gone; set `dialect = generic`: no dry runs then")
    said = site.told(subject, error).text if error else ""
    text = f"THE CLOUD IGNORED DryRun AND LAUNCHED {ids}, WHICH COULD NOT BE ENDED: {said}"
    return Check(subject, "error", text, f"terminate {ids} by hand now; set `dialect = generic`: no dry runs then")


def terminate(site: Site, subject: str) -> Iterator[Check]:
    yield _act(site, subject, "terminate_instances", InstanceIds=[NOBODYS])
    if any(pool.terms.idle_action == "stop" for pool in site.pools):
        yield _act(site, subject, "stop_instances", InstanceIds=[NOBODYS])
        yield _act(site, subject, "start_instances", InstanceIds=[NOBODYS])


def tag(site: Site, subject: str) -> Iterator[Check]:
    """CreateTags by itself: for `elastiqctl adopt`, and for clouds that take no tags in a launch."""
    tags = tag_list({TAG_CLUSTER: site.owner.cluster, TAG_HEAD: site.owner.head})
    if site.dialect["tags"] == "none":
        yield Check(subject, "ok", "this cloud's instances are known by their tokens, tags are not needed")
        return
    yield _act(site, subject, "create_tags", Resources=[NOBODYS], Tags=tags)


def _act(site: Site, subject: str, operation: str, **parameters: object) -> Check:
    """A dry run on an instance that does not exist."""
    site.reach()
    action = "".join(word.title() for word in operation.split("_"))
    if not site.dialect.getboolean("dry_run"):
        return _not_tried(site, subject, action, "the first one shows")
    fault: Optional[Fault] = None
    try:
        site.call(operation, DryRun=True, **parameters)
    except Fault as caught:
        fault = caught
    if fault is None or fault.code == WOULD:
        return Check(subject, "ok", f"{action} would be allowed")
    if fault.code in NOT_FOUND or fault.code.endswith(".NotFound"):
        return Check(subject, "ok", f"{action} is not refused (tried on an instance that does not exist)")
    if fault.code in NOT_ALLOWED:
        text = f"{action} is refused on an instance that does not exist, as it is where it is allowed by tags only"
        remedy = f"see that it is allowed where the tag elastiq:cluster is {site.owner.cluster} ({IAM})"
        return Check(subject, "warning", text, remedy)
    return site.told(subject, fault)


def _not_tried(site: Site, subject: str, what: str, then: str) -> Check:
    text = f"{what} cannot be tried: dialect {site.dialect.name} may ignore DryRun, and do it"
    return Check(subject, "warning", text, f"nothing: {then} it")
