"""EC2's error codes as the kinds of `elastiq.interfaces`."""

from __future__ import annotations

from typing import Any

import pytest

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
from elastiq.plugins.cloud.ec2_errors import Fault, launch_error, read_error, told

KINDS: dict[type[LaunchError], list[tuple[int, str, str]]] = {
    CapacityError: [
        (500, "InsufficientInstanceCapacity", "We currently do not have sufficient capacity"),
        (400, "InsufficientFreeAddressesInSubnet", "not enough free addresses"),
        (400, "ReservationCapacityExceeded", ""),
        (400, "Unsupported", "Your requested instance type (p5.large) is not supported in your Availability Zone"),
        (400, "NoValidHost", "No valid host was found."),  # OpenStack
        (503, "InsufficientInstanceCapacity", "Not enough resources"),  # Eucalyptus
    ],
    QuotaError: [
        (400, "InstanceLimitExceeded", ""),
        (400, "VcpuLimitExceeded", ""),
        (400, "MaxSpotInstanceCountExceeded", ""),
        (400, "VolumeLimitExceeded", ""),
        (400, "ResourceLimitExceeded", ""),
        (400, "NetworkInterfaceLimitExceeded", ""),
        (400, "SomethingNewLimitExceeded", ""),
        (400, "TooManyInstances", "Quota exceeded for instances"),  # OpenStack
        (413, "QuotaError", "Quota exceeded"),
        (403, "Forbidden", "Quota exceeded for cores: Requested 8, but already used 20 of 20 cores"),
        (400, "TooManyResources", ""),  # Outscale
        (400, "PortLimitExceeded", ""),
    ],
    ThrottledError: [
        (503, "RequestLimitExceeded", "Request limit exceeded."),
        (400, "Throttling", "Rate exceeded"),
        (429, "429", "Too Many Requests"),
        (413, "OverLimit", "This request was rate-limited."),
    ],
    ConfigurationError: [
        (400, "InvalidAMIID.NotFound", ""),
        (400, "InvalidKeyPair.NotFound", ""),
        (400, "InvalidParameterValue", ""),
        (400, "InvalidBlockDeviceMapping", ""),
        (400, "MissingParameter", ""),
        (400, "UnknownParameter", ""),
        (400, "UnsupportedOperation", "hibernation"),
        (400, "VPCIdNotSpecified", "No default VPC for this user"),
        (400, "SecurityGroupsPerInterfaceLimitExceeded", ""),
        (400, "AttachmentLimitExceeded", ""),
        (400, "InvalidSnapshot.NotFound", ""),
        (401, "AuthFailure", "Not authorized for images: [ami-1]"),
        (400, "ImageNotFound", ""),  # OpenStack
        (400, "FlavorNotFound", ""),
        (400, "NetworkAmbiguous", "More than one possible network found."),
        (409, "Conflict", "Multiple possible networks found, use a Network ID to be more specific."),
        (404, "404", "Not Found"),
        (302, "302", "Found"),  # http where https is meant
        (400, "NoSuchVersion", ""),
    ],
    AuthError: [
        (401, "AuthFailure", "AWS was not able to validate the provided access credentials"),
        (403, "UnauthorizedOperation", "You are not authorized to perform this operation."),
        (403, "SignatureDoesNotMatch", ""),
        (400, "RequestExpired", "Request has expired"),
        (400, "OptInRequired", ""),
        (400, "PendingVerification", ""),
        (400, "Blocked", ""),
        (401, "401", "Unauthorized"),
        (403, "Forbidden", "Policy does not allow it"),
    ],
    TransientError: [
        (500, "InternalError", ""),
        (503, "ServiceUnavailable", ""),
        (503, "Unavailable", ""),
        (502, "502", "Bad Gateway"),
        (400, "ConcurrentTagAccess", ""),
        (400, "NeverHeardOf", ""),
        (500, "InvalidSomething", "a form that is only trusted in a client error"),
    ],
}


@pytest.mark.parametrize(
    ("kind", "status", "code", "message"), [(kind, *row) for kind, rows in KINDS.items() for row in rows]
)
def test_a_code_has_its_kind(kind: type[LaunchError], status: int, code: str, message: str) -> None:
    error = launch_error(Fault("run_instances", code, message, status), "here")
    assert type(error) is kind
    assert error.launched_nothing is (kind is not TransientError or status < 500)
    assert str(error).startswith(f"RunInstances at here: {code}")


