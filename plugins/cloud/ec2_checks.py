"""What can be found wrong with an EC2 site before the first launch."""

from __future__ import annotations

from typing import Any, Callable, Iterable, Iterator

from elastiq.interfaces import AuthError, Check, ConfigurationError, Intent, Owner, Pool, SourceError
from elastiq.plugins.cloud.ec2_dialects import dialect_of
from elastiq.plugins.cloud.ec2_errors import STRICT, Fault
from elastiq.plugins.cloud.ec2_extras import refused_extras
from elastiq.plugins.cloud.ec2_notices import check_queue
from elastiq.plugins.cloud.ec2_request import run_parameters

Call = Callable[..., dict[str, Any]]
Told = Callable[[Fault], SourceError]


def check_site(call: Call, pools: Iterable[Pool], owner: Owner, refused: frozenset[str], told: Told) -> Iterator[Check]:
    """Credentials and endpoint, then each pool's image and the right to launch it."""
    try:
        dry_runs = _answers_dry_runs(call)
    except Fault as fault:
        yield Check("ec2 endpoint", "error", str(told(fault)))
        return
    options = next(iter(pools)).options
    about = dialect_of(options)[1]
    yield Check("ec2 endpoint", "ok", f"it answers, and takes the credentials ({about})")
    if options.get("interruption_queue"):
        yield check_queue(options, told)
    for pool in pools:
        image_id = pool.options.get("image_id")
        if image_id:
            yield _image(call, pool.name, image_id, told)
        if dry_runs:
            yield _launch(call, pool, owner, refused, told)


def _answers_dry_runs(call: Call) -> bool:
    """Whether the cloud knows DryRun, tried where ignoring it does no harm: old OpenStack would launch."""
    try:
        answer = call("describe_instances", DryRun=True)
    except Fault as fault:
        if fault.code == "DryRunOperation":
            return True
        if not (fault.refused or fault.code == STRICT):
            raise
        answer = call("describe_instances")
    if "Reservations" not in answer:
        raise Fault("describe_instances", "NotEC2", "the answer has no Reservations: is a login page in between?")
    return False


def _image(call: Call, pool: str, image_id: str, told: Told) -> Check:
    name = f"image of pool {pool}"
    try:
        images = call("describe_images", ImageIds=[image_id]).get("Images") or ()
    except Fault as fault:
        return Check(name, "warning", str(told(fault)))
    states = [one.get("State") or "available" for one in images if one.get("ImageId") == image_id]
    state = states[0] if states else "not visible with these credentials: check image_id"
    return Check(name, "ok" if state == "available" else "warning", f"{image_id} is {state}")


def _launch(call: Call, pool: Pool, owner: Owner, refused: frozenset[str], told: Told) -> Check:
    name = f"launch in pool {pool.name}"
    intent = Intent("check", f"{owner.token_prefix}check", pool.offers()[0], 1, 0.0)
    parameters = run_parameters(pool, intent, owner, refused, {})
    try:
        answer = call("run_instances", DryRun=True, **parameters)
    except Fault as fault:
        if fault.code == "DryRunOperation":
            return Check(name, "ok", "a dry run of RunInstances would have worked")
        mendable = fault.kind in (AuthError, ConfigurationError) and not refused_extras(fault, parameters)
        return Check(name, "error" if mendable else "warning", str(told(fault)))
    ids = [one["InstanceId"] for one in answer.get("Instances") or () if one.get("InstanceId")]
    if ids:  # it took DryRun in a read and ignored it in a launch
        call("terminate_instances", InstanceIds=ids)
    return Check(name, "warning", "DryRun was ignored" + (f"; launched {ids} and ended them again" if ids else ""))
