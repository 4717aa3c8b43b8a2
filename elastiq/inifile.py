"""Reads an INI file and keeps the line of every key, so that a problem can name it.

The form is configparser's without interpolation: `key = value` or `key: value`, keys in any case, an
indented line continues the value above it, `#` and `;` begin a comment on a line of their own or after
white space. An own reader, because configparser forgets lines and stops at the first double key.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional, Union

_SECTION = re.compile(r"\[\s*([^\[\]]*[^\[\]\s])\s*\]\s*(?:[#;].*)?")
_KEY = re.compile(r"([^=:]*[^=:\s])\s*[=:]\s*(.*)", re.DOTALL)
_COMMENT = re.compile(r"(?:^|\s)[#;]")
_PRINTABLE = re.compile(r"[A-Za-z0-9 _.:-]{0,60}")
_HIDDEN = "(not shown)"


class ConfigError(Exception):
    """The configuration cannot be used. ``problems`` has one line for a person for each fault."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


@dataclass
class Entry:
    """One key as it stands in the file; ``value`` holds a line break for each continuation line."""

    section: str
    key: str
    value: str
    line: int

    @property
    def label(self) -> str:
        """The key for a message; a line of wrapped base64 that was not indented looks like a key, too."""
        return self.key if self.value.strip("=") else _HIDDEN


@dataclass
class Section:
    name: str
    line: int
    entries: dict[str, Entry] = field(default_factory=dict)


class Problems:
    """Collects what is to be said about one file, each thing once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.sections: dict[str, Section] = {}
        self._found: set[tuple[int, str]] = set()

    def add(self, line: int, section: str, key: str, text: str) -> None:
        """``section`` and ``key`` may be empty; one that looks like no name may hold a secret and is hidden."""
        section, key = (name if _PRINTABLE.fullmatch(name) else _HIDDEN for name in (section, key))
        where = " ".join(part for part in (f"[{section}]" if section else "", key) if part)
        whole = f"{where}: {text}" if where else text
        self._found.add((line, "".join(char if char.isprintable() else "?" for char in whole)))

    def at(self, section: str, key: str, text: str) -> None:
        """In the line of the key, or of its section where the key is absent or none is meant."""
        found = self.sections.get(section) or Section(section, 1)
        self.add(found.entries.get(key, found).line, section, key, text)

    def at_open_file(self, section: str, key: str, path: Union[str, Path], mode: int) -> None:
        """Of a file with a secret, if its mode lets everybody read or change it."""
        if mode & (stat.S_IROTH | stat.S_IWOTH):
            self.at(section, key, f"{path} holds a secret and is open to all users, run `chmod o= {path}`")

    def lines(self) -> list[str]:
        """All of them in the order of the file."""
        return [f"{self.path}:{line}: {text}" for line, text in sorted(self._found)]

    def raise_any(self) -> None:
        """Raise `ConfigError` if there are any."""
        if self._found:
            raise ConfigError(self.lines())


def read_file(path: Union[str, Path], limit: int = 1 << 24) -> tuple[bytes, int]:
    """A file's content, cut at a limit, and its mode. Raises `ConfigError` if it cannot be read."""
    try:
        # Without O_NONBLOCK, a FIFO would be waited for.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            mode = os.fstat(file.fileno()).st_mode
            if not stat.S_ISREG(mode):
                raise OSError(0, "it is not a regular file")
            return file.read(limit), mode
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a file's name"
        raise ConfigError([f"{path}: cannot be read ({reason}), check its name and permissions"]) from None


def decode(data: bytes, problems: Problems) -> str:
    """UTF-8, with or without a byte order mark. Raises `ConfigError`."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError([f"{problems.path}:{line}: is not UTF-8, save the file in that encoding"]) from None


def parse(text: str, problems: Problems) -> dict[str, Section]:
    """The sections in the order of the file; what cannot be read is added to the problems."""
    sections = problems.sections
    section = Section("", 0)  # what stands before the first one
    entry: Optional[Entry] = None  # what an indented line would continue
    margin = 0
    for number, raw in enumerate(text.split("\n"), 1):
        line = _COMMENT.split(raw, 1)[0].strip()
        indent = len(raw) - len(raw.lstrip())
        header, pair = _SECTION.fullmatch(line), _KEY.fullmatch(line)
        if not line:
            entry = entry if raw.strip() else None  # a comment does not end a value, an empty line does
            continue
        if entry and indent > margin:
            entry.value += f"\n{line}"
            continue
        entry, margin, fine = None, indent, True
        if header:
            section = sections.setdefault(header.group(1), Section(header.group(1), number))
            fine = section.line == number
        elif pair and section.name:
            entry = Entry(section.name, pair.group(1).lower(), pair.group(2), number)
            fine = section.entries.setdefault(entry.key, entry) is entry
        if not (fine and (header or entry)):
            from elastiq.misread import complain

            complain(problems, number, section, header, pair, entry)
            entry = None
    return sections
