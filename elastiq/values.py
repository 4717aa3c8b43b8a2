"""From the text of one key to its typed value.

A complaint says what is wrong and what to do, and never holds the text of a secret.
"""

from __future__ import annotations

import math
import re
from contextlib import suppress
from pathlib import Path
from typing import Any, Callable

from elastiq.options import Kind, Option

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")


def parse(option: Option, text: str, home: Path) -> Any:
    """The typed value of a key's text; ``home`` is where a relative path begins. Raises ValueError with a complaint
    for a person."""
    if not text and option.default is None:
        return None  # `key =` is as good as no key: 1.0's example file is full of them
    may_be_empty = option.kind in (Kind.TEXT, Kind.LIST, Kind.LINES, Kind.TAGS) and not (
        option.choices and option.default
    )
    if not text.strip(", \t\n") and (text or not may_be_empty):
        raise ValueError("is empty, write a value or remove the line")
    if re.search(r"[\0-\x08\x0b-\x1f\x7f]", text):  # the tab and the end of a line are none
        raise ValueError("holds a control character, remove it")
    if "\n" in text and option.kind not in (Kind.LIST, Kind.LINES, Kind.TAGS, Kind.BASE64):
        raise ValueError("goes on in the next line, which is indented; join the lines or unindent it")
    read = _READERS.get(option.kind) or (lambda option, text: rare(option, option.kind, text))
    text = str(home / text) if option.kind is Kind.PATH else text
    value = read(option, option.spelling(text) if option.spelling else text)
    complaint = option.check(value) if option.check and value is not None else ""
    if complaint:
        raise ValueError(complaint)
    return value


def shown(option: Option, text: str) -> str:
    """A key's text for the log: secrets hidden, also the user and password inside a URL."""
    if option.secret:
        return "***" if text else ""
    return re.sub(r"://[^/@\s]*@", "://***@", " ".join(text.split()))


def _number(option: Option, text: str) -> float:
    """1.0 read every number as a float: 4.0 is whole."""
    if text.lower() in option.choices:
        return math.inf  # auto
    whole = option.kind in (Kind.INT, Kind.LIMIT)
    value = float(text) if _NUMBER.fullmatch(text) else math.inf
    if math.isinf(value) or value < 0 or (whole and value % 1):
        from elastiq.rare_values import no_number

        raise ValueError(no_number(option, option.quoted(text), value))
    return int(value) if whole else value


def _limit(option: Option, text: str) -> Any:
    if text.lower() == "unlimited":
        return None
    with suppress(ValueError):
        value = _number(option, text)
        if value:
            return value
    raise ValueError(f"{option.quoted(text)} is no limit, write a whole number above 0, or `unlimited`")


def _list(option: Option, text: str) -> tuple[str, ...]:
    found = filter(None, re.split(r"[,\s]+", text))
    items = tuple(rare(option, Kind.CHOICE, item) if option.choices else item for item in found)
    for item in items:
        if items.count(item) > 1:
            raise ValueError(f"has `{item}` twice, remove one")
    return items


def rare(option: Option, kind: Kind, text: str) -> Any:
    from elastiq.rare_values import READERS

    return READERS[kind](option, text)


_READERS: dict[Kind, Callable[[Option, str], Any]] = {
    **dict.fromkeys((Kind.TEXT, Kind.PATH), lambda option, text: text),
    **dict.fromkeys((Kind.INT, Kind.SECONDS, Kind.NUMBER), _number),
    Kind.LIST: _list,
    Kind.LIMIT: _limit,
}
