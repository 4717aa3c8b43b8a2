"""Values that few files have, and numbers that are none: how they are read, and what is wrong with them.

Imported for the first of them. A reader raises ValueError with a complaint for a person; a check returns a
complaint, or an empty string.
"""

from __future__ import annotations

import base64
import importlib.util
import ipaddress
import logging
import math
import re
from contextlib import suppress
from typing import Any, Callable, Mapping, Sequence

from elastiq.options import Kind, Option

# A name, then `=` that begins no comparison (`==`, `=?=`, `=!=`); ClassAd names are case-insensitive.
_ATTRIBUTE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\s*=(?![=?!])\s*(\S.*)")
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"' + "|" + r"'(?:[^'\\]|\\.)*'")
_PAIRS = {")": "(", "]": "[", "}": "{"}
_YES = {"yes", "true", "on", "1", "1.0"}
_NO = {"no", "false", "off", "0", "0.0"}
MARKETS = ("spot", "on-demand")

# ----------------------------------------------------------------------------- readers


def _tags(option: Option, text: str) -> dict[str, str]:
    tags: dict[str, str] = {}
    for part in filter(None, map(str.strip, re.split(r"[,\n]", text))):
        key, _, value = map(str.strip, part.partition("="))
        if "=" not in part or not key:
            raise ValueError(f"`{part[:60]}` is not of the form Key=Value; tags are separated by commas")
        if key in tags:
            raise ValueError(f"has the tag `{key}` twice, remove one")
        tags[key] = value
    return tags


def _base64(option: Option, text: str) -> bytes:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except ValueError:
        raise ValueError("is not base64, make it with `base64 -w0 FILE`") from None


def _lines(option: Option, text: str) -> tuple[str, ...]:
    return tuple(filter(None, text.split("\n")))


def _bool(option: Option, text: str) -> bool:
    if text.lower() not in _YES | _NO:
        raise ValueError(f"{option.quoted(text)} is neither, write yes or no")
    return text.lower() in _YES


def _choice(option: Option, text: str) -> str:
    if text.lower() not in option.choices:
        raise ValueError(f"{option.quoted(text)} is not known, write {' or '.join(option.choices)}")
    return text.lower()


READERS: Mapping[Kind, Callable[[Option, str], Any]] = {
    Kind.TAGS: _tags,
    Kind.BASE64: _base64,
    Kind.LINES: _lines,
    Kind.BOOL: _bool,
    Kind.CHOICE: _choice,
}


def level(text: str) -> str:
    """How a log_level is spelt today: 1.0 took the numbers of Python's logging, 0 for everything."""
    with suppress(ValueError, OverflowError):  # also of "nan" and "inf"
        return logging.getLevelName(10 * min(max(math.ceil(float(text) / 10), 1), 5)).lower()
    return "warning" if text.lower() == "warn" else text


# ----------------------------------------------------------------------------- what is wrong


def no_number(option: Option, quoted: str, value: float) -> str:
    """Of the text of a number that is none (``value`` is infinite), or not one that is asked for."""
    fault = "no number" if math.isinf(value) else "negative" if value < 0 else "not whole"
    kind = ("whole number" if option.kind in (Kind.INT, Kind.LIMIT) else "number") + (
        f" of {option.unit}" if option.unit else ""
    )
    also = f", or {' or '.join(option.choices)}" if option.choices else ""
    default = f" (default {option.default:g})" if isinstance(option.default, (int, float)) else ""
    return f"{quoted} is {fault}, write a {kind} that is not negative{also}{default}"


def log_format(value: str) -> str:
    missing = value == "json" and importlib.util.find_spec("pythonjsonlogger") is None
    return "json needs python-json-logger, install it or write text" if missing else ""


def ipv4(value: str) -> str:
    return _address(4, value)


def ipv6(value: str) -> str:
    return _address(6, value)


def _address(version: int, value: str) -> str:
    with suppress(ValueError):
        if ipaddress.ip_address(value).version == version:
            return ""
    return f"is not an IPv{version} address"


def price(value: Mapping[str, str]) -> str:
    for flavour, text in value.items():
        if not re.fullmatch(r"[0-9]+\.?[0-9]*|\.[0-9]+", text):
            whose = "" if flavour == "*" else f" for {flavour}"
            return f"`{text[:60]}` is no price{whose}, write one as 0.17, or flavour=price, flavour=price"
    return ""


def price_spelling(text: str) -> str:
    """One price for all flavours, as one for each of them. Raises ValueError."""
    comma = re.search(r"(?:^|=)\s*([0-9]+),\s*([0-9]+)\s*(?:,|\n|$)", text)
    if comma:
        whole, rest = comma.groups()
        raise ValueError(f"`{whole},{rest}` is no number, write the price with a decimal point: {whole}.{rest}")
    return text if "=" in text else f"*={text}"


def markets(value: Sequence[str]) -> str:
    unknown = [one for one in value if one not in MARKETS]
    return f"`{unknown[0][:60]}` is not known, write {' or '.join(MARKETS)}, or both" if unknown else ""


def worker_ad(lines: Sequence[str]) -> str:
    names: set[str] = set()
    for line in lines:
        found = _ATTRIBUTE.fullmatch(line)
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
    for char in _QUOTED.sub("", expression):
        if char in "\"'" or (char in _PAIRS and (not opened or opened.pop() != _PAIRS[char])):
            return False
        if char in _PAIRS.values():
            opened.append(char)
    return not opened