@pytest.mark.parametrize(
    "code", ["UnknownError", "Unknown", "IdempotentParameterMismatch", "IdempotentInstanceTerminated", "408"]
)
def test_some_client_errors_leave_it_open_whether_something_runs(code: str) -> None:
    error = launch_error(Fault("run_instances", code, "", 400), "here")
    assert type(error) is TransientError and not error.launched_nothing


def made(name: str, text: str = "", bases: tuple[str, ...] = (), **attributes: Any) -> BaseException:
    base: Any = Exception
    for one in bases:
        base = type(one, (base,), {})
    exc: BaseException = type(name, (base,), attributes)(text)
    return exc


@pytest.mark.parametrize(
    ("exc", "kind", "nothing"),
    [
        (made("EndpointConnectionError"), TransientError, True),
        (made("ConnectTimeoutError"), TransientError, True),
        (made("ReadTimeoutError"), TransientError, False),
        (made("ConnectionClosedError"), TransientError, False),
        (made("HTTPClientError"), TransientError, False),
        (made("ResponseParserError"), TransientError, False),
        (ValueError("Invalid timestamp"), TransientError, False),
        (made("SSLError", "[SSL: CERTIFICATE_VERIFY_FAILED] self-signed"), ConfigurationError, True),
        (made("SSLError", "[SSL: DECRYPTION_FAILED_OR_BAD_RECORD_MAC]"), TransientError, False),
        (made("NoCredentialsError"), AuthError, True),
        (made("CredentialRetrievalError"), AuthError, True),
        (made("ProfileNotFound"), ConfigurationError, True),
        (made("ParamValidationError"), ConfigurationError, True),
        (made("ProxyConnectionError", kwargs={"error": "NewConnectionError(refused)"}), TransientError, True),
        (made("ProxyConnectionError", kwargs={"error": "ConnectionResetError"}), TransientError, False),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
)
def test_botocores_own_exceptions_are_told_by_name(exc: BaseException, kind: type[LaunchError], nothing: bool) -> None:
    error = launch_error(Fault.of("run_instances", exc, sent=True), "here")
    assert (type(error), error.launched_nothing) == (kind, nothing)


def test_what_failed_before_the_call_surely_launched_nothing() -> None:
    fault = Fault.of("run_instances", ValueError("Invalid endpoint: x"), sent=False)
    error = launch_error(fault, "here")
    assert (type(error), error.launched_nothing) == (ConfigurationError, True)


def test_old_prefixes_of_codes_are_dropped() -> None:
    response = {"Error": {"Code": "Client.AuthFailure"}, "ResponseMetadata": {"HTTPStatusCode": 401}}
    fault = Fault.of("describe_instances", made("ClientError", response=response), sent=True)
    assert (fault.code, fault.status, fault.operation) == ("AuthFailure", 401, "DescribeInstances")


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        ("InvalidAMIID.NotFound", "image_id"),
        ("InvalidKeyPair.NotFound", "key_name"),
        ("InvalidGroup.NotFound", "security_group_ids"),
        ("InvalidSubnetID.NotFound", "subnet_id"),
        ("InvalidLaunchTemplateName.NotFoundException", "launch_template"),
        ("InvalidInstanceType", "flavour"),
        ("NoSuchVersion", "api_version"),
        ("404", "api_url"),
        ("NetworkAmbiguous", "set subnet_id or network_interfaces"),
    ],
)
def test_a_person_is_told_which_key_to_mend(code: str, hint: str) -> None:
    assert hint in told(Fault("run_instances", code, "", 400), "here").rpartition("(")[2]


def test_texts_are_one_line_of_bounded_length_without_secrets_or_encoded_words() -> None:
    message = "line one\n  line two s3cr3t-value " + "QUJD" * 40 + " end" + " word" * 200
    text = told(Fault("run_instances", "InvalidParameterValue", message, 400), "here", ["s3cr3t-value", None, ""])
    assert "line one line two *** *** end" in text
    assert "\n" not in text and len(text) < 450


def test_reads_raise_the_general_error_but_for_keys_and_rate() -> None:
    assert type(read_error(Fault("x", "InvalidInstanceID.NotFound", "", 400), "here")) is SourceError
    assert type(read_error(Fault("x", "InternalError", "", 500), "here")) is SourceError
    assert type(read_error(Fault("x", "AuthFailure", "", 401), "here")) is AuthError
    assert type(read_error(Fault("x", "Throttling", "", 400), "here")) is ThrottledError


def test_a_faults_own_text_says_nothing_of_its_message() -> None:
    fault = Fault("run_instances", "InvalidParameterValue", "s3cr3t", 400)
    assert "s3cr3t" not in str(fault) + repr(fault)
