"""The keys of [ec2] and [ec2:NAME], and what their values mean for RunInstances.

`EC2Cloud` binds ``OPTIONS``, `site_of` and `networks_of`. Pure: nothing here needs boto3.
Keys that every cloud's pools have (flavour, cpus, min_vms, ...) are declared by `elastiq.config`.
"""

from __future__ import annotations

import hashlib
import re
import string
from dataclasses import dataclass
from typing import Any, Mapping, Optional
from urllib.parse import urlsplit

from elastiq.options import Kind, Option

TAG_LIMIT = 40
"""EC2 allows 50 tags on an instance; the rest is for elastiq's own and the cloud's."""

NAME_FIELDS = ("cluster", "pool", "intent")


@dataclass(frozen=True)
class NetworkInterface:
    """One entry of ``network_interfaces``; without groups of its own it takes ``security_group_ids``."""

    subnet: str
    groups: tuple[str, ...] = ()


def network_interfaces(values: Mapping[str, Any]) -> tuple[NetworkInterface, ...]:
    """The interfaces of a new instance in device order; empty where the key is not used."""
    common = tuple(values.get("security_group_ids") or ())
    found = []
    for entry in values.get("network_interfaces") or ():
        subnet, _, groups = entry.partition(":")
        found.append(NetworkInterface(subnet, tuple(groups.split("+")) if groups else common))
    return tuple(found)


def launch_template(values: Mapping[str, Any]) -> Optional[dict[str, str]]:
    """The LaunchTemplate parameter of RunInstances, None where the key is not used."""
    text = values.get("launch_template")
    if not text:
        return None
    name, _, version = text.partition(":")
    is_id = re.fullmatch("lt-[0-9a-f]{8,17}", name)
    found = {"LaunchTemplateId" if is_id else "LaunchTemplateName": name}
    if version:
        found["Version"] = version
    return found


def instance_name(template: str, cluster: str, pool: str, intent: str) -> str:
    """The Name tag of a new instance, cut to EC2's 256 characters; empty for none."""
    return template.format(cluster=cluster, pool=pool, intent=intent)[:256]


def site_of(values: Mapping[str, Any]) -> str:
    """The same for the same endpoint, region and access key id or profile; holds no secret."""
    url = urlsplit(values.get("api_url") or "")
    host = (url.hostname or "aws") + (f":{url.port}" if url.port else "")
    region = values.get("region") or ""
    identity = (url.path.rstrip("/"), values.get("aws_access_key_id") or "", values.get("profile") or "")
    digest = hashlib.sha256("\0".join(identity).encode()).hexdigest()[:8] if any(identity) else ""
    return "/".join(part for part in (host, region, digest) if part)


def networks_of(values: Mapping[str, Any]) -> tuple[str, ...]:
    """The subnets in the order of preference; ``("",)`` where the cloud or network_interfaces decides."""
    return tuple(values.get("subnet_id") or ()) or ("",)


def _url(value: str) -> str:
    try:
        url = urlsplit(value)
        port_is_bad = url.port == 0  # a port that is no number raises
    except ValueError:
        return "is not a URL, write https://HOST[:PORT]/PATH"
    if url.scheme not in ("http", "https") or not url.hostname or port_is_bad:
        return "is not a URL, write https://HOST[:PORT]/PATH"
    return ""


def _api_url(value: str) -> str:
    complaint = _url(value)
    if not complaint and "@" in urlsplit(value).netloc:
        return "holds a user name, write credentials under their own keys"
    return complaint


def _positive(value: float) -> str:
    return "" if value > 0 else "must be above 0"


def _interfaces(value: tuple[str, ...]) -> str:
    for entry in value:
        subnet, colon, groups = entry.partition(":")
        if not subnet or (colon and not all(groups.split("+"))) or ":" in groups:
            return f"`{entry}` is not of the form SUBNET or SUBNET:GROUP+GROUP"
    return ""


def _template(value: str) -> str:
    name, colon, version = value.partition(":")
    if not name or (colon and not (version in ("$Latest", "$Default") or version.isdecimal())):
        return "is not of the form ID-OR-NAME[:VERSION], VERSION a number, $Latest or $Default"
    return ""


def _name_template(value: str) -> str:
    try:
        used = [part[1:] for part in string.Formatter().parse(value) if part[1] is not None]
    except ValueError:
        return "has an unpaired brace"
    for field, spec, how in used:
        if field not in NAME_FIELDS or spec or how:
            return "knows only {" + "}, {".join(NAME_FIELDS) + "}"
    return ""


def _tags(value: Mapping[str, str]) -> str:
    for key, text in value.items():
        if key.lower().startswith(("aws:", "elastiq:")):
            return f"`{key}`: the prefixes aws: and elastiq: are reserved"
        if key == "Name":
            return "`Name`: use name_template"
        if len(key) > 128 or len(text) > 256:
            return f"`{key[:40]}`: EC2 takes 128 characters for a key and 256 for a value"
    return "" if len(value) <= TAG_LIMIT else f"are more than {TAG_LIMIT}"


def _whole_gb(value: int) -> str:
    return "" if value >= 1 else "must be at least 1"


