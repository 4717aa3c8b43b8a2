"""Acts on instances that few daemons come to: ends that are refused, starts, adoption.

They take ``ask``, which sends one request for several instances, or raises a `Fault`.
"""

from __future__ import annotations

from typing import Any, Callable, Mapping, Sequence

from elastiq.interfaces import CapacityError, EndAnswer, EndOutcome, LaunchError, Owner, QuotaError, SourceError
from elastiq.plugins.cloud.ec2_errors import NOT_FOUND, Fault
from elastiq.plugins.cloud.ec2_request import TAG_CLUSTER, TAG_HEAD, tag_list

Ask = Callable[[str, Sequence[str]], Mapping[str, EndAnswer]]


def refused_end(
    fault: Fault, ask: Ask, act: str, ids: Sequence[str], told: Callable[[Fault], SourceError]
) -> Mapping[str, EndAnswer]:
    """The answers after a terminate or stop failed: EC2 refuses all for one bad id, so each is asked for alone.

    Raises what ``told`` makes of the fault where it says nothing about the instances.
    """
    error = told(fault)
    if not fault.refused:
        raise error from None
    alone = list(dict.fromkeys(ids))
    if len(alone) == 1:
        return {alone[0]: _refusal(fault, error)}
    answers: dict[str, EndAnswer] = {}
    for one in alone:
        try:
            answers.update(ask(act, [one]))
        except Fault as again:  # the others have their answers already, or will get one
            answers[one] = _refusal(again, told(again))
    return answers


def _refusal(fault: Fault, error: SourceError) -> EndAnswer:
    gone = fault.refused and fault.code in NOT_FOUND
    return EndAnswer(EndOutcome.NOT_FOUND if gone else EndOutcome.FAILED, str(error))


def start(ask: Ask, ids: Sequence[str], told: Callable[[Fault], LaunchError]) -> Mapping[str, EndAnswer]:
    """Start stopped instances: all at once, singly where that is refused or there is no room for all.

    Raises what ``told`` makes of the fault if it is not about single instances, or if none could be started.
    """
    try:
        return ask("start", ids)
    except Fault as fault:
        alone, error = list(dict.fromkeys(ids)), told(fault)
        if len(alone) == 1 and fault.refused and fault.code in NOT_FOUND:
            return {alone[0]: _refusal(fault, error)}
        if len(alone) == 1 or not (fault.refused or isinstance(error, (CapacityError, QuotaError))):
            raise error from None
    answers: dict[str, EndAnswer] = {}
    errors: list[LaunchError] = []
    for one in alone:
        try:
            answers.update(start(ask, [one], told))
        except LaunchError as refused:
            errors.append(refused)
            answers[one] = EndAnswer(EndOutcome.FAILED, str(refused))
    if len(errors) == len(alone):
        raise errors[0]
    return answers


def adopt(
    call: Callable[..., Mapping[str, Any]], ids: Sequence[str], owner: Owner, told: Callable[[Fault], SourceError]
) -> None:
    """Give instances our head's tag; they count as ours from the next listing on."""
    tags = {TAG_CLUSTER: owner.cluster, TAG_HEAD: owner.head}
    try:
        answer = call("create_tags", Resources=list(ids), Tags=tag_list(tags))
    except Fault as fault:
        raise told(fault) from None
    if not answer.get("Return", "RequestId" in answer["ResponseMetadata"]):  # Eucalyptus has the first only
        raise told(Fault("create_tags", "NotEC2", "it is not said to be done: is a login page in between?"))
