"""EC2's error codes, sorted into the kinds of `elastiq.interfaces`.

EC2 says more than HTTP does: "no capacity" and "too many requests" arrive as 500 and 503, yet nothing
was launched; a proxy's 502 may hide a launch that worked. So the code decides, and the status only
where the code is not EC2's. Sources: "Error codes for the Amazon EC2 API" (EC2 API Reference); the
EC2 front ends of OpenStack (nova/api/ec2, stackforge ec2-api: the class name of the exception is the
code), Eucalyptus (VmControl.java) and Outscale. botocore is not imported: its exceptions are told by name.
"""

from __future__ import annotations

import re
from typing import Iterable, Optional

from elastiq.interfaces import (
    AuthError,
    CapacityError,
    ConfigurationError,
    LaunchError,
    QuotaError,
    SourceError,
    ThrottledError,
    TransientError,
)

CAPACITY = frozenset(
    """InsufficientInstanceCapacity InsufficientCapacity InsufficientHostCapacity InsufficientCapacityOnHost
    InsufficientReservedInstanceCapacity InsufficientReservedInstancesCapacity InsufficientVolumeCapacity
    InsufficientAddressCapacity InsufficientFreeAddressesInSubnet ReservationCapacityExceeded
    UnfulfillableCapacity SpotMaxPriceTooLow IncompatibleHostRequirements
    UnavailableHostRequirements VolumeTypeNotAvailableInZone
    NoValidHost NoMoreNetworks NoMoreFixedIps IpAddressGenerationFailure NotEnoughResources
    NotEnoughResourcesException OutOfCapacity""".split()
)
THROTTLED = frozenset(
    """RequestLimitExceeded Throttling ThrottlingException ThrottledException RequestThrottled
    RequestThrottledException EC2ThrottledException TooManyRequestsException TooManyRequests SlowDown
    PriorRequestNotComplete BandwidthLimitExceeded RateLimitExceeded OverLimit RequestEntityTooLarge
    429""".split()
)
QUOTA = frozenset(  # and nearly everything that ends in LimitExceeded
    """ResourceCountExceeded MaxSpotInstanceCountExceeded MaxScheduledInstanceCapacityExceeded
    VolumeIOPSLimit QuotaError QuotaExceeded QuotaExceded OverQuota TooManyInstances
    TooManyResources""".split()
)
AUTH = frozenset(
    """AuthFailure UnauthorizedOperation InvalidClientTokenId SignatureDoesNotMatch IncompleteSignature
    MissingAuthenticationToken ExpiredToken ExpiredTokenException RequestExpired OptInRequired
    PendingVerification Blocked AccessDenied AccessDeniedException AccessFailure InvalidAccessKeyId
    UnrecognizedClientException InvalidSecurity InvalidSecurityToken NotAuthorized NotAuthorizedException
    Unauthorized Forbidden PolicyNotAuthorized 401 403 407""".split()
)
CONFIGURATION = frozenset(
    """NetworkAmbiguous VPCIdNotSpecified VPCResourceNotSpecified DefaultVpcDoesNotExist NoSuchVersion
    OperationNotPermitted BootForVolumeTypeUnsupported EncryptedVolumesNotSupported ZonesMismatched
    CustomerKeyHasBeenRevoked ImageNotActive BadRequest 301 302 303 307 308 400 404 405""".split()
)
_CONFIGURATION_FORM = re.compile(
    r"^(Invalid|Missing|Unknown(Parameter|Volume)|Unsupported|Validation|Malformed)"
    r"|(NotFound|NotFoundException|NotSupported|Malformed)$"
    r"|(PerInstance|PerInterface|Attachment|Tag|Filter)LimitExceeded$"
)
UNSURE = frozenset(
    """UnknownError Unknown 408 IdempotentParameterMismatch IdempotentInstanceTerminated
    InvalidInstanceID.NotFound InstanceNotFound""".split()
)
"""Client errors after which something may run: nova's answer to any unforeseen exception (sent with 400), a
token that was already used, and an instance that was made but not yet seen by all of EC2."""

