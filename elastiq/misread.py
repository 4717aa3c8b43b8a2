"""What is wrong with a line of a configuration file that cannot be used. Imported for the first of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Optional

if TYPE_CHECKING:
    from elastiq.inifile import Entry, Problems, Section

Found = Optional[re.Match[str]]


def complain(
    problems: Problems, number: int, section: Section, header: Found, pair: Found, entry: Optional[Entry]
) -> None:
    """Of the line with that number, which begins the section, or is in it, as far as it was understood: ``entry`` is
    one that is there already, ``pair`` what looks like a key."""
    if header:
        problems.add(number, section.name, "", f"is there twice, first in line {section.line}; join")
    elif entry:
        first = section.entries[entry.key]
        problems.add(number, section.name, entry.label, f"is there twice, first in line {first.line}; remove one")
    elif pair:
        problems.add(number, "", pair.group(1), "stands before any [section], move it")
    else:
        form = "neither `key = value` nor `[section]`; indent it if it continues the one above"
        problems.add(number, section.name, "", f"this line is {form}")
