"""EC2's error codes, sorted into the kinds of `elastiq.interfaces`.

EC2 says more than HTTP does: "no capacity" and "too many requests" arrive as 500 and 503, yet nothing
was launched; a proxy's 502 may hide a launch that worked. So the code decides, and the status only
where the code is not EC2's. The codes are in ec2_codes.ini, with their sources. botocore is not
imported: its exceptions are told by name.
"""

from __future__ import annotations

import re
import time
from configparser import ConfigParser
from contextlib import suppress
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Callable, Collection, Mapping, Optional

from elastiq import interfaces
from elastiq.plugins.cloud.ec2_fault import Fault as Fault

if TYPE_CHECKING:
    from elastiq.plugins.cloud.ec2_client import EC2Client

TABLE = ConfigParser(interpolation=None, delimiters=("=",))
TABLE.read_string(Path(__file__).with_name("ec2_codes.ini").read_text("utf-8"))
_KIND_OF: dict[str, type[interfaces.LaunchError]] = {
    code: getattr(interfaces, name) for name in TABLE if "Error" in name for code in TABLE[name]["codes"].split()
}
# the certificate is not trusted or for another name, ca_bundle is none, or there is no TLS at all
_NO_TRUST = "CERTIFICATE_VERIFY|doesn't match|NO_CERTIFICATE|No such file|WRONG_VERSION"
_FORMS = (  # of the code and the message: families of codes, and where the code alone would mislead
    (r"^Insufficient", interfaces.CapacityError),
    (r"^\S*Throttl(ing|ed)", interfaces.ThrottledError),
    # somebody else's image
    (r"^AuthFailure .*not authorized for image", interfaces.ConfigurationError),
    # OpenStack's NetworkAmbiguous, which ec2-api passes on as Conflict
    (r"possible networks", interfaces.ConfigurationError),
    # not offered there: the next subnet or flavour may be
    (r"^Unsupported(Operation)? .*(availability zone|instance type)", interfaces.CapacityError),
    # OpenStack's compute API behind an EC2 front end
    (r"^(Forbidden|403|OverLimit|RequestEntityTooLarge) .*quota", interfaces.QuotaError),
    # said here, of the endpoint
    (rf"^SSLError .*({_NO_TRUST})|^ValueError Invalid endpoint", interfaces.ConfigurationError),
    (r"^ProxyConnectionError .*failed: 4..", interfaces.AuthError),
)
_CONFIGURATION_FORM = re.compile(
    r"^(Invalid|Missing|Unknown(Parameter|Volume)|Unsupported|Validation|Malformed)"
    r"|(NotFound|NotFoundException|NotSupported|Malformed)$|(PerInstance|PerInterface|Attachment|Tag|Filter)LimitExceeded$"
)
NOT_FOUND = ("InvalidInstanceID.NotFound", "InvalidInstanceID.Malformed", "InstanceNotFound", "NotFound")
STRICT = "TypeError"  # how ec2-api tells that its Python method has no such parameter, with HTTP 500
# what botocore's parser raises at an answer that is not EC2's
NONSENSE = ("ResponseParserError", "ValueError", "KeyError", "TypeError", "AttributeError")

_NEVER_LEFT = re.compile(  # what botocore says of a request that did not reach the endpoint, or no further than TLS
    rf"(?s)^((EndpointConnection|ConnectTimeout)Error|SSLError .*({_NO_TRUST}|HANDSHAKE|UNKNOWN_PROTOCOL)"
    r"|ProxyConnectionError .*(NewConnectionError|Tunnel connection failed|refused))"  # else perhaps lost later
)
ECHO = "MinCount"  # in a message that quotes the whole request: it names every parameter and is about none
PROXY_SAYS = ("407", "ProxyConnectionError")


def failed(client: EC2Client, operation: str, exc: BaseException, sent: bool) -> Fault:
    """The same, of a client's call: one that was told that its keys are not good reads them anew with the next."""
    fault = fault_of(operation, exc, sent)
    if fault.kind is interfaces.AuthError and not fault.refused:
        client.made = None  # botocore reads a file of keys once: who renews them need not restart us
    return fault


