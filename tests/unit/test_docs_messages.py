"""What the documentation says that elastiq says, it says: each quoted message is in the code."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
SOURCES = (*(ROOT / "elastiq").glob("**/*.py"), *(ROOT / "plugins").glob("**/*.py"))
# What stands for something else in a quoted message: an omission, a number, a NAME. And where the code joins sentences.
OPEN = re.compile(r"\.\.\.|\d+(?:[.,]\d+)*|\b[A-Z][A-Z_]{2,}\b|[:;(] ?| = ")
# Messages of others that troubleshooting.md tells of: of HTCondor, EC2 and systemd.
FOREIGN = frozenset({"Failed to fetch ads", "UnauthorizedOperation"})


@cache
def said_by_the_code() -> str:
    """Every text in the code, one a line; what an f-string puts in is cut out."""
    found = []
    for path in SOURCES:
        inside = set()
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.JoinedStr):
                parts = [part.value if isinstance(part, ast.Constant) else "\0" for part in node.values]
                found.append("".join(map(str, parts)))
                inside |= {id(part) for part in node.values}
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
                found.append(node.value)
    found += [line for path in (ROOT / "plugins").glob("**/*.ini") for line in path.read_text("utf-8").splitlines()]
    return "\n".join(" ".join(text.split()) for text in found)


def parts(message: str) -> list[str]:
    """What of it must be found word by word."""
    found = (part.strip(" ():;,.`") for part in OPEN.split(message))
    return [part for part in found if len(part) > 2]


def is_said(message: str) -> bool:
    return bool(parts(message)) and all(part in said_by_the_code() for part in parts(message))


def quoted(page: str) -> list[str]:
    """In troubleshooting.md the first column of its tables; in decisions.md what is quoted and has blanks."""
    text = (DOCS / page).read_text("utf-8")
    if page == "troubleshooting.md":
        cells = re.findall(r"(?m)^\| (`.*?`) \|", text)
        return [message for cell in cells for message in re.findall(r"`([^`]+)`", cell)]
    spans = re.findall(r"`([^`]+)`", text)
    return [span for span in spans if span.count(" ") > 1 and not re.match(r"elastiqctl |\w+ = ", span)]


@pytest.mark.parametrize("page", ["decisions.md", "troubleshooting.md"])
def test_every_message_that_a_page_quotes_is_one_of_the_code(page: str) -> None:
    messages = quoted(page)
    assert len(messages) > 20
    assert [message for message in messages if message not in FOREIGN and not is_said(message)] == []


@pytest.mark.parametrize("message", ["max_vms 3 is exceeded (3 counted)", "nobody ever says this: ...", "... 12 ..."])
def test_a_message_that_is_none_is_seen(message: str) -> None:
    assert not is_said(message)
