"""From the text of one key to its typed value.

A complaint says what is wrong and what to do, and never holds the text of a secret.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from typing import Any

from elastiq.options import Kind, Option

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_YES = {"yes", "true", "on", "1", "1.0"}
_NO = {"no", "false", "off", "0", "0.0"}


def parse(option: Option, text: str) -> Any:
    """The typed value of a key's text. Raises ValueError with a complaint for a person."""
    if not text:
        return _empty(option)
    if "\n" in text and option.kind not in (Kind.LIST, Kind.TAGS, Kind.BASE64):
        raise ValueError("goes on in the next line, which is indented; join the lines or unindent it")
    if option.spelling:
        text = option.spelling(text)
    value = _READERS[option.kind](option, text)
    complaint = option.check(value) if option.check and value is not None else ""
    if complaint:
        raise ValueError(complaint)
    return value


def shown(option: Option, text: str) -> str:
    """A key's text for the log: secrets hidden, also the user and password inside a URL."""
    if option.secret:
        return "***" if text else ""
    return re.sub(r"://[^/@\s]*@", "://***@", " ".join(text.split()))


def _empty(option: Option) -> Any:
    """`key =`: what an absent key means where that is "nothing"; 1.0's example file is full of them."""
    if option.default is None or option.kind in (Kind.LIST, Kind.TAGS):
        return type(option.default)() if option.default is not None else None
    if option.kind is Kind.TEXT:
        if option.check and option.check(""):
            raise ValueError("is empty, write a value or remove the line")
        return ""
    raise ValueError("is empty, write a value or remove the line")


def _quoted(option: Option, text: str) -> str:
    return "the value" if option.secret else f"`{text[:60]}`"


def _number(option: Option, text: str) -> float:
    value = float(text) if _NUMBER.fullmatch(text) else math.inf
    if not math.isfinite(value):
        raise ValueError(f"{_quoted(option, text)} is no number, write {_example(option)}")
    if value < 0:
        raise ValueError(f"{_quoted(option, text)} is negative, write {_example(option)}")
    return value


def _whole(option: Option, text: str) -> int:
    """1.0 read every number as a float: 4.0 is 4."""
    value = _number(option, text)
    if value != int(value):
        raise ValueError(f"{_quoted(option, text)} is not whole, write {_example(option)}")
    return int(value)


def _example(option: Option) -> str:
    unit = f" of {option.unit}" if option.unit else ""
    default = f" (default {option.default:g})" if isinstance(option.default, (int, float)) else ""
    kind = "whole number" if option.kind in (Kind.INT, Kind.LIMIT) else "number"
    return f"a {kind}{unit} that is not negative{default}"


def _limit(option: Option, text: str) -> Any:
    if text.lower() == "unlimited":
        return None
    try:
        value = _whole(option, text)
    except ValueError:
        value = 0
    if value < 1:
        raise ValueError(f"{_quoted(option, text)} is no limit, write a whole number above 0, or `unlimited`")
    return value


def _bool(option: Option, text: str) -> bool:
    word = text.lower()
    if word not in _YES | _NO:
        raise ValueError(f"{_quoted(option, text)} is neither, write yes or no")
    return word in _YES


def _list(option: Option, text: str) -> tuple[str, ...]:
    items = tuple(item for item in re.split(r"[,\s]+", text) if item)
    for item in items:
        if items.count(item) > 1:
            raise ValueError(f"has `{item}` twice, remove one")
    return items


def _choice(option: Option, text: str) -> str:
    if text.lower() not in option.choices:
        raise ValueError(f"{_quoted(option, text)} is not known, write {' or '.join(option.choices)}")
    return text.lower()


def _tags(option: Option, text: str) -> dict[str, str]:
    tags: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in re.split(r"[,\n]", text))):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not key:
            raise ValueError(f"`{part[:60]}` is not of the form Key=Value; tags are separated by commas")
        if key in tags:
            raise ValueError(f"has the tag `{key}` twice, remove one")
        tags[key] = value
    return tags


def _base64(option: Option, text: str) -> bytes:
    try:
        return base64.b64decode("".join(text.split()).encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        raise ValueError("is not base64, make it with `base64 -w0 FILE`") from None


_READERS = {
    Kind.TEXT: lambda option, text: text,
    Kind.INT: _whole,
    Kind.SECONDS: _number,
    Kind.NUMBER: _number,
    Kind.BOOL: _bool,
    Kind.LIST: _list,
    Kind.CHOICE: _choice,
    Kind.LIMIT: _limit,
    Kind.TAGS: _tags,
    Kind.BASE64: _base64,
}
