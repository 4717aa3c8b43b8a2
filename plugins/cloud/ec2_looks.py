"""What the checks of one EC2 site share: its client, and what was asked once. Only for `EC2Cloud.checks`."""

from __future__ import annotations

import re
import threading
import time
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import Any, Callable, Iterable, Mapping, Optional, Sequence, TypeVar

from elastiq.interfaces import (
    AuthError,
    CapacityError,
    Check,
    ConfigurationError,
    InstanceState,
    Owner,
    Pool,
    QuotaError,
    SourceError,
    ThrottledError,
    TransientError,
)
from elastiq.plugins.cloud import ec2_client
from elastiq.plugins.cloud.ec2_client import EC2Client, pages
from elastiq.plugins.cloud.ec2_dialects import dialect_of
from elastiq.plugins.cloud.ec2_errors import read_error
from elastiq.plugins.cloud.ec2_fault import Fault
from elastiq.plugins.cloud.ec2_instances import sort_instances
from elastiq.plugins.cloud.ec2_telling import in_two, secrets_of

T = TypeVar("T")
Rows = list[Mapping[str, Any]]

# What only the checks ask for, beside what the daemon does.
MORE_OPERATIONS = """DescribeAccountAttributes DescribeInstanceTypeOfferings DescribeKeyPairs
    DescribeLaunchTemplateVersions DescribeSecurityGroups DescribeSubnets""".split()
_FOUND_OUT = {AuthError: "error", ConfigurationError: "error", CapacityError: "warning", QuotaError: "warning"}
_ABSENT = re.compile(
    r"NotFound|Malformed|^Invalid(AMI|Group|KeyPair|Subnet|InstanceType|LaunchTemplate)", re.IGNORECASE
)
NOT_ALLOWED = ("UnauthorizedOperation", "AccessDenied", "AccessDeniedException")
IAM = "docs/iam.md"


class Site:
    """One endpoint with its pools. Any thread may ask; the same question is asked once."""

    def __init__(
        self, name: str, pools: Iterable[Pool], owner: Owner, refused: frozenset[str], options: Mapping[str, Any]
    ) -> None:
        """``options`` are the client's; ``refused``: extras of RunInstances that this cloud does not take."""
        self.name, self.pools, self.owner, self.refused, self.options = name, tuple(pools), owner, refused, options
        self.dialect, self.about = dialect_of(self.pools[0].options)
        self.skew_s: Optional[float] = None  # how much our clock is ahead of the cloud's, once it has answered
        self._client = _Client({**options, "operations": [*ec2_client.OPERATIONS, *MORE_OPERATIONS]}, self._heard)
        self._lock = threading.Lock()
        self._asked: dict[Any, _Once] = {}

    def call(self, operation: str, **parameters: Any) -> dict[str, Any]:
        return self._client.call(operation, **parameters)

    def once(self, key: Any, work: Callable[[], T]) -> T:
        """What ``work`` returns, or the `Fault` that it raises; whoever asks first makes the others wait."""
        with self._lock:
            asked = self._asked.setdefault(key, _Once(work))
        result: T = asked.result()
        return result

    def listed(self) -> Rows:
        """All instances. Raises `Fault`."""
        more = {"MaxResults": 1000} if self.dialect.name == "aws" else {}  # not all know pages: docs/clouds.md
        reservations = self.once("instances", lambda: pages(self.call, "describe_instances", "Reservations", **more))
        return [one for reservation in reservations for one in reservation.get("Instances") or ()]

    def owned(self, pool: Pool) -> int:
        """How many machines of ours the pool has already. Raises `Fault`."""
        ours = sort_instances(self.listed(), self.owner, frozenset()).owned
        living = [one for one in ours if one.state is not InstanceState.TERMINATED]
        return sum(1 for one in living if one.pool == pool.name or len(self.pools) == 1)

    def reach(self) -> None:
        """Raises `SourceError` where nothing can be asked: each of the other checks begins with it."""
        try:
            self.listed()
        except Fault as fault:
            if fault.code not in NOT_ALLOWED:
                raise SourceError("not looked at: the endpoint gave no answer that is of use") from None

    def described(self, operation: str, key: str, **parameters: Any) -> Rows:
        """The rows of one answer. Raises `Fault`."""
        rows = self.once((operation, repr(parameters)), lambda: self.call(operation, **parameters)).get(key)
        if rows is None:  # botocore takes any page for an answer without rows
            raise Fault(operation, "NotEC2", f"no {key} in the answer: is a login page in between?")
        return list(rows)

    # ---- telling

    @property
    def _secrets(self) -> set[Optional[str]]:
        return {secret for pool in self.pools for secret in secrets_of(pool.options)}

    def told(self, subject: str, fault: Fault, level: str = "") -> Check:
        """A fault as a check: what EC2 refuses for good is an error, what may pass is not known."""
        text, remedy = in_two(fault, self.name, self._secrets)
        passing = fault.kind in (ThrottledError, TransientError)
        level = level or _FOUND_OUT.get(fault.kind, "unknown")
        return Check(subject, level, text, "check again later" if passing else remedy)

    def not_described(self, subject: str, fault: Fault) -> Check:
        """A refusal to tell of something: it is not there, or we may not see it, or the cloud does not tell."""
        if fault.code in NOT_ALLOWED:
            text, _ = in_two(fault, self.name, self._secrets)
            return Check(subject, "unknown", text, f"allow ec2:{fault.operation} ({IAM}), or look for yourself")
        absent = fault.refused and _ABSENT.search(fault.code)
        return self.told(subject, fault, "error" if absent or fault.code == "ParamValidationError" else "unknown")

    def error(self, fault: Fault) -> SourceError:
        return read_error(fault, self.name, self._secrets)

    def _heard(self, date: str) -> None:
        with suppress(TypeError, ValueError):
            self.skew_s = time.time() - parsedate_to_datetime(date).timestamp()


class _Client(EC2Client):
    """One that hears what time it is in the cloud, in good answers and in refusals."""

    def __init__(self, options: Mapping[str, Any], heard: Callable[[str], None]) -> None:
        super().__init__(options)
        self._heard = heard

    def _make(self) -> tuple[Any, Any]:
        made = super()._make()
        for client in made:
            client.meta.events.register("response-received", self._received)
        return made

    def _received(self, response_dict: Optional[Mapping[str, Any]] = None, **_: Any) -> None:
        headers = (response_dict or {}).get("headers") or {}
        if headers.get("date"):
            self._heard(headers["date"])


class _Once:
    """The result of one piece of work, for all who ask."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work, self._lock = work, threading.Lock()
        self._result: Optional[tuple[Any, Optional[Fault]]] = None

    def result(self) -> Any:
        with self._lock:
            if self._result is None:
                try:
                    self._result = self._work(), None
                except Fault as fault:
                    self._result = None, fault
            value, error = self._result
        if error is not None:
            raise error
        return value


def listing(names: Sequence[str], most: int = 4) -> str:
    """Some names, for a person."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def judged(subject: str, text: str, room: int, owned: int, pool: Pool, remedy: str) -> Check:
    """Room for so many more machines, against what the pool still may or must have."""
    need, most = max(0, pool.min_vms - owned), None if pool.max_vms is None else max(0, pool.max_vms - owned)
    text = f"{text}: room for {room} more"
    if room < need:
        return Check(subject, "error", f"{text}, min_vms is {pool.min_vms}", remedy)
    if room == 0 and most != 0:
        return Check(subject, "error", text, remedy)
    if most is not None and room < most:
        return Check(subject, "warning", f"{text}, max_vms is {pool.max_vms}", remedy)
    return Check(subject, "ok", text)
