"""A pool's image, launch template, flavours and user data, before the first launch."""

from __future__ import annotations

from typing import Any, Iterator, Mapping, Optional

from elastiq.interfaces import Check, Pool
from elastiq.plugins.cloud.ec2_fault import Fault
from elastiq.plugins.cloud.ec2_looks import Rows, Site, listing
from elastiq.plugins.cloud.ec2_options import launch_template

LIMIT = 16_384  # bytes before base64 (EC2 User Guide, "Run commands at launch with instance user data")
# What cloud-init takes for something ("User-data formats", docs.cloud-init.io), the last one being gzip; and what
# others take: Ignition's JSON, PowerShell of EC2Launch.
_BEGINNINGS = (
    *(b"#!", b"#cloud-config", b"#include", b"#cloud-boothook", b"#part-handler", b"## template:", b"#upstart-job"),
    *(b"Content-Type:", b"MIME-Version:", b"From ", b"From:", b"\x1f\x8b"),
    *(b"{", b"<powershell>", b"<script>"),
)


def concerns(what: str, pool: Pool) -> bool:
    """Whether the pool has what this check is about."""
    keys = {"image": "image_id", "launch template": "launch_template", "key pair": "key_name"}
    if what in ("flavours", "quota of the account"):
        return any(pool.flavours)
    if what == "subnets":
        return bool(pool.options.get("subnet_id") or pool.options.get("network_interfaces"))
    if what == "security groups":
        return bool(pool.options.get("security_group_ids") or pool.options.get("network_interfaces"))
    return what not in keys or bool(pool.options.get(keys[what]))


def image(site: Site, pool: Pool, subject: str) -> Iterator[Check]:
    site.reach()
    wanted = pool.options["image_id"]
    try:
        found = _image(site, pool)
    except Fault as fault:
        yield site.not_described(subject, fault)
        return
    if found is None:
        text = f"{wanted} is not among the images that these credentials see"
        yield Check(subject, "error" if site.dialect.name == "aws" else "warning", text, "check image_id")
        return
    state = found.get("State") or "available"
    if state != "available":
        level = "warning" if state in ("pending", "transient") else "error"
        yield Check(subject, level, f"{wanted} is {state}", "wait until it is available, or name another image_id")
        return
    least, most = _root_gb(found), pool.options.get("root_disk_gb")
    if least and most and most < least:
        text = f"root_disk_gb = {most} is less than the {least} GB of {wanted}'s root volume"
        yield Check(subject, "error", text, f"set it to {least} or more")
        return
    yield Check(subject, "ok", " ".join(filter(None, (wanted, found.get("Name"), "is available"))))


def _image(site: Site, pool: Pool) -> Optional[Mapping[str, Any]]:
    wanted = pool.options.get("image_id")
    rows = site.described("describe_images", "Images", ImageIds=[wanted]) if wanted else []
    return next((row for row in rows if row.get("ImageId") == wanted), None)  # some clouds list all


def _root_gb(found: Mapping[str, Any]) -> Optional[int]:
    root = found.get("RootDeviceName")
    mappings = (one for one in found.get("BlockDeviceMappings") or () if one.get("DeviceName") == root)
    return next((one["Ebs"].get("VolumeSize") for one in mappings if one.get("Ebs")), None)


def template(site: Site, pool: Pool, subject: str) -> Iterator[Check]:
    site.reach()
    named = dict(launch_template(pool.options) or {})
    version = named.pop("Version", "$Default")
    key = "DescribeLaunchTemplateVersions"
    try:
        rows = site.described(
            "describe_launch_template_versions", "LaunchTemplateVersions", Versions=[version], **named
        )
    except Fault as fault:
        yield site.not_described(subject, fault)
        return
    if rows:
        number = rows[0].get("VersionNumber", version)
        yield Check(subject, "ok", f"{pool.options['launch_template']} is there, version {number}")
    else:
        yield Check(subject, "error", f"{key} shows no version {version}", "check launch_template")


