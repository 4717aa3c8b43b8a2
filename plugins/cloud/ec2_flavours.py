"""The cloud's catalogue of flavours: DescribeInstanceTypes. Imported when a flavour's size is asked for.

The operation's model has as many shapes as all others together, and is needed once: it gets a client of its own,
which is forgotten with the answer.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Any, Callable, Iterator, Mapping, Optional, Sequence

from elastiq.interfaces import Resources, SourceError
from elastiq.plugins.cloud.ec2_client import EC2Client, pages
from elastiq.plugins.cloud.ec2_dialects import dialect_of
from elastiq.plugins.cloud.ec2_errors import Fault

log = logging.getLogger(__name__)

OPERATION = "DescribeInstanceTypes"
PAGE = 100  # the most that it gives at once; a filter takes 200 values
DENIED = ("UnauthorizedOperation", "AccessDenied", "AccessDeniedException")


class Catalogue:
    """What a site tells of its flavours. Once it refused to, it is not asked again."""

    def __init__(self, options: Mapping[str, Any], told: Callable[[Fault], SourceError]) -> None:
        self._options, self._told = {**options, "operations": (OPERATION,), "teach": _teach}, told
        self._form = dialect_of(options)[0]["types"]

    def sizes(self, names: Sequence[str]) -> Mapping[str, Resources]:
        """What machines of these flavours have; unknown ones are left out. Raises `SourceError`."""
        wanted = sorted({*names} - {""})
        if not wanted or self._form == "no":
            return {}
        try:
            found = self._asked(wanted)
        except Fault as fault:
            error = self._told(fault)
            if not (fault.refused or fault.code in DENIED):
                raise error from None
            self._form = "no"
            log.warning("the sizes of flavours are not available: %s", error)
            return {}
        return {name: size for name, size in found if name in wanted}

    def _asked(self, wanted: Sequence[str]) -> Iterator[tuple[str, Resources]]:
        """Of these flavours, or of all. They are asked for by a filter: in the parameter InstanceType one unknown
        name spoils the others (InvalidInstanceType)."""
        rows = partial(pages, EC2Client(self._options).call, "describe_instance_types")
        if self._form == "eucalyptus":
            return map(_eucalyptus, rows("Details"))
        found: list[Mapping[str, Any]] = []
        for first in range(0, len(wanted), PAGE):
            asked = [{"Name": "instance-type", "Values": wanted[first : first + PAGE]}]
            found += rows("InstanceTypes", MaxResults=PAGE, Filters=asked)
        return map(_ec2, found)


def _ec2(row: Mapping[str, Any]) -> tuple[str, Resources]:
    """EC2's form. A vCPU is what HTCondor counts as a core (COUNT_HYPERTHREAD_CPUS), its MB of memory are MiB.

    Instance storage is raw devices: whether jobs get it is up to the image, so the disk stays unsaid.
    """
    gpus = (row.get("GpuInfo") or {}).get("Gpus") or ()
    return str(row.get("InstanceType")), Resources(
        _size(row.get("VCpuInfo"), "DefaultVCpus"),
        _size(row.get("MemoryInfo"), "SizeInMiB"),
        # a part of a GPU is a device for the machine that has it
        gpus=float(sum(max(one.get("LogicalGpuCount") or 0, one.get("Count") or 0) for one in gpus)),
    )


def _eucalyptus(row: Mapping[str, Any]) -> tuple[str, Resources]:
    """VmTypeDetails of Eucalyptus: MB of memory, and GB of a disk that is the image's, too."""
    return str(row.get("Name")), Resources(_size(row, "Cpu"), _size(row, "Memory"))


def _size(row: Optional[Mapping[str, Any]], key: str) -> Optional[float]:
    value = (row or {}).get(key)
    return float(value) if value else None


def _teach(model: dict[str, Any]) -> None:
    """Let botocore read Eucalyptus' form of the answer as well (VmTypeMessages.groovy; boto 2 knew it, too)."""

    def named(shape: str, name: str) -> dict[str, str]:
        return {"shape": shape, "locationName": name}

    members = {"Name": named("Word", "name"), "Cpu": named("Number", "cpu"), "Memory": named("Number", "memory")}
    model["shapes"].update(Word={"type": "string"}, Number={"type": "integer"})
    model["shapes"]["DetailsItem"] = {"type": "structure", "members": members}
    model["shapes"]["Details"] = {"type": "list", "member": named("DetailsItem", "item")}
    model["shapes"]["DescribeInstanceTypesResult"]["members"]["Details"] = named("Details", "instanceTypeDetails")
