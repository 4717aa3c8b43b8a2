#!/usr/bin/env python3
"""Every configuration key: as the code declares it, with elastiq.conf.example's comment as its meaning.

    packaging/reference.py              the tables of docs/configuration.md, as Markdown

`sections` is for what writes them in another form (the manual page). The documentation's build (mkdocs.yml) has
this file as a hook: it puts the tables where the page says KEYS. Needs the standard library only.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterator

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "elastiq.conf.example"
KEYS = "<!-- the keys -->"
SCHEDULE = "schedule:NAME"

if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from elastiq.keys import CORE, POOL  # noqa: E402
from elastiq.options import Kind, Option  # noqa: E402
from elastiq.plugin_loader import BATCH_GROUP, BUILT_IN, CLOUD_GROUP, batch_class, cloud_class  # noqa: E402
from elastiq.timetable import OPTIONS as OF_SCHEDULES  # noqa: E402

EXTRAS = ("hooks", "metrics", "web")  # sections that are modules of the same name


@dataclass(frozen=True)
class Key:
    """One key. ``values`` says what may be written, ``default`` is as the file would have it (empty: not set),
    ``meaning`` the example's comment in one line, which may go on from that of the key before (`... have waited`);
    empty where the section's own says it all. ``notes`` are what else the code checks, in sentences."""

    name: str
    values: str
    default: str
    meaning: str
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Section:
    """One section; ``about`` is the example's comment on it, in paragraphs, ``example`` what its end shows of one."""

    name: str
    about: tuple[str, ...]
    keys: tuple[Key, ...]
    example: str = ""


def declared() -> dict[str, dict[str, Option]]:
    """The options of each section, as the daemon reads them."""
    tables: dict[str, tuple[Option, ...]] = {**CORE, SCHEDULE: OF_SCHEDULES}
    for name in BUILT_IN[CLOUD_GROUP]:
        tables[name] = (*POOL, *cloud_class(name).OPTIONS)
    for name in BUILT_IN[BATCH_GROUP]:
        batch = batch_class(name)
        tables[batch.section] = batch.OPTIONS
    for name in EXTRAS:
        if importlib.util.find_spec(f"elastiq.{name}"):
            tables[name] = importlib.import_module(f"elastiq.{name}").OPTIONS
    return {section: {option.name: option for option in options} for section, options in tables.items()}


def sections() -> list[Section]:
    """All sections in the order of the example, their keys too."""
    options, told, about = declared(), _meanings(), _abouts()
    order = sorted(options, key=lambda name: list(about).index(name) if name in about else len(about))
    found = []
    for name in order:
        meanings = told.get(name, {})
        names = sorted(options[name], key=lambda key: list(meanings).index(key) if key in meanings else len(meanings))
        keys = tuple(_key(options[name][key], meanings.get(key, ""), name) for key in names)
        found.append(Section(name, tuple(about.get(name, ())), keys, _described(_anchor(name))[1]))
    return found


def _key(option: Option, meaning: str, section: str) -> Key:
    default = "" if section == SCHEDULE else written(option.default, option.kind)  # there, what is left out stays
    return Key(option.name, _values(option), default, meaning, tuple(_notes(option)))


def _values(option: Option) -> str:
    what = {
        Kind.CHOICE: " or ".join(option.choices),
        Kind.LIMIT: "whole number above 0, or unlimited",
        Kind.PATH: "path",
        Kind.TAGS: "list of NAME=VALUE",
        Kind.LINES: "one a line",
        Kind.BASE64: "base64",
    }.get(option.kind, option.kind.value)
    if option.kind is Kind.LIST and option.choices:
        what = "list of " + ", ".join(option.choices)
    if option.kind is Kind.SECONDS and option.choices:
        what += f", or {' or '.join(option.choices)}"
    return f"{what} ({option.unit})" if option.unit and option.unit != what else what


def written(value: Any, kind: Kind) -> str:
    """A typed value as a file has it; empty for one that is not set."""
    if value is None:
        return "unlimited" if kind is Kind.LIMIT else ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        return f"{value:g}"
    if isinstance(value, dict):
        return ", ".join(f"{name}={one}" for name, one in value.items())
    return ", ".join(value) if isinstance(value, tuple) else str(value)


def _notes(option: Option) -> Iterator[str]:
    def named(keys: tuple[str, ...], last: str) -> str:
        return f" {last} ".join(filter(None, (", ".join(f"`{key}`" for key in keys[:-1]), f"`{keys[-1]}`")))

    if option.required:
        yield f"Required, unless `{option.unless}` is set." if option.unless else "Required."
    if option.needs:
        yield f"Only together with {named(option.needs, 'and')}."
    if option.excludes:
        yield f"Not together with {named(option.excludes, 'or')}."
    if option.secret:
        yield "Secret: never shown."


# --------------------------------------------------------------------------- the example's comments


