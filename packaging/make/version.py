"""A version of Python's kind (PEP 440) as Debian and RPM write and order it."""

from __future__ import annotations

import datetime
import re

_PEP440 = re.compile(r"(\d+(?:\.\d+)*)(?:\.?(a|b|rc|dev)(\d+))?")


def packaged(version: str, epoch: int, commit: str) -> str:
    """`2.1.0` stays; `2.1.0rc1` is `2.1.0~rc1`, which comes before it.

    A `dev` version, of which there are many, goes on with the time of its commit, so that a later one is an upgrade,
    and with the commit's id where that is known.

    Raises ValueError for a version that cannot be understood.
    """
    found = _PEP440.fullmatch(version)
    if not found:
        raise ValueError(f"version {version!r} is not of the form 1.2.3, 1.2.3rc1 or 1.2.3.dev0")
    release, kind, number = found.groups()
    if kind is None:
        return release
    text = f"{release}~{kind}{number}"
    if kind == "dev":
        time = datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc)
        text += f"+{time:%Y%m%d.%H%M%S}" + (f".g{commit[:7]}" if commit else "")
    return text