OPTIONS: tuple[Option, ...] = (
    # the site
    Option(
        "api_url",
        Kind.TEXT,
        unset="AWS, by the region",
        check=_api_url,
        site=True,
        help="The endpoint of the EC2 API. A region may be left out: a placeholder is then used.",
    ),
    Option(
        "api_version",
        Kind.TEXT,
        unset="boto3's newest",
        site=True,
        help="Version of the API that requests name, for clouds that know old ones only, as 2013-02-01.",
    ),
    Option(
        "region",
        Kind.TEXT,
        unset="boto3's own look-up (environment, profile, instance)",
        site=True,
        help="The region, as eu-west-1.",
    ),
    Option(
        "aws_access_key_id",
        Kind.TEXT,
        unset="boto3's own chain (environment, profile, instance role)",
        needs=("aws_secret_access_key",),
        excludes=("profile",),
        site=True,
        help="The access key's id.",
    ),
    Option(
        "aws_secret_access_key",
        Kind.TEXT,
        secret=True,
        unset="boto3's own chain",
        needs=("aws_access_key_id",),
        excludes=("profile",),
        site=True,
        help="The access key's secret.",
    ),
    Option(
        "aws_session_token",
        Kind.TEXT,
        secret=True,
        unset="none",
        needs=("aws_access_key_id",),
        excludes=("profile",),
        site=True,
        help="The session token of temporary credentials; they expire, a role or profile is better.",
    ),
    Option(
        "profile",
        Kind.TEXT,
        unset="boto3's own chain",
        site=True,
        help="A profile of the AWS configuration files of the user that the daemon runs as.",
    ),
    Option(
        "verify_ssl",
        Kind.BOOL,
        default=True,
        site=True,
        help="Check the endpoint's certificate. With `no`, anyone on the way can read the credentials.",
    ),
    Option(
        "ca_bundle",
        Kind.TEXT,
        unset="boto3's own bundle",
        site=True,
        help="A file of CA certificates (PEM) to check the endpoint's certificate with.",
    ),
    Option(
        "proxy",
        Kind.TEXT,
        unset="the environment's HTTPS_PROXY and HTTP_PROXY",
        check=_url,
        site=True,
        help="URL of an HTTP proxy to the endpoint.",
    ),
    Option(
        "connect_timeout_s",
        Kind.SECONDS,
        default=10.0,
        unit="seconds",
        check=_positive,
        site=True,
        help="How long a connection to the endpoint may take.",
    ),
    Option(
        "read_timeout_s",
        Kind.SECONDS,
        default=60.0,
        unit="seconds",
        check=_positive,
        site=True,
        help="How long the endpoint may take to answer.",
    ),
    # the machines
    Option(
        "image_id",
        Kind.TEXT,
        required=True,
        unless="launch_template",
        help="The image of the workers, as ami-0123456789abcdef0.",
    ),
    Option(
        "launch_template",
        Kind.TEXT,
        unset="none",
        check=_template,
        help="Id or name of a launch template, optionally :VERSION; what is set here wins over it.",
    ),
    Option("key_name", Kind.TEXT, unset="none", help="Name of the SSH key pair of new instances."),
    Option(
        "user_data_b64",
        Kind.BASE64,
        secret=True,
        unset="none",
        help="The user data of new instances in base64, at most 16,384 bytes before it."
        " %ipv4%, %ipv6% and %fqdn% in it become the head node's.",
    ),
    Option(
        "user_data_file",
        Kind.TEXT,
        unset="none",
        excludes=("user_data_b64",),
        help="A file that holds the user data as it is, with the same %variables%.",
    ),
    Option(
        "subnet_id",
        Kind.LIST,
        default=(),
        unset="the cloud's default",
        help="Subnets in the order of preference: the next one is tried where one has no room.",
    ),
    Option(
        "security_group_ids",
        Kind.LIST,
        default=(),
        unset="the cloud's default",
        help="Security groups of new instances.",
    ),
    Option(
        "network_interfaces",
        Kind.LIST,
        default=(),
        unset="one interface, in subnet_id",
        excludes=("subnet_id",),
        check=_interfaces,
        help="For a tenant with several networks: one entry for each interface, SUBNET or"
        " SUBNET:GROUP+GROUP; an entry without groups takes security_group_ids.",
    ),
    Option(
        "iam_instance_profile",
        Kind.TEXT,
        unset="none",
        help="Name or ARN of the instance profile of new instances.",
    ),
    Option(
        "tags",
        Kind.TAGS,
        default={},
        unset="only elastiq's own",
        check=_tags,
        help="Further tags of new instances, Key=Value, Key2=Value2.",
    ),
    Option(
        "name_template",
        Kind.TEXT,
        default="{cluster}-{pool}-{intent}",
        check=_name_template,
        help="The Name tag of new instances; empty for none.",
    ),
    Option(
        "root_disk_gb",
        Kind.INT,
        unit="GB",
        unset="the image's own",
        check=_whole_gb,
        help="Size of the root disk.",
    ),
    Option(
        "imds_v2",
        Kind.CHOICE,
        default="unset",
        choices=("unset", "required"),
        help="Whether new instances must use session tokens for their metadata service.",
    ),
)
