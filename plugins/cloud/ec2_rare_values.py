"""What is wrong with the values of keys that few files have; each returns a complaint, or an empty string.

Imported for the first of them.
"""

from __future__ import annotations

import errno
import os
import re
from typing import Mapping

TAG_LIMIT = 40
"""EC2 allows 50 tags on an instance; the rest is for elastiq's own and the cloud's."""


def readable(value: str) -> str:
    """Of one that is not there, and of one that is not for us, the words that the configuration's own reading has."""
    try:
        os.stat(value)  # denied where its directory is not for us
        regular, allowed = os.path.isfile(value), os.access(value, os.R_OK)
        why = os.strerror(errno.EACCES) if regular else "it is not a regular file"
    except (OSError, ValueError) as error:
        regular, allowed, why = False, False, getattr(error, "strerror", None) or "not a file's name"
    return "" if regular and allowed else f"cannot be read ({why}), check name and permissions"


def credential(value: str) -> str:
    """Where a file of keys is: what systemd gave to the service under its name (LoadCredential=, systemd.exec(5)) goes
    before the file itself, which may be for root alone."""
    given = os.path.join(os.environ.get("CREDENTIALS_DIRECTORY", "/nonexistent"), os.path.basename(value))
    return given if os.path.isfile(given) else value


def interfaces(value: tuple[str, ...]) -> str:
    wrong = [entry for entry in value if not re.fullmatch(r"[^:]+(:[^:+]+(\+[^:+]+)*)?", entry)]
    return f"`{wrong[0]}` is not of the form SUBNET or SUBNET:GROUP+GROUP" if wrong else ""


def spot_price(value: float) -> str:
    return "" if value > 0.001 else "must be above 0.001"  # EC2 API Reference, SpotMarketOptions


def tags(value: Mapping[str, str]) -> str:
    for key, text in value.items():
        if key.lower().startswith(("aws:", "elastiq:")):
            return f"`{key}`: the prefixes aws: and elastiq: are reserved"
        if key == "Name":
            return "`Name`: use name_template"
        if len(key) > 128 or len(text) > 256:
            return f"`{key[:40]}`: EC2 takes 128 characters for a key and 256 for a value"
    return "" if len(value) <= TAG_LIMIT else f"are more than {TAG_LIMIT}"