NOT_FOUND = frozenset(
    """InvalidInstanceID.NotFound InvalidInstanceId.NotFound InvalidInstanceID.Malformed
    InstanceNotFound""".split()
)
_NONSENSE = ("NotEC2", "ResponseParserError", "ValueError", "KeyError", "TypeError", "AttributeError")

_HINTS: tuple[tuple[str, str], ...] = (  # the first that is found in the code or the message
    (r"network ?ambiguous|possible networks", "set subnet_id or network_interfaces"),
    (r"^(30.|40.)\b", "check api_url"),
    (r"AMI|image", "check image_id"),
    (r"key ?pair", "check key_name"),
    (r"launch ?template", "check launch_template"),
    (r"security ?group|InvalidGroup", "check security_group_ids"),
    (r"subnet|network|VPC|\bAZ\b|zone", "check subnet_id or network_interfaces"),
    (r"instance ?type|flavou?r", "check flavour"),
    (r"iam|instance ?profile", "check iam_instance_profile"),
    (r"metadata ?options|HttpTokens", "check imds_v2"),
    (r"block ?device|volume", "check root_disk_gb"),
    (r"user ?data", "check the user data"),
    (r"NoSuchVersion|version", "check api_version"),
    (r"region", "set region or api_url"),
    (r"certificate|SSL", "check api_url, ca_bundle and the head node's clock"),
)
_HINT_OF_KIND: dict[type[LaunchError], str] = {
    CapacityError: "another flavour or subnet may have room",
    QuotaError: "ask for a higher limit or lower max_vms",
    ThrottledError: "asked again more slowly",
    AuthError: "check the credentials, their rights and the head node's clock",
    ConfigurationError: "check the configuration",
    TransientError: "asked again later",
}
_LONG_WORD = re.compile(r"[A-Za-z0-9+/=]{60,}")  # encoded: user data, an authorization failure


class Fault(Exception):
    """One failed call. ``status`` is 0 without an answer; ``sent`` is False if surely nothing was asked."""

    def __init__(self, operation: str, code: str, message: str, status: int = 0, sent: bool = True) -> None:
        super().__init__(f"{operation}: {code}")  # the message may hold secrets: `told` takes them out
        self.operation = "".join(part[:1].upper() + part[1:] for part in operation.split("_"))
        self.code, self.message, self.status, self.sent = code, message, status, sent

    @classmethod
    def of(cls, operation: str, exc: BaseException, sent: bool) -> Fault:
        """Sort what botocore raised; ``sent`` is False if it happened before the call itself."""
        classes = {one.__name__ for one in type(exc).__mro__}
        if "ClientError" in classes:
            response = getattr(exc, "response", {})
            error = response.get("Error") or {}
            status = int(response.get("ResponseMetadata", {}).get("HTTPStatusCode") or 0)
            code = re.sub(r"^(Client|Server)\.", "", str(error.get("Code") or "Unknown"))
            code = str(status) if 300 <= status < 400 else code  # botocore follows no redirection
            return cls(operation, code, str(error.get("Message") or ""), status)
        # a parser's complaint goes on with the whole answer
        message = str(exc).partition(" Further retries may succeed")[0]
        return cls(operation, type(exc).__name__, message, 0, sent and not _never_left(exc, classes))

    @property
    def refused(self) -> bool:
        """Whether EC2 turned the request down for what it was, not for its rate or its key."""
        fair = self.kind not in (AuthError, ThrottledError)
        return fair and 400 <= self.status < 500 and self.code not in UNSURE

    @property
    def nonsense(self) -> bool:
        """Whether there was an answer that is not EC2's."""
        return self.status == 0 and self.sent and self.code in _NONSENSE

    @property
    def kind(self) -> type[LaunchError]:
        """The kind of `elastiq.interfaces` that this is, were it a launch."""
        code, message = self.code, self.message.lower()
        if code in UNSURE:
            return TransientError
        if code == "AuthFailure" and "not authorized for image" in message:
            return ConfigurationError  # somebody else's image
        if "possible networks" in message:
            return ConfigurationError  # OpenStack's NetworkAmbiguous, which ec2-api passes on as Conflict
        if code in ("Unsupported", "UnsupportedOperation") and re.search("availability zone|instance type", message):
            return CapacityError  # not offered there: the next subnet or flavour may be
        if code in ("Forbidden", "403", "OverLimit", "RequestEntityTooLarge") and "quota" in message:
            return QuotaError  # OpenStack's compute API behind an EC2 front end
        for codes, kind in _TABLE:
            if code in codes:
                return kind
        if self.status == 0:
            wrong = code in _LOCAL_CONFIGURATION or (code == "ValueError" and not self.sent)
            return ConfigurationError if wrong or "CERTIFICATE_VERIFY" in self.message else TransientError
        if _CONFIGURATION_FORM.search(code) and self.status < 500:
            return ConfigurationError
        return QuotaError if code.endswith("LimitExceeded") else TransientError

    @property
    def launched_nothing(self) -> bool:
        """Whether a launch that failed so surely made no instance."""
        by_ec2 = self.kind is not TransientError or 400 <= self.status < 500
        return not self.sent or (by_ec2 and self.code not in UNSURE)


