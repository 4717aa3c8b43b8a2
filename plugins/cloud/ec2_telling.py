"""What a person is told of a failed call: one line, without secrets. Imported at the first failure."""

from __future__ import annotations

import base64
import html
import re
from typing import Any, Collection, Mapping, Optional
from urllib.parse import unquote, urlsplit

from elastiq import interfaces
from elastiq.plugins.cloud.ec2_errors import ECHO, PROXY_SAYS, TABLE
from elastiq.plugins.cloud.ec2_fault import LONGEST, Fault

_WINDOW = 12  # so many letters and digits in a row, as in a secret, are taken for a part of it
_HIDDEN = re.compile(  # what is encoded (user data, a key), the user of a URL, what is named a secret
    r"(?i)[a-z0-9+/=]{40,}|(?<=//)\S{1,200}(?=@)|(?<=://)[^\"]{1,300}(?=@[^\"]*\")|(?<=failed to parse: ).+|"
    r"(user_?data|authorization|x-amz-[\w-]+|signature|credential|(security|session)_?token)[\"']?"
    r"\s*[=:>]\s*((basic|bearer|aws4?[\w-]*)\s+)?[^&\s<,]+"
)


def _plain(text: str) -> str:
    """Without the encodings of URLs, XML and JSON."""
    for _ in range(3):  # an answer may quote a quotation
        text = re.sub(r"\\+(u00..|x..|[nrt])", " ", html.unescape(unquote(text)))
    return text


def _without(secrets: Collection[Optional[str]], text: str) -> str:
    """The text on one line, decoded, without the secrets, parts of them and what looks like one.

    Only letters and digits are compared: all else may have been quoted, encoded or wrapped on the way.
    """
    whole, text = len(text) < LONGEST, _HIDDEN.sub("***", _plain(text))
    places = [at for at, letter in enumerate(text) if letter.isalnum()]
    letters = "".join(text[at] for at in places)
    for known in ("".join(filter(str.isalnum, _plain(secret or ""))) for secret in secrets):
        size = min(_WINDOW, len(known))
        for at in range(len(letters) - size + 1 if size > 3 else 0):
            if letters[at : at + size] in known:
                first, end = places[at], places[at + size - 1] + 1
                text = text[:first] + "\0" * (end - first) + text[end:]
    # the beginning of a secret may be all that is left at a cut
    return " ".join(re.sub("\0+", "***", text if whole else text[: -4 * _WINDOW]).split())


def told(fault: Fault, where: str, secrets: Collection[Optional[str]] = ()) -> str:
    """One line for a person: what was asked, where, the code, EC2's words without secrets, what to do."""
    return "{} ({})".format(*in_two(fault, where, secrets))


def in_two(fault: Fault, where: str, secrets: Collection[Optional[str]] = ()) -> tuple[str, str]:
    """As `told`, what to do by itself."""
    words, code = (_without(secrets, text)[:300].strip(";. ") for text in (fault.message, fault.code))
    wrong = fault.kind is interfaces.ConfigurationError and ECHO not in fault.message
    forms = TABLE["hints"].items() if wrong or fault.code in PROXY_SAYS else ()
    fitting = (hint for hint, form in forms if re.search(form, f"{code} {words}", re.IGNORECASE))
    said = f": {words}" if words else f" (HTTP {fault.status})"
    hint = next(fitting, TABLE[fault.kind.__name__]["hint"])
    return f"{fault.operation} at {where}: {code}{said}", hint


def secrets_of(options: Mapping[str, Any]) -> list[Optional[str]]:
    """What must not come back in an error's text: a cloud's answer, or botocore's, may quote the request."""
    data: bytes = options.get("user_data") or b""
    texts = [base64.b64encode(data).decode("ascii"), data.decode("utf-8", "replace")]
    keys = [options.get("aws_secret_access_key"), options.get("aws_session_token")]
    return [*keys, *texts, urlsplit(options.get("proxy") or "").password]
