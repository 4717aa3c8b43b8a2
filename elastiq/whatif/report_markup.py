"""Elements of the report, and numbers as people read them. Text from outside is only ever text.

The tree is the standard library's: its writer escapes, so that no name of a file or value of a key can be markup.
"""

from __future__ import annotations

import math
import re
from typing import Mapping, Optional, Union
from xml.etree import ElementTree

Element = ElementTree.Element
Child = Union[Element, str, None]
UNKNOWN = "not known"
# What no document may hold: control characters, and what was no text in the name of a file (surrogates).
_NO_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def el(tag: str, attributes: Optional[Mapping[str, object]] = None, *children: Child) -> Element:
    """An element; of its attributes and children those which are None are left out."""
    made = Element(tag)
    for name, value in (attributes or {}).items():
        if value is not None:
            made.set(name, clean(str(value)))
    for child in children:
        add(made, child)
    return made


def add(parent: Element, child: Child) -> None:
    """Put a child at the end."""
    if child is None or child == "":
        return
    if isinstance(child, Element):
        parent.append(child)
    elif len(parent):
        parent[-1].tail = (parent[-1].tail or "") + clean(child)
    else:
        parent.text = (parent.text or "") + clean(child)


def clean(text: str) -> str:
    return _NO_TEXT.sub("\ufffd", text)


def written(root: Element) -> str:
    """The page. Raises ValueError if a style would end early: nothing from outside may be in one."""
    if any("</" in (style.text or "") for style in root.iter("style")):
        raise ValueError("a style has an end tag in it")
    return "<!doctype html>\n" + ElementTree.tostring(root, encoding="unicode", method="html") + "\n"


def place(value: float) -> str:
    """A coordinate, or a part in percent without its sign: at most two digits after the point."""
    if not math.isfinite(value):
        raise ValueError(f"{value} is no place in a plot")
    text = _short(f"{value:.2f}")
    return "0" if text == "-0" else text


def _short(digits: str) -> str:
    return digits.rstrip("0").rstrip(".")


def number(value: Optional[float]) -> str:
    """`0.031`, `0.31`, `4.5`, `31.2`, `12,345`."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    size = abs(value)
    if 0 < size < 0.1:
        return f"{value:.2g}"
    digits = 2 if size < 10 else 1 if size < 100 else 0
    text = f"{value:,.{digits}f}"
    return _short(text) if digits else text


def money(value: Optional[float]) -> str:
    """In the currency of the prices, which nobody names: `0.031`, `4.50`, `12,345`."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    if value and abs(value) < 0.1:
        return f"{value:.2g}"
    return f"{value:,.2f}" if abs(value) < 1000 else f"{value:,.0f}"


def percent(part: float, whole: float) -> str:
    """`12 %`; `-` where there is no whole."""
    if not whole > 0:
        return "-"
    share = 100.0 * part / whole
    return f"{share:.1f} %" if 0 < share < 9.95 else f"{share:.0f} %"


def duration(seconds: Optional[float]) -> str:
    """`1.5 s`, `248 s`, `45 min`, `3 h 20 min`, `4.5 d`."""
    if seconds is None or not math.isfinite(seconds):
        return UNKNOWN
    if seconds < 599.5:
        return f"{_short(f'{seconds:.1f}')} s" if seconds < 9.95 else f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 120:
        return f"{minutes} min"
    if minutes < 2880:
        return f"{minutes // 60} h {minutes % 60} min" if minutes % 60 else f"{minutes // 60} h"
    days = seconds / 86400
    return f"{_short(f'{days:,.1f}')} d" if days < 100 else f"{days:,.0f} d"


def round_duration(seconds: float) -> str:
    """For the ticks of an axis: `30 s`, `1 min`, `2 h`."""
    if seconds and seconds % 86400 == 0:
        return f"{seconds / 86400:,.0f} d"
    if seconds and seconds % 3600 == 0 and seconds < 172800:
        return f"{seconds / 3600:.0f} h"
    if seconds and seconds % 60 == 0 and seconds < 3600:
        return f"{seconds / 60:.0f} min"
    return duration(seconds) if seconds else "0"
