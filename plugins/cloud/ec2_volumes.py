"""Volumes of an image that are not launched as it says. Loaded for `root_disk_gb`, and for images whose volumes outlive
their instance. Pure.
"""

from __future__ import annotations

from typing import Any, Mapping, Optional

from elastiq.plugins.cloud.ec2_request import given


def mappings(root_gb: Optional[int], image: Mapping[str, Any], to_end: bool) -> list[dict[str, Any]]:
    """As RunInstances takes them; ``to_end``: they end with their instance."""
    sizes: dict[Optional[str], Optional[int]] = {
        one.get("DeviceName"): one["Ebs"].get("VolumeSize")  # some clouds want it in any mapping
        for one in image.get("BlockDeviceMappings") or ()
        if to_end and (one.get("Ebs") or {}).get("DeleteOnTermination") is False
    }
    if root_gb:
        sizes[image.get("RootDeviceName")] = root_gb
    changes = {device: given(VolumeSize=size, DeleteOnTermination=to_end) for device, size in sizes.items() if device}
    return [{"DeviceName": device, "Ebs": ebs} for device, ebs in changes.items()]