def flavours(site: Site, pool: Pool, subject: str) -> Iterator[Check]:
    """Whether they are there, run the image, and are offered in the subnets' zones."""
    site.reach()
    names = sorted({*pool.flavours} - {""})
    if site.dialect["types"] != "ec2":
        yield from _without_catalogue(site, pool, subject, names)
        return
    try:
        rows = _types(site, names)
    except Fault as fault:
        yield site.not_described(subject, fault)
        return
    absent = sorted({*names} - rows.keys())
    if absent:
        text = f"{listing(absent)}: no such flavour at {site.name}"
        yield Check(subject, "error", text, "correct `flavour`, or `region`")
    wrong = sorted(_unfit(rows, _architecture(site, pool)))
    if wrong:
        text = f"{listing(wrong)} cannot run {pool.options['image_id']}, which is {_architecture(site, pool)}"
        yield Check(subject, "error", text, "take flavours and an image of one architecture")
    if rows and not wrong and not absent:
        yield Check(subject, "ok", f"{listing(names)}: in the cloud's catalogue")
    yield from _in_zones(site, pool, subject, sorted(rows))


def _without_catalogue(site: Site, pool: Pool, subject: str, names: list[str]) -> Iterator[Check]:
    if site.dialect["types"] == "eucalyptus":
        from elastiq.plugins.cloud.ec2_eucalyptus import sizes

        absent = sorted({*names} - sizes(site.options, names).keys())
        if absent:
            yield Check(subject, "error", f"{listing(absent)}: no such flavour at {site.name}", "correct `flavour`")
        else:
            yield Check(subject, "ok", f"{listing(names)}: in the cloud's catalogue")
        return
    sized = pool.capacity.cpus is not None
    text = f"this cloud has no catalogue of flavours: whether it has {listing(names)} is not known before a launch"
    remedy = "" if sized else "set cpus and memory_mb, or elastiq learns them from the first machine"
    yield Check(subject, "warning", text, remedy)


def _types(site: Site, names: list[str]) -> dict[str, Mapping[str, Any]]:
    asked = [{"Name": "instance-type", "Values": names}]  # a filter: one that is unknown does not spoil the others
    rows = site.described("describe_instance_types", "InstanceTypes", Filters=asked)
    return {row["InstanceType"]: row for row in rows if row.get("InstanceType") in names}


def _architecture(site: Site, pool: Pool) -> str:
    try:
        return str((_image(site, pool) or {}).get("Architecture") or "")
    except Fault:
        return ""  # the image has a check of its own


def _unfit(rows: Mapping[str, Mapping[str, Any]], architecture: str) -> Iterator[str]:
    for name, row in rows.items():
        known = (row.get("ProcessorInfo") or {}).get("SupportedArchitectures") or ()
        if architecture and known and architecture not in known:
            yield name


def _in_zones(site: Site, pool: Pool, subject: str, names: list[str]) -> Iterator[Check]:
    from elastiq.plugins.cloud.ec2_network_checks import subnets_of

    if not names or site.dialect.name != "aws":
        return
    try:
        zones = {str(row.get("AvailabilityZone")): str(row.get("SubnetId")) for row in subnets_of(site, pool)}
        if not zones:
            return
        asked = [{"Name": "instance-type", "Values": names}, {"Name": "location", "Values": sorted(zones)}]
        rows: Rows = site.described(
            "describe_instance_type_offerings", "InstanceTypeOfferings", LocationType="availability-zone", Filters=asked
        )
    except Fault:
        return  # what is wrong with subnets has a check of its own; the dry run tries each offer
    offered = {(row.get("InstanceType"), row.get("Location")) for row in rows}
    not_there = [f"{name} in {zone}" for name in names for zone in zones if (name, zone) not in offered]
    if len(not_there) == len(names) * len(zones):
        yield Check(subject, "error", "none is offered in a zone of the subnets", "take other flavours, or subnets")
    elif not_there:
        text = f"not offered: {listing(not_there)}; elastiq goes on to the next offer"
        yield Check(subject, "warning", text, "leave such pairs out, in pools of their own")


def user_data(site: Site, pool: Pool, subject: str) -> Iterator[Check]:
    """Its size was checked when the file was read, for that limit; no endpoint is asked."""
    data: bytes = pool.options.get("user_data") or b""
    if not data:
        yield Check(subject, "ok", "none")
        return
    text = f"{len(data):,} of at most {LIMIT:,} bytes"
    if len(data) > LIMIT:
        yield Check(subject, "error", text, "fetch the rest at boot")
    elif not data.lstrip(b"\xef\xbb\xbf").startswith(_BEGINNINGS):
        why = f"{text}; it begins with nothing that cloud-init knows, which then ignores it"
        yield Check(subject, "warning", why, "begin with #! (a script) or #cloud-config, in the first column")
    elif b"\r\n" in data[:200] and data.startswith(b"#!"):
        yield Check(subject, "warning", f"{text}; its lines end with CR LF", "a script needs Unix line ends")
    else:
        yield Check(subject, "ok", text)