def of_image(fault: Fault, refusal: Callable[[Fault], interfaces.LaunchError]) -> tuple[()]:
    """Nothing is known of an image where the cloud does not tell. Raises what else it may be: nothing was launched."""
    if not (fault.refused or fault.code in NONSENSE):
        fault.sent = False  # RunInstances was not
        raise refusal(fault) from None
    return ()


def fault_of(operation: str, exc: BaseException, sent: bool) -> Fault:
    """What botocore raised, as a fault; ``sent`` is False if it happened before the call itself."""
    name, response = type(exc).__name__, getattr(exc, "response", None)
    if isinstance(response, dict):  # ClientError
        error = response.get("Error") or {}
        status = int(response.get("ResponseMetadata", {}).get("HTTPStatusCode") or 0)
        said = re.sub(r"^(Client|Server)\.", "", str(error.get("Code") or "Unknown"))
        code = str(status) if 300 <= status < 400 else said  # botocore follows no redirection
        clock = _clock(response.get("ResponseMetadata", {}).get("HTTPHeaders") or {})
        return Fault(operation, code, f"{error.get('Message') or ''}{clock}", status)
    words = f"{exc} {getattr(exc, 'kwargs', '')}"
    refusal = re.search(r"Tunnel connection failed: [\w ]+", words)
    # a parser's complaint goes on with the whole answer
    text = str(exc).partition(" Further retries may succeed")[0] + (f": {refusal[0]}" if refusal else "")
    return Fault(operation, name, text, 0, sent and not _NEVER_LEFT.search(f"{name} {words}"))


def kind_of(fault: Fault) -> type[interfaces.LaunchError]:
    """The kind of `elastiq.interfaces` that a fault is, were it a launch."""
    for form, kind in _FORMS:
        if re.search(form, f"{fault.code} {fault.message}", re.IGNORECASE | re.DOTALL):
            return kind
    if fault.code in _KIND_OF:
        return _KIND_OF[fault.code]
    if 0 < fault.status < 500 and _CONFIGURATION_FORM.search(fault.code):
        return interfaces.ConfigurationError
    return interfaces.QuotaError if fault.code.endswith("LimitExceeded") else interfaces.TransientError


def is_refused(fault: Fault) -> bool:
    """Whether EC2 turned down this very request, not its rate or whoever asks."""
    asker = kind_of(fault) in (interfaces.AuthError, interfaces.ThrottledError)
    asker = asker and fault.code != "UnauthorizedOperation"
    return 400 <= fault.status < 500 and not asker and (not is_unsure(fault) or fault.code in NOT_FOUND)


def is_denied(fault: Fault) -> bool:
    """Whether it is of no use to ask that again: it was refused, or is not allowed."""
    return is_refused(fault) or fault.code in ("AccessDenied", "AccessDeniedException")


def is_unsure(fault: Fault) -> bool:
    """Whether the code leaves it open what was done."""
    return _KIND_OF.get(fault.code) is interfaces.TransientError


def _clock(headers: Mapping[str, str]) -> str:
    """How wrong our clock is by the answer's Date (EC2 takes 5 minutes); empty if it is right, or nobody says."""
    with suppress(TypeError, ValueError, KeyError):
        off_s = time.time() - parsedate_to_datetime(headers["date"]).timestamp()
        if abs(off_s) > 60:
            return f"; by the cloud's clock, this machine's is {abs(off_s):.0f} s {'fast' if off_s > 0 else 'slow'}"
    return ""


def launch_error(fault: Fault, where: str, secrets: Collection[Optional[str]] = ()) -> interfaces.LaunchError:
    """The error for a failed launch; only a `TransientError` may leave the intent open."""
    from elastiq.plugins.cloud.ec2_telling import told

    text = told(fault, where, secrets)
    if fault.kind is not interfaces.TransientError:
        return fault.kind(text)
    by_ec2 = 400 <= fault.status < 500 and not is_unsure(fault)
    return interfaces.TransientError(text, launched_nothing=by_ec2 or not fault.sent)


def read_error(fault: Fault, where: str, secrets: Collection[Optional[str]] = ()) -> interfaces.SourceError:
    """The error for anything else that failed: credentials and throttling keep their kinds."""
    from elastiq.plugins.cloud.ec2_telling import told

    kept = fault.kind in (interfaces.AuthError, interfaces.ThrottledError)
    return (fault.kind if kept else interfaces.SourceError)(told(fault, where, secrets))