# botocore's own exceptions
_LOCAL_AUTH = frozenset(
    """NoCredentialsError PartialCredentialsError CredentialRetrievalError TokenRetrievalError
    SSOTokenLoadError UnauthorizedSSOTokenError MetadataRetrievalError LoginRefreshRequired""".split()
)
_LOCAL_CONFIGURATION = frozenset(
    """NoRegionError InvalidRegionError ProfileNotFound ConfigParseError ConfigNotFound ParamValidationError
    InvalidProxiesConfigError EndpointProviderError EndpointResolutionError ModuleNotFoundError""".split()
)
_TABLE: tuple[tuple[frozenset[str], type[LaunchError]], ...] = (
    (CAPACITY, CapacityError),
    (THROTTLED, ThrottledError),
    (QUOTA, QuotaError),
    (AUTH | _LOCAL_AUTH, AuthError),
    (CONFIGURATION, ConfigurationError),
)


def _never_left(exc: BaseException, classes: set[str]) -> bool:
    """Whether the request surely never reached the endpoint."""
    if (
        classes & {"EndpointConnectionError", "ConnectTimeoutError"}
        or type(exc).__name__ in _LOCAL_AUTH | _LOCAL_CONFIGURATION
    ):
        return True
    if "SSLError" in classes:  # before the hand-shake is done nothing is sent
        return bool(re.search(r"CERTIFICATE_VERIFY|WRONG_VERSION|HANDSHAKE|UNKNOWN_PROTOCOL", str(exc)))
    if "ProxyConnectionError" in classes:  # urllib3 1.26 also says so of a connection lost later
        text = str(getattr(exc, "kwargs", {}).get("error", ""))
        return any(sign in text for sign in ("NewConnectionError", "Tunnel connection failed", "refused"))
    return False


def told(fault: Fault, where: str, secrets: Iterable[Optional[str]] = ()) -> str:
    """One line for a person: what was asked, where, the code, EC2's words without secrets, what to do."""
    words = fault.message
    for secret in secrets:
        if secret and len(secret) > 4:
            words = words.replace(secret, "***")
    words = " ".join(_LONG_WORD.sub("***", words).split())[:300].rstrip(". ")
    hint = _HINT_OF_KIND[fault.kind]
    if fault.kind is ConfigurationError:
        both = f"{fault.code} {words}"
        hint = next((hint for form, hint in _HINTS if re.search(form, both, re.IGNORECASE)), hint)
    said = f": {words}" if words else f" (HTTP {fault.status})"
    return f"{fault.operation} at {where}: {fault.code}{said} ({hint})"


def launch_error(fault: Fault, where: str, secrets: Iterable[Optional[str]] = ()) -> LaunchError:
    """The error for a failed launch; only a `TransientError` may leave the intent open."""
    text = told(fault, where, secrets)
    if fault.kind is TransientError or not fault.launched_nothing:
        return TransientError(text, fault.launched_nothing)
    return fault.kind(text)


def read_error(fault: Fault, where: str, secrets: Iterable[Optional[str]] = ()) -> SourceError:
    """The error for anything else that failed: credentials and throttling keep their kinds."""
    text = told(fault, where, secrets)
    return fault.kind(text) if fault.kind in (AuthError, ThrottledError) else SourceError(text)
