"""EC2's error codes as the kinds of `elastiq.interfaces`."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, quote_plus

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
from elastiq.plugins.cloud.ec2_errors import Fault, fault_of, launch_error, read_error
from elastiq.plugins.cloud.ec2_telling import told

KINDS: dict[type[LaunchError], list[tuple[int, str, str]]] = {
    CapacityError: [
        (500, "InsufficientInstanceCapacity", "We currently do not have sufficient capacity"),
        (400, "InsufficientFreeAddressesInSubnet", "not enough free addresses"),
        (400, "ReservationCapacityExceeded", ""),
        (400, "Unsupported", "Your requested instance type (p5.large) is not supported in your Availability Zone"),
        (500, "InsufficientInstanceCapacity", "There is no Spot capacity available that matches your request."),
        (400, "SpotMaxPriceTooLow", "Your Spot request price of 0.01 is lower than the minimum required price"),
        (400, "MaxSpotInstanceCountExceeded", "Max spot instance count exceeded"),
        (400, "UnfulfillableCapacity", "Unable to fulfill capacity due to your request configuration."),
        (400, "capacity-not-available", ""),
        (400, "NoValidHost", "No valid host was found."),  # OpenStack
        (503, "InsufficientInstanceCapacity", "Not enough resources"),  # Eucalyptus
    ],
    QuotaError: [
        (400, "InstanceLimitExceeded", ""),
        (400, "VcpuLimitExceeded", ""),
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
        (403, "AuthFailure.ServiceLinkedRoleCreationNotPermitted", "no permission to create the service-linked role"),
    ],
    AuthError: [
        (401, "AuthFailure", "AWS was not able to validate the provided access credentials"),
        (403, "UnauthorizedOperation", "You are not authorized to perform this operation."),
        (403, "SignatureDoesNotMatch", ""),
        (403, "RequestTimeTooSkewed", ""),
        (403, "InvalidSignatureException", ""),
        (407, "407", "Proxy Authentication Required"),
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
        (made("SSLError", "hostname '127.0.0.1' doesn't match 'localhost'"), ConfigurationError, True),
        (made("SSLError", "[SSL: WRONG_VERSION_NUMBER]"), ConfigurationError, True),
        (made("SSLError", "[X509: NO_CERTIFICATE_OR_CRL_FOUND]"), ConfigurationError, True),
        (made("SSLError", "[SSL: DECRYPTION_FAILED_OR_BAD_RECORD_MAC]"), TransientError, False),
        (made("NoCredentialsError"), AuthError, True),
        (made("CredentialRetrievalError"), AuthError, True),
        (made("ProfileNotFound"), ConfigurationError, True),
        (made("ParamValidationError"), ConfigurationError, True),
        (made("ProxyConnectionError", kwargs={"error": "NewConnectionError(refused)"}), TransientError, True),
        (made("ProxyConnectionError", kwargs={"error": "ConnectionResetError"}), TransientError, False),
        (made("ProxyConnectionError", kwargs={"error": "Tunnel connection failed: 502 Bad"}), TransientError, True),
        (made("ProxyConnectionError", kwargs={"error": "Tunnel connection failed: 407 Who"}), AuthError, True),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
)
def test_botocores_own_exceptions_are_told_by_name(exc: BaseException, kind: type[LaunchError], nothing: bool) -> None:
    error = launch_error(fault_of("run_instances", exc, sent=True), "here")
    assert (type(error), error.launched_nothing) == (kind, nothing)


def test_what_failed_before_the_call_surely_launched_nothing() -> None:
    fault = fault_of("run_instances", ValueError("Invalid endpoint: x"), sent=False)
    error = launch_error(fault, "here")
    assert (type(error), error.launched_nothing) == (ConfigurationError, True)


def test_old_prefixes_of_codes_are_dropped() -> None:
    response = {"Error": {"Code": "Client.AuthFailure"}, "ResponseMetadata": {"HTTPStatusCode": 401}}
    fault = fault_of("describe_instances", made("ClientError", response=response), sent=True)
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
        ("InvalidSpotPrice", "spot_max_price"),
        ("AuthFailure.ServiceLinkedRoleCreationNotPermitted", "create-service-linked-role"),
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


DATA = "#!/bin/sh\nPASS='PLANTED+RED/9' && echo \"<ok> 100%\" > /etc/x\nexport TOKEN=zq7Wk1\n"
ENCODED = base64.b64encode(DATA.encode()).decode()
KEY = "wJalrXUtn/FEMI+K7MDENG=bPx"
FORMS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "url": lambda text: quote(text, safe=""),
    "url in small letters": lambda text: re.sub("%..", lambda found: found[0].lower(), quote(text, safe="")),
    "form": quote_plus,
    "url twice": lambda text: quote(quote(text, safe=""), safe=""),
    "xml": html.escape,
    "xml twice": lambda text: html.escape(html.escape(text)),
    "xml of url": lambda text: html.escape(quote(text)),
    "json": json.dumps,
    "json of json": lambda text: json.dumps(json.dumps(text)),
    "python": repr,
    "wrapped": lambda text: "\n".join(text[at : at + 16] for at in range(0, len(text), 16)),
}


def parts(text: str, size: int) -> set[str]:
    letters = "".join(filter(str.isalnum, text))
    return {letters[at : at + size] for at in range(len(letters) - size + 1)}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
@pytest.mark.parametrize("secret", [DATA, ENCODED, KEY], ids=["user data", "base64", "key"])
def test_no_form_of_a_secret_is_told(secret: str, form: Callable[[str], str]) -> None:
    for said in (f"bad value {form(secret)} was sent", form(f"Action=X&Thing={secret}&Other=1"), form(secret)):
        text = told(Fault("run_instances", "InvalidParameterValue", said, 400), "here", [DATA, ENCODED, KEY])
        found = "".join(filter(str.isalnum, text))
        assert not [part for part in parts(secret, 6) if part in found], text
        assert "PLANTED" not in text and "zq7Wk1" not in text


def test_no_part_of_a_secret_of_twelve_letters_is_told() -> None:
    for at in range(0, len(ENCODED) - 20, 3):
        part = ENCODED[at : at + 20]
        for said in (f"illegal: {part}.", f"illegal: {quote(part, safe='')}"):
            text = told(Fault("run_instances", "InvalidParameterValue", said, 400), "here", [ENCODED])
            assert not [one for one in parts(part, 12) if one in text], text
            assert "illegal: ***" in text


def test_a_secret_at_the_end_of_what_is_looked_at_is_not_told() -> None:
    for size in range(3960, 4001):
        said = "x" * (size - 6) + " word " + DATA
        text = told(Fault("run_instances", "InvalidParameterValue", said, 400), "here", [DATA, ENCODED])
        assert "bin" not in text and "PASS" not in text


def test_a_secret_in_the_place_of_the_code_is_not_told() -> None:
    for code in (KEY, quote(ENCODED[:60]), f"Bad {DATA}", ENCODED * 3):
        text = told(Fault("run_instances", code, "", 400), "here", [DATA, ENCODED, KEY])
        assert not [part for part in parts(code, 8) if part in text], text


@pytest.mark.parametrize(
    "said",
    [
        "UserData=IyEvYmlu%3D&X=1",
        "UserData=IyEvYmlu= X",
        "<UserData>IyEvYmlu</UserData>",
        '{"UserData": "IyEvYmlu"}',
        "{'user_data': 'IyEvYmlu'}",
        "Authorization: Basic IyEvYmlu",
        "authorization: Bearer IyEvYmlu",
        "Authorization: AWS4-HMAC-SHA256 Credential=IyEvYmlu/20260101, SignedHeaders=host, Signature=IyEvYmlu",
        "https://h/?X-Amz-Signature=IyEvYmlu&x=1",
        "X-Amz-Security-Token: IyEvYmlu",
        "SecurityToken%3DIyEvYmlu",
        "session_token=IyEvYmlu",
        'Failed to connect to proxy URL: "http://socks5://user:IyEvYmlu@127.0.0.1:9"',
        'Failed to connect to proxy URL: "http://the user:IyEvYmlu@127.0.0.1:9"',
        "Failed to parse: http://user:IyEvYmlu@proxy:99999",
        "Failed to parse: 'user:IyEvYmlu' is not a valid host or port",
    ],
)
def test_what_is_named_as_a_secret_is_not_told_though_nobody_knows_it(said: str) -> None:
    text = told(Fault("run_instances", "InvalidParameterValue", f"bad {said}", 400), "here")
    assert "IyEv" not in text and "bad" in text


def test_ordinary_words_are_told_as_they_are() -> None:
    said = "The image id '[ami-0123456789abcdef0]' does not exist; credential scope should be signed, user data is fine"
    text = told(Fault("run_instances", "InvalidAMIID.NotFound", said, 400), "here", [DATA, ENCODED, KEY])
    assert said in text


ECHO = "ImageId=ami-1&MinCount=1&UserData=IyEv&TagSpecification.2.ResourceType=volume&KeyName=k"


@pytest.mark.parametrize(
    ("said", "hint"),
    [
        (ECHO, "check the configuration"),
        (json.dumps(dict(pair.split("=") for pair in ECHO.split("&"))), "check the configuration"),
        ("", "check the configuration"),
        ("a dynamic value is wrong", "check the configuration"),
        ("Invalid id: ami-1", "check image_id"),
        ("Value (x) for parameter imageId is invalid", "check image_id"),
    ],
)
def test_a_hint_is_only_given_where_the_answer_names_a_parameter(said: str, hint: str) -> None:
    assert told(Fault("run_instances", "InvalidParameterValue", said, 400), "here").endswith(f"({hint})")


def test_reads_raise_the_general_error_but_for_keys_and_rate() -> None:
    assert type(read_error(Fault("x", "InvalidInstanceID.NotFound", "", 400), "here")) is SourceError
    assert type(read_error(Fault("x", "InternalError", "", 500), "here")) is SourceError
    assert type(read_error(Fault("x", "AuthFailure", "", 401), "here")) is AuthError
    assert type(read_error(Fault("x", "Throttling", "", 400), "here")) is ThrottledError


def test_a_faults_own_text_says_nothing_of_its_message() -> None:
    fault = Fault("run_instances", "InvalidParameterValue", "s3cr3t", 400)
    assert "s3cr3t" not in str(fault) + repr(fault)
