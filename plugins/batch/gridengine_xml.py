"""The XML of ``qstat`` and ``qhost``, read row by row. Pure.

A row is a dict of the texts below one element. The whole answer to a queue of 10,000 jobs is never in memory as a tree.
Formats: Son of Grid Engine 8.1.9 as seen; its schemas lie in ``util/resources/schemas``; Univa 8.6 and Open Cluster
Scheduler 9 add elements and attributes to the same.
"""

from __future__ import annotations

import re
from typing import Any, Iterator, Mapping, Optional, Sequence, cast
from xml.etree.ElementTree import Element, ParseError, XMLPullParser

from elastiq.errors import SourceError

CHUNK = 1 << 16  # characters
_Event = tuple[str, Element]
# What XML 1.0 has no form for, and a job's name may hold all the same.
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def elements(text: str, tool: str, root: str, tags: Sequence[str]) -> Iterator[Element]:
    """Each element of these tags, whole, in the order of their ends; it is empty once the next one is asked for.

    Raises `SourceError` unless the whole is one document whose root is ``root``: zero bytes, an error as text and a
    document that was cut off are no answer.
    """
    if not text.strip():
        raise SourceError(f"{tool} printed nothing, where even an empty answer has a document")
    first, open_rows = "", 0
    try:
        for event, element in _events(text):
            if event == "start":
                first = first or element.tag
                open_rows += element.tag in tags
                continue
            if element.tag in tags:
                open_rows -= 1
                yield element
            if not open_rows:
                element.clear()
    except ParseError as error:
        raise SourceError(f"{tool} printed no XML ({error}): {' '.join(text[:200].split())[:80]}") from None
    if first != root:
        raise SourceError(f"{tool} printed a document <{first}>, not <{root}>")


def _events(text: str) -> Iterator[_Event]:
    parser: XMLPullParser[Any] = XMLPullParser(("start", "end"))
    for start in range(0, len(text), CHUNK):
        parser.feed(_NO_XML.sub("\ufffd", text[start : start + CHUNK]))
        yield from cast(Iterator[_Event], parser.read_events())
    parser.close()
    yield from cast(Iterator[_Event], parser.read_events())  # expat may hold back the last of them


def texts(element: Element, tag: str) -> list[str]:
    """The texts of its children of this tag."""
    return [(child.text or "").strip() for child in element.iter(tag)]


def text(element: Element, tag: str) -> str:
    """The text of its first child of this tag, or nothing."""
    return next(iter(texts(element, tag)), "")


def named(element: Element, tag: str) -> dict[str, str]:
    """Of its own children of this tag, the texts by the attribute ``name``."""
    return {child.get("name", ""): (child.text or "").strip() for child in element if child.tag == tag}


# --------------------------------------------------------------------------- values

# sge_types(1): a small letter is a power of 1000, a capital one of 1024.
_POWERS = {letter: 1000**n for n, letter in enumerate(("", "k", "m", "g", "t", "p"))}
_POWERS.update({letter.upper(): 1024**n for n, letter in enumerate(("", "k", "m", "g", "t", "p")) if letter})


def number(value: Optional[str]) -> Optional[float]:
    """A number, with one of Grid Engine's multipliers or without; None of what is none: "-", INFINITY, a word."""
    found = re.fullmatch(r"([+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)([kKmMgGtTpP]?)", (value or "").strip())
    return float(found[1]) * _POWERS[found[2]] if found else None


def megabytes(value: Optional[str]) -> Optional[float]:
    """A size in bytes, with or without a multiplier, as MB of 1024 * 1024."""
    size = number(value)
    return None if size is None else size / 1024**2


def configuration(text: str) -> Mapping[str, str]:
    """The lines ``name   value`` that ``qconf -sX`` prints, those that go on after a backslash joined."""
    joined = re.sub(r"\s*\\\n\s*", " ", text)
    lines = (line.split(None, 1) for line in joined.splitlines() if not line.startswith("#"))
    return {words[0]: words[1].strip() if len(words) > 1 else "" for words in lines if words}
