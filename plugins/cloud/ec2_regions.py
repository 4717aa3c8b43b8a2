"""Which region a request is signed for, where the configuration does not say it."""

from __future__ import annotations

import re
from typing import Any, Mapping, Optional
from urllib.parse import urlsplit

PLACEHOLDER_REGION = "us-east-1"  # what a cloud without regions, or a simulator, expects in a signature

REGION = re.compile(r"(?:^|[.-])([a-z]{2,}(?:-[a-z]+)+-\d)(?:\.|$)")


def region_of(options: Mapping[str, Any], session: Any) -> Optional[str]:
    """The configured one, else boto's look-up, else the endpoint's name or, for AWS, the head node's own."""
    found: Optional[str] = options.get("region") or session.get_config_variable("region")
    if not found and options.get("api_url"):
        in_host = REGION.search(urlsplit(options["api_url"]).hostname or "")
        found = in_host[1] if in_host else PLACEHOLDER_REGION
    return found or _of_this_machine()


def _of_this_machine() -> Optional[str]:
    """What the instance says of itself; None where it cannot be asked, and botocore then says that there is none."""
    try:
        from botocore.utils import InstanceMetadataRegionFetcher
    except ImportError:  # up to botocore 1.23, as Ubuntu 22.04 has it
        return None
    found: Optional[str] = InstanceMetadataRegionFetcher(timeout=2, num_attempts=1).retrieve_region()
    return found
