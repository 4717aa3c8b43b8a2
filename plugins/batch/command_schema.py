"""JSON against one of the schemas that are shipped: which element is wrong, and what was expected. Pure but for
reading the schema.

They are ordinary JSON Schemas, for whoever writes an executable; here is as much of JSON Schema as they use (a test
holds every answer against the library jsonschema, which a head node need not have).
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping

from elastiq.errors import SourceError

Schema = Mapping[str, Any]

TYPES: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "object": ("an object", lambda value: isinstance(value, dict)),
    "array": ("a list", lambda value: isinstance(value, list)),
    "string": ("a text", lambda value: isinstance(value, str)),
    "boolean": ("true or false", lambda value: isinstance(value, bool)),
    "number": ("a number", lambda value: isinstance(value, (int, float)) and not isinstance(value, bool)),
    "integer": ("a whole number", lambda value: TYPES["number"][1](value) and value == value // 1),
}
LIMITS: Mapping[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "minimum": ("of at least {:g}", lambda value, limit: bool(value >= limit)),
    "exclusiveMinimum": ("above {:g}", lambda value, limit: bool(value > limit)),
    "maximum": ("of at most {:g}", lambda value, limit: bool(value <= limit)),
    "maxLength": ("of at most {:g} characters", lambda value, limit: len(value) <= limit),
}


@cache
def schema(name: str) -> Schema:
    """One of those that are shipped beside this module."""
    found: Schema = json.loads(Path(__file__).with_name(f"command_{name}.schema.json").read_text("utf-8"))
    return found


def document(text: str, name: str) -> dict[str, Any]:
    """The JSON of an answer, checked. Raises `SourceError`, whose one line says what is wrong where."""
    if not text.strip():
        raise SourceError(f'printed nothing; of none, print {{"{name}": []}}')
    try:
        value = json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise SourceError(f"printed no JSON ({error}): {shown(text.strip())}") from None
    for problem in problems(value, schema(name), schema(name)["$defs"]):
        raise SourceError(f"printed {problem}")
    found: dict[str, Any] = value
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {shown(next(key for key in keys if keys.count(key) > 1))} stands there twice")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON's")


def problems(value: Any, rule: Schema, definitions: Mapping[str, Schema], at: str = "") -> Iterator[str]:
    """What is wrong, as sentences that begin with the place."""
    if "$ref" in rule:
        rule = definitions[rule["$ref"].rpartition("/")[2]]
    if "enum" in rule:
        if not any(value == one and isinstance(value, bool) is isinstance(one, bool) for one in rule["enum"]):
            yield f"{at or 'the answer'}: {shown(value)}, expected {' or '.join(map(json.dumps, rule['enum']))}"
        return
    if not TYPES[rule["type"]][1](value) or not _within(value, rule):
        yield f"{at or 'the answer'}: {shown(value)}, expected {expected(rule)}"
    elif rule["type"] == "array":
        for number, item in enumerate(value):
            yield from problems(item, rule["items"], definitions, f"{at}[{number}]")
    elif rule["type"] == "object":
        known = rule["properties"]
        for key in sorted(value.keys() - known.keys()):
            yield f"{at or 'the answer'} with the unknown key {shown(key)}, expected {', '.join(known)}"
        for key in sorted(set(rule.get("required", ())) - value.keys()):
            yield f"{at or 'the answer'} without the key {shown(key)}"
        for key in (key for key in known if key in value):
            yield from problems(value[key], known[key], definitions, f"{at}.{key}".lstrip("."))


def _within(value: Any, rule: Schema) -> bool:
    if "pattern" in rule and not re.search(rule["pattern"].replace("$", r"\Z"), value):
        return False
    return all(within(value, rule[name]) for name, (_, within) in LIMITS.items() if name in rule)


def expected(rule: Schema) -> str:
    """In words what a rule asks for."""
    limits = [words.format(rule[name]) for name, (words, _) in LIMITS.items() if name in rule]
    return " ".join([rule.get("title", TYPES[rule["type"]][0]), " and ".join(limits)]).strip()


def shown(value: Any) -> str:
    """A value for a person, in one short line."""
    text = json.dumps(value[:200] if isinstance(value, str) else value, default=str)
    return text if len(text) <= 60 else f"{text[:57]}..."
