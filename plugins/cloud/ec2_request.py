"""An intent as the parameters of RunInstances. Pure.

What elastiq adds by itself, beyond what the configuration asks for, are *extras*: tags, the token,
the shut-down behaviour, volumes that end with their instance. A cloud that refuses one is asked
without it from then on; what the configuration asks for is never left out in silence.
"""

from __future__ import annotations

import base64
import re
from typing import Any, Mapping, Optional
from urllib.parse import urlsplit

from elastiq.interfaces import Intent, Owner, Pool
from elastiq.plugins.cloud.ec2_errors import Fault
from elastiq.plugins.cloud.ec2_options import instance_name, launch_template, network_interfaces

TAG_CLUSTER = "elastiq:cluster"
TAG_HEAD = "elastiq:head"
TAG_POOL = "elastiq:pool"
TAG_INTENT = "elastiq:intent"

VOLUME_TAGS, TAGS, SHUTDOWN, VOLUMES, TOKEN = "volume tags", "tags", "shutdown", "volumes", "token"

_NAMED_IN: tuple[tuple[str, str], ...] = (  # how a refusal names an extra
    (VOLUME_TAGS, r"(tag ?specification|taggable).*volume|volume.*(tag ?specification|taggable)"),
    (TAGS, r"tag ?specification"),  # not any tag: one of the user's that is wrong must not cost all of ours
    (SHUTDOWN, r"shutdown ?behaviou?r"),
    (VOLUMES, r"block ?device ?mapping|delete ?on ?termination"),
    (TOKEN, r"client ?token"),
)
_UNSUPPORTED = re.compile(
    r"Unknown|Unsupported|InvalidParameter|InvalidRequest|Validation|NotImplemented|InvalidArgument"
)


def run_parameters(
    pool: Pool, intent: Intent, owner: Owner, refused: frozenset[str], image: Mapping[str, Any]
) -> dict[str, Any]:
    """The parameters; ``image`` is what DescribeImages said of it, empty where that is not known."""
    options = pool.options
    found: dict[str, Any] = {
        "MinCount": 1,  # fewer than asked for is a success
        "MaxCount": intent.count,
        "ImageId": options.get("image_id"),
        "InstanceType": intent.offer.flavour,
        "KeyName": options.get("key_name"),
        "UserData": options.get("user_data"),
        "LaunchTemplate": launch_template(options),
        "IamInstanceProfile": _profile(options.get("iam_instance_profile")),
        "BlockDeviceMappings": _volumes(options.get("root_disk_gb"), image, VOLUMES not in refused),
        **_network(options, intent.offer.network),
    }
    if options.get("imds_v2") == "required":
        found["MetadataOptions"] = {"HttpTokens": "required"}
    if TOKEN not in refused:
        found["ClientToken"] = intent.token
    if SHUTDOWN not in refused:
        found["InstanceInitiatedShutdownBehavior"] = "terminate"
    if TAGS not in refused:
        tags = _tags(pool, intent, owner)
        kinds = ("instance",) if VOLUME_TAGS in refused else ("instance", "volume")
        found["TagSpecifications"] = [{"ResourceType": kind, "Tags": tags} for kind in kinds]
    return {name: value for name, value in found.items() if value}


def refused_extras(fault: Fault, sent: Mapping[str, Any]) -> frozenset[str]:
    """Which extras that were sent a refusal is about; empty where it is about something else.

    Only a refusal that surely launched nothing counts. Each leaves out an extra that was sent, so that
    this comes to an end.
    """
    if not (fault.refused and _UNSUPPORTED.search(fault.code)):
        return frozenset()
    carried = {
        VOLUME_TAGS: len(sent.get("TagSpecifications", ())) > 1,
        TAGS: "TagSpecifications" in sent,
        SHUTDOWN: "InstanceInitiatedShutdownBehavior" in sent,
        VOLUMES: "DeleteOnTermination" in str(sent.get("BlockDeviceMappings")),
        TOKEN: "ClientToken" in sent,
    }
    left = frozenset(extra for extra, is_sent in carried.items() if is_sent)
    words = f"{fault.code} {fault.message}"
    for extra, form in _NAMED_IN:
        if extra in left and re.search(form, words, re.IGNORECASE):
            return frozenset({extra})
    nameless = fault.code == "UnknownParameter" and not re.search("[A-Z][a-z]+[A-Z]", fault.message)
    return left - {TOKEN} if nameless else frozenset()


def _tags(pool: Pool, intent: Intent, owner: Owner) -> list[dict[str, str]]:
    tags = dict(pool.options.get("tags") or {})
    name = instance_name(pool.options.get("name_template") or "", owner.cluster, pool.name, intent.id)
    if name:
        tags["Name"] = name
    tags.update({TAG_CLUSTER: owner.cluster, TAG_HEAD: owner.head, TAG_POOL: pool.name, TAG_INTENT: intent.id})
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def _network(options: Mapping[str, Any], subnet: str) -> dict[str, Any]:
    """EC2 takes groups and subnet with the interfaces or by themselves, not both."""
    interfaces = network_interfaces(options)
    if interfaces:
        described = [
            {"DeviceIndex": index, "SubnetId": one.subnet, "Groups": list(one.groups), "DeleteOnTermination": True}
            for index, one in enumerate(interfaces)
        ]
        return {"NetworkInterfaces": [{k: v for k, v in one.items() if v != []} for one in described]}
    groups = tuple(options.get("security_group_ids") or ())
    return {
        "SubnetId": subnet,
        "SecurityGroupIds": [group for group in groups if group.startswith("sg-")],
        "SecurityGroups": [group for group in groups if not group.startswith("sg-")],  # OpenStack: names
    }


def _volumes(root_gb: Optional[int], image: Mapping[str, Any], to_end: bool) -> list[dict[str, Any]]:
    """Where the image's own mappings will not do: the root's size, and volumes that outlive the instance."""
    root = image.get("RootDeviceName") or ""
    volumes = {one.get("DeviceName") or "": one.get("Ebs") or {} for one in image.get("BlockDeviceMappings") or ()}
    if root and root_gb:
        volumes[root] = {"VolumeSize": root_gb, "DeleteOnTermination": False}
    found = []
    for device, ebs in volumes.items():
        resized = bool(root_gb) and device == root
        if device and (resized or (to_end and ebs.get("DeleteOnTermination") is False)):
            # the size goes along: some clouds want it in any mapping
            changes = {"VolumeSize": ebs.get("VolumeSize"), "DeleteOnTermination": to_end}
            found.append({"DeviceName": device, "Ebs": {key: value for key, value in changes.items() if value}})
    return found


def secrets_of(options: Mapping[str, Any]) -> list[Optional[str]]:
    """What must not come back in an error's text: a cloud's answer, or botocore's, may quote the request."""
    data: bytes = options.get("user_data") or b""
    proxy = options.get("proxy") or ""
    return [
        options.get("aws_secret_access_key"),
        options.get("aws_session_token"),
        base64.b64encode(data).decode("ascii"),
        data.decode("utf-8", "replace"),
        urlsplit(proxy).password,
    ]


def _profile(text: Optional[str]) -> Optional[dict[str, str]]:
    return {"Arn" if text.startswith("arn:") else "Name": text} if text else None
