"""The cloud's catalogue of flavours: DescribeInstanceTypes."""

from __future__ import annotations

from functools import partial
from typing import Any, Mapping, Optional, Sequence

from elastiq.interfaces import Resources
from elastiq.plugins.cloud.ec2_client import EC2Client, pages

PAGE = 100  # the most that it gives at once; a filter takes 200 values


def sizes(client: EC2Client, names: Sequence[str]) -> dict[str, Resources]:
    """What machines of these flavours have; unknown ones are left out. Raises `Fault`.

    They are asked for by a filter: in the parameter InstanceType one unknown name spoils the others
    (InvalidInstanceType).
    """
    rows = partial(pages, client.call, "describe_instance_types")
    found: list[Mapping[str, Any]] = []
    for first in range(0, len(names), PAGE):
        asked = [{"Name": "instance-type", "Values": names[first : first + PAGE]}]
        found += rows("InstanceTypes", MaxResults=PAGE, Filters=asked)
    return {row["InstanceType"]: _size(row) for row in found if row.get("InstanceType") in names}


def _size(row: Mapping[str, Any]) -> Resources:
    """A vCPU is what HTCondor counts as a core (COUNT_HYPERTHREAD_CPUS), its MB of memory are MiB, and a part of a
    GPU is a device for the machine that has it. Instance storage is raw devices: whether jobs get it is up to the
    image, so the disk stays unsaid."""
    gpus = (row.get("GpuInfo") or {}).get("Gpus") or ()
    count = sum(max(one.get("LogicalGpuCount") or 0, one.get("Count") or 0) for one in gpus)
    cpus, memory = (row.get("VCpuInfo") or {}).get("DefaultVCpus"), (row.get("MemoryInfo") or {}).get("SizeInMiB")
    return Resources(number(cpus), number(memory), gpus=float(count))


def number(value: Optional[int]) -> Optional[float]:
    """None for what a cloud does not say, or says to be nothing."""
    return float(value) if value else None
