"""The keys of [ec2] and [ec2:NAME], and what their values mean for RunInstances.

elastiq.conf.example says what the keys are for. `EC2Cloud` binds ``OPTIONS``, `site_of` and `networks_of`.
Keys that every cloud's pools have (flavour, cpus, min_vms, ...) are declared in `elastiq.keys`.
"""

from __future__ import annotations

import hashlib
import os
import re
import string
from dataclasses import dataclass
from typing import Any, Mapping, Optional
from urllib.parse import urlsplit

from elastiq.options import Kind, Option, above_zero

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
    return "/".join(part for part in (host, region) if part) + (f"#{digest}" if digest else "")


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


def _readable(value: str) -> str:
    return "" if os.access(value, os.R_OK) else "cannot be read, check the file's name and permissions"


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


_KEY_ID, _SECRET = "aws_access_key_id", "aws_secret_access_key"

OPTIONS: tuple[Option, ...] = (
    # the site
    Option("api_url", Kind.TEXT, check=_api_url, site=True),
    Option("api_version", Kind.TEXT, site=True),
    Option("region", Kind.TEXT, site=True),
    Option(_KEY_ID, Kind.TEXT, needs=(_SECRET,), excludes=("profile",), site=True),
    Option(_SECRET, Kind.TEXT, secret=True, needs=(_KEY_ID,), excludes=("profile",), site=True),
    Option("aws_session_token", Kind.TEXT, secret=True, needs=(_KEY_ID,), excludes=("profile",), site=True),
    Option("profile", Kind.TEXT, site=True),
    Option("verify_ssl", Kind.BOOL, True, site=True),
    Option("ca_bundle", Kind.TEXT, check=_readable, site=True),
    Option("proxy", Kind.TEXT, check=_url, site=True),
    Option("connect_timeout_s", Kind.SECONDS, 10.0, unit="seconds", check=above_zero, site=True),
    Option("read_timeout_s", Kind.SECONDS, 60.0, unit="seconds", check=above_zero, site=True),
    # the machines
    Option("image_id", Kind.TEXT, required=True, unless="launch_template"),
    Option("launch_template", Kind.TEXT, check=_template),
    Option("key_name", Kind.TEXT),
    Option("user_data_b64", Kind.BASE64, secret=True),
    Option("user_data_file", Kind.TEXT, excludes=("user_data_b64",)),
    Option("subnet_id", Kind.LIST, ()),
    Option("security_group_ids", Kind.LIST, ()),
    Option("network_interfaces", Kind.LIST, (), excludes=("subnet_id",), check=_interfaces),
    Option("iam_instance_profile", Kind.TEXT),
    Option("tags", Kind.TAGS, {}, check=_tags),
    Option("name_template", Kind.TEXT, "{cluster}-{pool}-{intent}", check=_name_template),
    Option("root_disk_gb", Kind.INT, unit="GB", check=above_zero),
    Option("imds_v2", Kind.CHOICE, "unset", choices=("unset", "required")),
)
