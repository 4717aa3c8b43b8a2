"""CHANGELOG.md, for the packages: Debian's form of it, and what nfpm makes the RPM's from."""

from __future__ import annotations

import datetime
import email.utils
import re
import textwrap
from pathlib import Path
from typing import Any, Iterator

import version

_VERSION = re.compile(r"^## \[([^\]]+)\](?: - (\d{4}-\d{2}-\d{2}))?", re.MULTILINE)

_WRAPPED = textwrap.TextWrapper(
    78, initial_indent="  * ", subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
)


def entries(file: Path, named: str, epoch: int, packager: str) -> list[dict[str, Any]]:
    """The versions of the file, the newest first. What is unreleased is of version ``named``, packed at ``epoch``.

    Raises ValueError if a released version has no date.
    """
    text = file.read_text("utf-8")
    heads = list(_VERSION.finditer(text))
    found = []
    for head, after in zip(heads, [*(one.start() for one in heads[1:]), len(text)]):
        notes = list(_notes(text[head.end() : after]))
        if head[1] == "Unreleased" and not notes:
            continue
        date = _date(epoch) if head[1] == "Unreleased" else f"{head[2]}T00:00:00Z"
        if "None" in date:
            raise ValueError(f"{file.name}: version {head[1]} has no date")
        found.append(
            {
                "semver": (named if head[1] == "Unreleased" else version.packaged(head[1], 0, "")) + "-1",
                "date": date,
                "packager": packager,
                "changes": [{"note": note} for note in notes],
            }
        )
    return found


def debian(found: list[dict[str, Any]]) -> str:
    """The same as a Debian changelog (deb-changelog(5))."""
    text = []
    for entry in found:
        date = datetime.datetime.strptime(entry["date"], "%Y-%m-%dT%H:%M:%S%z")
        text += [f"elastiq ({entry['semver']}) unstable; urgency=medium", ""]
        for change in entry["changes"]:
            text += _WRAPPED.wrap(change["note"])
        text += ["", f" -- {entry['packager']}  {email.utils.format_datetime(date)}", ""]
    return "\n".join(text)


def _date(epoch: int) -> str:
    return datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _notes(text: str) -> Iterator[str]:
    """The list's items, each in one line, with the heading that they are under."""
    heading = ""
    for line in re.split(r"\n(?=- |#)", text):
        if line.startswith("### "):
            heading = line[4:].splitlines()[0].strip()
        elif line.startswith("- "):
            item = " ".join(line[2:].split("\n\n")[0].split())
            yield f"{heading}: {item}" if heading else item
