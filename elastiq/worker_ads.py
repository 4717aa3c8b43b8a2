"""What is wrong with a pool's worker_ad. Imported only for a configuration that has one."""

from __future__ import annotations

import re
from typing import Sequence

# A name, then `=` that begins no comparison (`==`, `=?=`, `=!=`); ClassAd names are case-insensitive.
_LINE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\s*=(?![=?!])\s*(\S.*)")
_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"' + "|" + r"'(?:[^'\\]|\\.)*'")
_PAIRS = {")": "(", "]": "[", "}": "{"}


def check_worker_ad(lines: Sequence[str]) -> str:
    """A complaint about lines that are not `Name = expression` each, or an empty string."""
    names: set[str] = set()
    for line in lines:
        found = _LINE.fullmatch(line)
        if not found:
            return f"`{line[:60]}` is not of the form Name = expression; each has a line of its own"
        name, expression = found.groups()
        if name.lower() in names:
            return f"has `{name}` twice, remove one"
        if not _balanced(expression):
            return f"`{name}` has an unbalanced quote or bracket, close it in the same line"
        names.add(name.lower())
    return ""


def _balanced(expression: str) -> bool:
    opened: list[str] = []
    for char in _TEXT.sub("", expression):
        if char in "\"'" or (char in _PAIRS and (not opened or opened.pop() != _PAIRS[char])):
            return False
        if char in _PAIRS.values():
            opened.append(char)
    return not opened
