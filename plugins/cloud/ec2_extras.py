"""Which of the extras of RunInstances a refusal is about. Loaded when a launch was refused."""

from __future__ import annotations

import re
from typing import Any, Mapping

from elastiq.interfaces import LaunchError, TransientError
from elastiq.plugins.cloud.ec2_errors import ECHO, Fault
from elastiq.plugins.cloud.ec2_request import SHUTDOWN, TAGS, VOLUME_TAGS, VOLUMES

_EXTRAS = {  # where each is in the request, and how a refusal names it
    VOLUME_TAGS: ("TagSpecifications", "'ResourceType': 'volume'", r"(?=.*volume).*(tag ?specification|taggable)"),
    # not any tag: one of the user's that is wrong must not cost all of ours
    TAGS: ("TagSpecifications", "'ResourceType': 'instance'", r"tag ?specification"),
    SHUTDOWN: ("InstanceInitiatedShutdownBehavior", "terminate", r"shutdown ?behaviou?r"),
    VOLUMES: ("BlockDeviceMappings", "'DeleteOnTermination'", r"block ?device ?mapping|delete ?on ?termination"),
}
_UNSUPPORTED = "Unknown|Unsupported|Invalid(Parameter|Request|Argument)|Validation|NotImplemented"


def refused(fault: Fault, sent: Mapping[str, Any], error: LaunchError) -> tuple[frozenset[str], LaunchError]:
    """What to leave out from now on, and the error to raise; ``error`` is what the fault is by itself."""
    extras = refused_extras(fault, sent)
    if not extras:
        return extras, error
    text = f"{error}; asked without {' and '.join(sorted(extras))} from now on"
    return extras, TransientError(text, launched_nothing=True, retry_s=0.0)


def refused_extras(fault: Fault, sent: Mapping[str, Any]) -> frozenset[str]:
    """Which extras that were sent a refusal is about; empty where it is about something else.

    Only a refusal that surely launched nothing counts. Each leaves out an extra that was sent, so that
    this comes to an end.
    """
    if ECHO in fault.message or not (fault.refused and re.search(_UNSUPPORTED, fault.code)):
        return frozenset()
    words = f"{fault.code} {fault.message}"
    left = [extra for extra, (parameter, sign, _) in _EXTRAS.items() if sign in str(sent.get(parameter))]
    named = [extra for extra in left if re.search(_EXTRAS[extra][2], words, re.IGNORECASE)]
    nameless = fault.code == "UnknownParameter" and not re.search("[A-Z][a-z]+[A-Z]", fault.message)
    return frozenset(named[:1] or (left if nameless else ()))
