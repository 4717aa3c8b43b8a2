"""How a configuration key is declared: by the core and by each plugin, in one form.

`elastiq.config` reads the file by these declarations, and the documentation and the example file
are checked against them, so that a key exists in one place only.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, Callable, Mapping, Optional


class Kind(enum.Enum):
    """The type of a key's value, as the reader of the file sees it."""

    TEXT = "text"
    PATH = "path"  # relative to the directory of the file -> absolute text
    INT = "whole number"
    SECONDS = "seconds"  # float, not negative
    BOOL = "yes or no"  # also 1.0's 0 and 1
    LIST = "list"  # comma or blank separated -> tuple[str, ...]
    CHOICE = "choice"
    LIMIT = "limit"  # whole number above 0, or "unlimited" -> None
    NUMBER = "number"  # float, not negative
    TAGS = "tags"  # "Key=Value, Key2=Value2" -> dict[str, str]
    LINES = "lines"  # one item a line -> tuple[str, ...]
    BASE64 = "base64"  # -> bytes; may go over several indented lines


@dataclass(frozen=True)
class Option:
    """One key.

    What it means is told in elastiq.conf.example, which a test keeps complete. ``default`` is the typed
    value that an absent key has. ``check`` returns a complaint, or an empty string; ``spelling`` turns an
    old way to write the value into today's before it is read. A ``secret`` is never printed. A `no` is
    answered by a warning that tells its ``risk``, where the key has one; ``doubt`` returns a warning of a value,
    given or not, beside those of the other keys, or an empty string.

    Between keys of one section: a ``required`` key may be absent where the key ``unless`` is given;
    a key cannot stand beside one of those that it ``excludes`` (in a pool's section it replaces
    an inherited one), nor without those that it ``needs``. A ``site`` key describes the endpoint, not
    the pool: pools of one site must agree on it. Machines with another value of a ``build`` key are outdated.
    """

    name: str
    kind: Kind
    default: Any = None
    unit: str = ""
    choices: tuple[str, ...] = ()
    required: bool = False
    secret: bool = False
    risk: str = ""
    check: Optional[Callable[[Any], str]] = None
    doubt: Optional[Callable[[Mapping[str, Any]], str]] = None
    spelling: Optional[Callable[[str], str]] = None
    unless: str = ""
    excludes: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    site: bool = False
    build: bool = False

    def quoted(self, text: str) -> str:
        """Its text in the file, for a message."""
        return "the value" if self.secret else f"`{text[:60]}`"


def above_zero(value: float) -> str:
    """A ``check`` for numbers that cannot be zero."""
    return "" if value > 0 else "must be above 0"
