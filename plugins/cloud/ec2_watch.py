"""The requests to EC2's API, told one by one to who counts them. Imported where metrics are asked for."""

from __future__ import annotations

import re
from typing import Any, Callable

from elastiq.plugins.cloud.ec2_client import EC2Client
from elastiq.plugins.cloud.ec2_fault import Fault

_CODE = re.compile(r"[A-Za-z0-9_.:-]+")
ODD = "other"  # a code that is none: it may be anything that a cloud or a proxy says


class WatchedClient(EC2Client):
    """Calls through another client."""

    def __init__(self, client: EC2Client, told: Callable[[str, str, int], None]) -> None:
        super().__init__(client.options)
        self._inner, self._told = client, told

    def call(self, operation: str, **parameters: Any) -> dict[str, Any]:
        name = "".join(part.capitalize() for part in operation.split("_"))
        try:
            answer = self._inner.call(operation, **parameters)
        except Fault as fault:
            if fault.sent:  # how often botocore has repeated it, it does not say
                self._told(name, fault.code if _CODE.fullmatch(fault.code) else ODD, 1)
            raise
        repeated = answer.get("ResponseMetadata", {}).get("RetryAttempts", 0)
        self._told(name, "", 1 + repeated)
        return answer