def _meanings() -> dict[str, dict[str, str]]:
    """Of each section, each key with the comment above it; a key right below another one shares its comment."""
    found: dict[str, dict[str, str]] = {}
    section, before = "", ""
    comment: list[str] = []
    for line in EXAMPLE.read_text("utf-8").splitlines():
        header, key = re.fullmatch(r"#?\[([a-z0-9]+)\]", line), re.fullmatch(r"#?([a-z][a-z0-9_]*) =.*", line)
        if header:
            section, comment, before = header.group(1), [], ""
        elif key:
            before = found.setdefault(section, {})[key.group(1)] = _joined(comment) or before
            comment = []
        elif line.startswith("# "):
            comment.append(line[2:])
        elif not line:
            comment, before = [], ""
    for name in (SCHEDULE, *EXTRAS):
        found[name] = _defined(_described(_anchor(name))[0])
    return found


def _abouts() -> dict[str, list[str]]:
    """Of each section, in the order of the example, the paragraph right above its header."""
    found: dict[str, list[str]] = {}
    paragraph: list[str] = []
    for line in EXAMPLE.read_text("utf-8").splitlines():
        header = re.fullmatch(r"#?\[([a-z0-9]+)\]", line)
        if header:
            found[header.group(1)] = [_joined(paragraph)] if found and paragraph else []  # above the first: the file's
        paragraph = [*paragraph, line[2:]] if line.startswith("# ") else []
    for name in (SCHEDULE, *EXTRAS):
        lines, _ = _described(_anchor(name))
        found[name] = list(filter(None, [_joined([line for line in lines if not line.startswith("  ")])]))
    return found


def _described(section: str) -> tuple[list[str], str]:
    """What the example's end says of such a section, in a comment as a whole: the lines above its example, and that."""
    comments = re.split(r"\n(?!#)", EXAMPLE.read_text("utf-8"))
    header = re.compile(rf"(?m)^#\n(?=#   \[{section}(:[^\]]+)?\]$)")
    for text in () if section in BUILT_IN[CLOUD_GROUP] else comments:
        found = header.search(text)
        if found:
            lines = [line[2:] for line in text[: found.start()].strip().splitlines()]
            return lines, re.sub(r"(?m)^#   ", "", text[found.end() :].strip())
    return [], ""


def _defined(lines: list[str]) -> dict[str, str]:
    """Keys whose meaning stands beside them: `  when    DAYS ...`, going on in lines that are indented further."""
    found: dict[str, str] = {}
    for line in lines:
        key = re.fullmatch(r" {1,3}([a-z_]+) {2,}(.+)", line)
        if key:
            found[key.group(1)] = key.group(2)
        elif line.startswith("    ") and found:
            last = next(reversed(found))
            found[last] += f" {line.strip()}"
    return found


def _joined(lines: list[str]) -> str:
    """In one line; what stands in two columns becomes `left`: right;"""
    text = ""
    for line in lines:
        columns = re.fullmatch(r" {2,}([a-z-]+) {2,}(.+)", line)
        if columns:
            line = f"`{columns.group(1)}`: {columns.group(2)};"
        elif text.endswith(";"):
            text = text[:-1] + "."
        text += f" {line}"
    return " ".join(text.split())


# --------------------------------------------------------------------------- Markdown


def markdown() -> str:
    """A heading and a table for each section."""
    parts = []
    for section in sections():
        parts.append(f"## [{section.name}] {{#{_anchor(section.name)}}}")
        parts += [_prose(paragraph) for paragraph in section.about]
        parts.append("\n".join(_table(section)))
        parts += ["As an example:\n\n" + re.sub(r"(?m)^", "    ", section.example)] if section.example else []
    return "\n\n".join(parts) + "\n"


def _table(section: Section) -> Iterator[str]:
    yield "| key | value | default | |"
    yield "|---|---|---|---|"
    for key in section.keys:
        name = f'<a id="{_anchor(section.name)}-{key.name}"></a>`{key.name}`'
        meaning = " ".join(filter(None, (_prose(key.meaning), *key.notes)))
        yield f"| {name} | {key.values} | {f'`{key.default}`' if key.default else ''} | {meaning} |"


def _anchor(section: str) -> str:
    return section.partition(":")[0]


def _prose(text: str) -> str:
    """The example's words as Markdown: pages become links, and nothing else gets a meaning that it has not."""
    pieces = re.split(r"(`[^`]*`)", text)
    for at, piece in enumerate(pieces):
        if not piece.startswith("`"):
            piece = re.sub(r"([*<>\[\]|])", r"\\\1", piece)
            pieces[at] = re.sub(r"docs/([a-z-]+\.md)", r"[\1](\1)", piece)
    return "".join(pieces)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """What mkdocs calls for each page before it is rendered."""
    return markdown.replace(KEYS, _markdown()) if KEYS in markdown else markdown


_markdown = markdown  # mkdocs passes a page's text by that name

if __name__ == "__main__":
    sys.stdout.write(markdown())
