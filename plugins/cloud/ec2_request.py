"""An intent as the parameters of RunInstances. Pure.

What elastiq adds by itself, beyond what the configuration asks for, are *extras*: tags, the
shut-down behaviour, volumes that end with their instance. A cloud that refuses one is asked
without it from then on; what the configuration asks for is never left out in silence.
"""

from __future__ import annotations

from typing import Any, Mapping, Optional

from elastiq.interfaces import Intent, Owner, Pool
from elastiq.plugins.cloud.ec2_options import launch_template

TAG_CLUSTER, TAG_HEAD, TAG_POOL, TAG_INTENT = "elastiq:cluster", "elastiq:head", "elastiq:pool", "elastiq:intent"

VOLUME_TAGS, TAGS, SHUTDOWN, VOLUMES = "volume tags", "tags", "shutdown", "volumes"


def run_parameters(
    pool: Pool, intent: Intent, owner: Owner, refused: frozenset[str], image: Mapping[str, Any]
) -> dict[str, Any]:
    """The parameters; ``image`` is what DescribeImages said of it, empty where that is not known."""
    options = pool.options
    profile = options.get("iam_instance_profile") or ""
    tagged = [kind for kind, extra in (("instance", TAGS), ("volume", VOLUME_TAGS)) if not {TAGS, extra} & refused]
    tags, most = tags_of(pool, intent.id, owner), options.get("spot_max_price")
    # a persistent request would launch again what was ended, and one that stops keeps its volumes
    spot = given(SpotInstanceType="one-time", InstanceInterruptionBehavior="terminate", MaxPrice=most and str(most))
    return given(
        MinCount=1,  # fewer than asked for is a success
        MaxCount=intent.count,
        ClientToken=intent.token,
        ImageId=options.get("image_id"),
        InstanceType=intent.offer.flavour,
        InstanceMarketOptions={"MarketType": "spot", "SpotOptions": spot} if intent.offer.market == "spot" else None,
        KeyName=options.get("key_name"),
        UserData=options.get("user_data"),
        LaunchTemplate=launch_template(options),
        IamInstanceProfile={"Arn" if profile.startswith("arn:") else "Name": profile} if profile else None,
        MetadataOptions={"HttpTokens": "required"} if options.get("imds_v2") == "required" else None,
        InstanceInitiatedShutdownBehavior=None if SHUTDOWN in refused else "terminate",
        TagSpecifications=[{"ResourceType": kind, "Tags": tags} for kind in tagged],
        BlockDeviceMappings=_volumes(options.get("root_disk_gb"), image, VOLUMES not in refused),
        **_network(options, intent.offer.network),
    )


def tag_list(tags: Mapping[str, str]) -> list[dict[str, str]]:
    """Tags as EC2 takes them."""
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def tags_of(pool: Pool, intent: str, owner: Owner) -> list[dict[str, str]]:
    """The tags of an instance that an intent made."""
    # EC2 takes 256 characters
    name = pool.options.get("name_template", "").format(cluster=owner.cluster, pool=pool.name, intent=intent)[:256]
    ours = {TAG_CLUSTER: owner.cluster, TAG_HEAD: owner.head, TAG_POOL: pool.name, TAG_INTENT: intent}
    return tag_list({**(pool.options.get("tags") or {}), **given(Name=name), **ours})


def _network(options: Mapping[str, Any], subnet: str) -> dict[str, Any]:
    """EC2 takes groups and subnet with the interfaces or by themselves, not both."""
    groups = list(options.get("security_group_ids") or ())
    if options.get("network_interfaces"):
        from elastiq.plugins.cloud.ec2_interfaces import interfaces

        return {"NetworkInterfaces": interfaces(options["network_interfaces"], groups)}
    return {
        "SubnetId": subnet,
        "SecurityGroupIds": [group for group in groups if group.startswith("sg-")],
        "SecurityGroups": [group for group in groups if not group.startswith("sg-")],  # OpenStack: names
    }


def _volumes(root_gb: Optional[int], image: Mapping[str, Any], to_end: bool) -> list[dict[str, Any]]:
    """Where the image's own mappings will not do: the root's size, and volumes that outlive the instance."""
    disks = [one.get("Ebs") or {} for one in image.get("BlockDeviceMappings") or ()]
    if not root_gb and all(disk.get("DeleteOnTermination") is not False for disk in disks):
        return []
    from elastiq.plugins.cloud.ec2_volumes import mappings

    return mappings(root_gb, image, to_end)


def given(**values: Any) -> dict[str, Any]:
    """Without those that are empty."""
    return {name: value for name, value in values.items() if value}
