"""The keys of [ec2] and [ec2:NAME], and what their values mean for RunInstances.

elastiq.conf.example says what the keys are for. `EC2Cloud` binds ``OPTIONS`` and `site_of`.
Keys that every cloud's pools have (flavour, cpus, min_vms, ...) are declared in `elastiq.keys`.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any, Callable, Mapping, Optional
from urllib.parse import urlsplit

from elastiq.options import Kind, Option, above_zero
from elastiq.plugins.cloud.ec2_dialects import TABLE


def launch_template(values: Mapping[str, Any]) -> Optional[dict[str, str]]:
    """The LaunchTemplate parameter of RunInstances, None where the key is not used."""
    name, colon, version = (values.get("launch_template") or "").partition(":")
    found = {"LaunchTemplateId" if re.fullmatch("lt-[0-9a-f]{8,17}", name) else "LaunchTemplateName": name}
    return {**found, **({"Version": version} if colon else {})} if name else None


def site_of(values: Mapping[str, Any]) -> str:
    """The same for the same endpoint, region and access key id, profile or name of a file of keys; holds no secret."""
    url = urlsplit(values.get("api_url") or "")
    host = (url.hostname or "aws") + (f":{url.port}" if url.port else "")
    profile, file = (values.get(key) or "" for key in _ELSEWHERE)  # of the file its name: the daemon may see a copy
    identity = (url.path.rstrip("/"), values.get("aws_access_key_id") or "", profile + file[file.rfind("/") :])
    digest = hashlib.sha256("\0".join(identity).encode()).hexdigest()[:8] if any(identity) else ""
    return "/".join(part for part in (host, values.get("region")) if part) + (f"#{digest}" if digest else "")


def _rare(name: str, key: str = "") -> Callable[[Any], Any]:
    """A check of `ec2_rare_values`, which is imported once there is something for it: for a doubt, that ``key``, if not
    as `auto`."""

    def check(value: Any) -> Any:
        if key and value[key] in (None, "auto"):
            return ""
        from elastiq.plugins.cloud import ec2_rare_values

        return getattr(ec2_rare_values, name)(value)

    return check


def _no(*keys: str) -> Callable[[Mapping[str, Any]], str]:
    """A doubt where none of these keys is given."""
    return lambda values: "" if any(map(values.get, keys)) else str(_rare(f"no_{keys[0]}")(values))


_KEY_ID, _SECRET, _FILE = "aws_access_key_id", "aws_secret_access_key", "credentials_file"
_ELSEWHERE, _DIALECTS = ("profile", _FILE), ("auto", *TABLE.sections())

OPTIONS: tuple[Option, ...] = (
    # the site
    Option("api_url", Kind.TEXT, check=_rare("api_url"), site=True),
    Option("dialect", Kind.CHOICE, "auto", choices=_DIALECTS, doubt=_rare("dialect", "dialect"), site=True),
    Option("api_version", Kind.TEXT, site=True),
    Option("region", Kind.TEXT, doubt=_no("region", "api_url"), site=True),
    Option(_KEY_ID, Kind.TEXT, needs=(_SECRET,), excludes=_ELSEWHERE, site=True),
    Option(_SECRET, Kind.TEXT, secret=True, needs=(_KEY_ID,), excludes=_ELSEWHERE, site=True),
    Option("aws_session_token", Kind.TEXT, secret=True, needs=(_KEY_ID,), excludes=_ELSEWHERE, site=True),
    Option("profile", Kind.TEXT, site=True),
    Option(_FILE, Kind.PATH, site=True, spelling=_rare("copy"), check=_rare("readable"), doubt=_rare("leak", _FILE)),
    Option("verify_ssl", Kind.BOOL, True, risk="whoever is on the way can read and change what is sent", site=True),
    Option("ca_bundle", Kind.PATH, check=_rare("readable"), site=True),
    Option("proxy", Kind.TEXT, check=_rare("url"), site=True),
    Option("interruption_queue", Kind.TEXT, check=_rare("api_url"), site=True),
    Option("connect_timeout_s", Kind.SECONDS, 10.0, unit="seconds", check=above_zero, site=True),
    Option("read_timeout_s", Kind.SECONDS, 60.0, unit="seconds", check=above_zero, site=True),
    # the machines
    Option("image_id", Kind.TEXT, required=True, unless="launch_template", doubt=_no("flavour"), build=True),
    Option("launch_template", Kind.TEXT, check=_rare("template"), build=True),
    Option("spot_max_price", Kind.NUMBER, needs=("market",), check=_rare("spot_price")),
    Option("key_name", Kind.TEXT),
    Option("user_data_b64", Kind.BASE64, secret=True),
    Option("user_data_file", Kind.PATH, excludes=("user_data_b64",)),
    *(Option(name, Kind.LIST, ()) for name in ("subnet_id", "security_group_ids")),
    Option("network_interfaces", Kind.LIST, (), excludes=("subnet_id",), check=_rare("interfaces")),
    Option("iam_instance_profile", Kind.TEXT),
    Option("tags", Kind.TAGS, {}, check=_rare("tags")),
    Option("name_template", Kind.TEXT, "{cluster}-{pool}-{intent}", check=_rare("name_template")),
    Option("root_disk_gb", Kind.INT, unit="GB", check=above_zero),
    Option("imds_v2", Kind.CHOICE, "unset", choices=("unset", "required")),
)
