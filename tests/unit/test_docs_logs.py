"""The table of docs/logs.md has every event that the code logs, with its levels and fields, and no other."""

from __future__ import annotations

import ast
import functools
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Iterator, Optional

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "logs.md"
LEVELS = {"debug", "info", "warning", "error", "critical"}


@dataclass
class Event:
    levels: set[str] = field(default_factory=set)
    fields: set[str] = field(default_factory=set)
    more: bool = False  # there are levels or fields that only show when it runs


def documented() -> dict[str, Event]:
    rows = re.findall(r"(?m)^\| `(\w+)` \|([^|]*)\|([^|]*)\|[^|]+\|$", PAGE.read_text("utf-8"))
    return {name: Event({*re.findall(r"\w+", levels)}, {*re.findall(r"\w+", fields)}) for name, levels, fields in rows}


def literal(node: Optional[ast.expr]) -> Optional[str]:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def level_of(node: Optional[ast.expr], default: str) -> Optional[str]:
    """None: it depends."""
    if node is None:
        return default
    return node.attr.lower() if isinstance(node, ast.Attribute) and node.attr.lower() in LEVELS else None


def argument(call: ast.Call, place: int, name: str) -> Optional[ast.expr]:
    if len(call.args) > place:
        return call.args[place]
    return next((one.value for one in call.keywords if one.arg == name), None)


def said(call: ast.Call) -> Iterator[tuple[str, Optional[str], set[str], bool]]:
    """What one call logs: event, level, fields, and whether there may be more fields."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    fields = {one.arg for one in call.keywords if one.arg} - {"level", "event"}
    more = any(one.arg is None for one in call.keywords)
    if name == "say" and (event := literal(call.args[0])):
        yield event, level_of(argument(call, 2, "level"), "info"), fields, more
    elif name == "tell_once":
        event = literal(argument(call, 3, "event")) or "note"
        yield event, level_of(argument(call, 2, "level"), "info"), {*fields, "subject"}, more
    elif name == "tell":
        yield "notice", level_of(argument(call, 2, "level"), "warning"), set(), False
    elif name in {*LEVELS, "exception"}:
        extra = next((one.value for one in call.keywords if one.arg == "extra"), None)
        if isinstance(extra, ast.Dict):
            keys = {literal(key): value for key, value in zip(extra.keys, extra.values)}
            inner = keys.get("fields")
            named = {literal(key) or "" for key in inner.keys} if isinstance(inner, ast.Dict) else set()
            yield literal(keys["event"]) or "", "error" if name == "exception" else name, named, False
        else:
            assert extra is None or isinstance(extra, ast.Name), ast.unparse(call)


@functools.lru_cache
def in_code() -> dict[str, Event]:
    found: dict[str, Event] = {}
    for path in [*(ROOT / "elastiq").rglob("*.py"), *(ROOT / "plugins").rglob("*.py")]:
        tree = ast.parse(path.read_text("utf-8"))
        for node in ast.walk(tree):
            for event, level, fields, more in said(node) if isinstance(node, ast.Call) else ():
                one = found.setdefault(event, Event())
                one.levels |= {level} if level else set()
                one.fields |= fields
                one.more |= more or level is None
    # `extra` by a name: what it names is a dictionary in the same function.
    text = (ROOT / "elastiq" / "serving.py").read_text("utf-8")
    for event, fields in re.findall(r'= \{"event": "(\w+)", "fields": \{(.*?)\}\}', text):
        found[event] = Event({"info"}, {*re.findall(r'"(\w+)":', fields)})
    return found


def test_every_event_of_the_code_is_in_the_table_and_no_other() -> None:
    assert documented().keys() == in_code().keys()


@pytest.mark.parametrize("name", sorted(documented()))
def test_levels_and_fields_are_those_of_the_code(name: str) -> None:
    table, code = documented()[name], in_code()[name]
    assert table.levels <= LEVELS and code.levels <= table.levels and code.fields <= table.fields
    if not code.more:
        assert (table.levels, table.fields) == (code.levels, code.fields)


@pytest.mark.parametrize(
    ("line", "event", "level", "fields"),
    [
        ('core.say("odd", text, node="x")', "odd", "info", {"node"}),
        ('core.say("odd", text, logging.ERROR)', "odd", "error", set()),
        ('core.say("odd", text, level, **facts)', "odd", None, set()),
        ('core.tell_once("plan", text, level, "plan", reason="x")', "plan", None, {"subject", "reason"}),
        ('core.tell_once("x", text)', "note", "info", {"subject"}),
        ('core.tell("x", text, logging.INFO)', "notice", "info", set()),
        ('log.exception("x", extra={"event": "odd", "fields": {"a": 1}})', "odd", "error", {"a"}),
    ],
)
def test_what_a_line_of_code_logs_is_seen(line: str, event: str, level: Optional[str], fields: set[str]) -> None:
    call = ast.parse(line).body[0].value  # type: ignore[attr-defined]
    assert [(name, of, found) for name, of, found, _ in said(call)] == [(event, level, fields)]
