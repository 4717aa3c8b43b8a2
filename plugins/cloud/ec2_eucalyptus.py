"""DescribeInstanceTypes as Eucalyptus answers it (VmTypeMessages.groovy; boto 2 knew it, too)."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from elastiq.interfaces import Resources
from elastiq.plugins.cloud.ec2_client import EC2Client, pages
from elastiq.plugins.cloud.ec2_flavours import number


def sizes(options: Mapping[str, Any], names: Sequence[str]) -> dict[str, Resources]:
    """What machines of these flavours have: MB of memory; the GB of a disk are the image's, too. Raises `Fault`."""
    client = EC2Client({**options, "operations": ("DescribeInstanceTypes",), "teach": _teach})
    rows = pages(client.call, "describe_instance_types", "Details")  # there are some dozens, and it tells of all
    wanted = (row for row in rows if row.get("Name") in names)
    return {row["Name"]: Resources(number(row.get("Cpu")), number(row.get("Memory"))) for row in wanted}


def _teach(model: dict[str, Any]) -> None:
    """Let botocore read that form of the answer."""

    def named(shape: str, name: str) -> dict[str, str]:
        return {"shape": shape, "locationName": name}

    members = {"Name": named("Word", "name"), "Cpu": named("Number", "cpu"), "Memory": named("Number", "memory")}
    model["shapes"].update(
        Word={"type": "string"},
        Number={"type": "integer"},
        DetailsItem={"type": "structure", "members": members},
        Details={"type": "list", "member": named("DetailsItem", "item")},
    )
    model["shapes"]["DescribeInstanceTypesResult"]["members"]["Details"] = named("Details", "instanceTypeDetails")
