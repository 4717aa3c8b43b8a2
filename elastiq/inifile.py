"""Reads an INI file and keeps the line of every key, so that a problem can name it.

The form is configparser's without interpolation: `key = value` or `key: value`, keys in any case, an
indented line continues the value above it, `#` and `;` begin a comment on a line of their own or after
white space. An own reader, because configparser forgets lines and stops at the first double key.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

_SECTION = re.compile(r"\[([^\[\]]+)\]\s*(?:[#;].*)?")
_KEY = re.compile(r"([^=:]*[^=:\s])\s*[=:](.*)", re.DOTALL)
_INLINE_COMMENT = re.compile(r"\s[#;]")
_PRINTABLE = re.compile(r"[A-Za-z0-9 _.:-]{1,60}")


class ConfigError(Exception):
    """The configuration cannot be used. ``problems`` has one line for a person for each fault."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


@dataclass(frozen=True)
class Entry:
    """One key as it stands in the file; ``value`` holds a line break for each continuation line."""

    section: str
    key: str
    value: str
    line: int

    @property
    def label(self) -> str:
        """The key for a message; a line of wrapped base64 that was not indented looks like a key, too."""
        return printable(self.key) if self.value.strip("=") else "(not shown)"


@dataclass
class Section:
    name: str
    line: int
    entries: dict[str, Entry] = field(default_factory=dict)


class Problems:
    """Collects what is wrong with one file, each thing once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._found: dict[tuple[int, str], None] = {}

    def add(self, line: int, section: str, key: str, text: str) -> None:
        where = " ".join(part for part in (f"[{section}]" if section else "", key) if part)
        whole = f"{where}: {text}" if where else text
        self._found[(line, "".join(char if char.isprintable() else "?" for char in whole))] = None

    def at(self, entry: Entry, text: str) -> None:
        self.add(entry.line, entry.section, entry.key, text)

    def raise_any(self) -> None:
        """Raise `ConfigError` with all of them in the order of the file, if there are any."""
        if self._found:
            raise ConfigError([f"{self.path}:{line}: {text}" for line, text in sorted(self._found)])


def printable(name: str) -> str:
    """A section's or key's name for a message; a line that looks like anything else may hold a secret."""
    return name if _PRINTABLE.fullmatch(name) else "(not shown)"


def decode(data: bytes, problems: Problems) -> str:
    """UTF-8, with or without a byte order mark. Raises `ConfigError`."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        problems.add(line, "", "", "is not UTF-8, save the file in that encoding")
        problems.raise_any()
        raise


def parse(text: str, problems: Problems) -> dict[str, Section]:
    """The sections in the order of the file; what cannot be read is added to the problems."""
    return _Parser(problems).parse(text)


class _Parser:
    def __init__(self, problems: Problems) -> None:
        self.problems = problems
        self.sections: dict[str, Section] = {}
        self.section: Section | None = None
        self.key = ""  # what an indented line would continue
        self.indent = 0

    def parse(self, text: str) -> dict[str, Section]:
        for number, raw in enumerate(text.split("\n"), 1):
            line = raw.strip()
            if not line:
                self.key = ""
            elif line[0] not in "#;":
                self._line(number, line, len(raw) - len(raw.lstrip()))
        return self.sections

    def _line(self, number: int, line: str, indent: int) -> None:
        if self.key and self.section and indent > self.indent:
            entry = self.section.entries[self.key]
            value = f"{entry.value}\n{_without_comment(line)}"
            self.section.entries[self.key] = Entry(entry.section, entry.key, value, entry.line)
            return
        self.key, self.indent = "", indent
        header = _SECTION.fullmatch(line)
        match = _KEY.fullmatch(line)
        if header:
            self._open(header.group(1).strip(), number)
        elif not match:
            self.problems.add(
                number,
                printable(self.section.name) if self.section else "",
                "",
                "this line is neither `key = value` nor `[section]`; indent it if it continues the one above",
            )
        elif self.section is None:
            self.problems.add(number, "", printable(match.group(1)), "stands before any [section], move it")
        else:
            self._set(self.section, match.group(1).lower(), _without_comment(match.group(2)), number)

    def _open(self, name: str, number: int) -> None:
        if name in self.sections:
            first = self.sections[name].line
            self.problems.add(number, printable(name), "", f"is there twice, first in line {first}; join")
        self.section = self.sections.setdefault(name, Section(name, number))

    def _set(self, section: Section, key: str, value: str, number: int) -> None:
        entry = Entry(section.name, key, value, number)
        first = section.entries.get(key)
        if first:
            text = f"is there twice, first in line {first.line}; remove one"
            self.problems.add(number, printable(section.name), entry.label, text)
            return
        self.key = key
        section.entries[key] = entry


def _without_comment(text: str) -> str:
    return _INLINE_COMMENT.split(text, 1)[0].strip()
