"""What a terminal can show: colour where it is wanted, how wide text is there, and foreign text made harmless.

Colour is for a terminal only. NO_COLOR (https://no-color.org: set, and not empty) and CLICOLOR=0 turn it off,
CLICOLOR_FORCE (set, and not 0) turns it on also in a pipe (https://bixense.com/clicolors/); NO_COLOR is the stronger.
"""

from __future__ import annotations

import os
import shutil
import sys
import unicodedata
from typing import Iterator, Optional, TextIO

CODES = {"bad": "31", "good": "32", "warn": "33", "head": "1", "dim": "2"}
WIDE = 100_000  # without a terminal: as wide as it takes


def wants_colour(stream: Optional[TextIO] = None) -> bool:
    """Whether to colour what goes there; standard output if it is not given."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("CLICOLOR_FORCE", "0") not in ("", "0"):
        return True
    on_terminal = (sys.stdout if stream is None else stream).isatty()
    return on_terminal and os.environ.get("CLICOLOR") != "0" and os.environ.get("TERM", "dumb") != "dumb"


def width_of(stream: Optional[TextIO] = None) -> int:
    """How many columns a line may take there; `WIDE` where it is no terminal."""
    return shutil.get_terminal_size().columns if (sys.stdout if stream is None else stream).isatty() else WIDE


def paint(text: str, style: str, colour: bool = True) -> str:
    """The text in one of the styles of `CODES`; as it is without one, or without colour."""
    return f"\033[{CODES[style]}m{text}\033[0m" if colour and style and text else text


def clean(text: str) -> str:
    """Foreign text without what would move the cursor, start another line or turn the direction of writing."""
    return text if text.isprintable() else "".join(letter if letter.isprintable() else "?" for letter in text)


def columns(text: str) -> int:
    """How many columns of a terminal clean text takes: East Asian wide letters two, combining marks none
    (Unicode Standard Annex 11)."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def _columns(letter: str) -> int:
    if unicodedata.category(letter) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def pad(text: str, width: int) -> str:
    """Filled up with blanks, to align what follows."""
    return text + " " * (width - columns(text))


def cut(text: str, width: int) -> str:
    """What of it fits into so many columns."""
    return text[: _fits(text, width)]


def wrap(text: str, width: int, indent: str = "") -> list[str]:
    """Lines of at most so many columns; all but the first begin with ``indent``, the first as the text does. Words
    go on the next line whole, unless one alone is wider than a line."""
    lines: list[str] = []
    line, first = text[: min(len(text) - len(text.lstrip(" ")), width - 1)], True
    for word in _pieces(text, max(1, width - max(len(indent), len(line)))):
        if not first and columns(line) + 1 + columns(word) > width:
            lines.append(line)
            line, first = indent, True
        line, first = line + ("" if first else " ") + word, False
    return [*lines, line]


def _pieces(text: str, width: int) -> Iterator[str]:
    """The words, and parts of those that are too wide."""
    for word in text.split():
        while columns(word) > width:
            end = max(1, _fits(word, width))
            yield word[:end]
            word = word[end:]
        yield word


def _fits(text: str, width: int) -> int:
    """How many letters of it fit."""
    if text.isascii():
        return min(len(text), width)
    taken = 0
    for at, letter in enumerate(text):
        taken += _columns(letter)
        if taken > width:
            return at
    return len(text)
