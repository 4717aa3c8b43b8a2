"""JSON against one of the schemas that are shipped: which element is wrong, and what was expected. Pure but for
reading the schema.

They are ordinary JSON Schemas, for whoever writes an executable; here is as much of JSON Schema as they use (a test
holds every answer against the library jsonschema, which a head node need not have). A schema becomes functions once:
10,000 jobs are 30,000 values.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any, Callable, Mapping, Optional

from elastiq.errors import SourceError

Schema = Mapping[str, Any]
Fault = Optional[tuple[str, str]]  # the place below, and what is wrong there
Check = Callable[[Any], Fault]

# As `json` makes them: a bool is no number.
TYPES: Mapping[str, tuple[str, tuple[type, ...]]] = {
    "object": ("an object", (dict,)),
    "array": ("a list", (list,)),
    "string": ("a text", (str,)),
    "boolean": ("true or false", (bool,)),
    "number": ("a number", (int, float)),
    "integer": ("a whole number", (int, float)),  # 2.0 is one
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


@cache
def checker(name: str) -> Check:
    """What is wrong first in a value, by that schema."""
    return _checker(schema(name), schema(name)["$defs"])


def document(text: str, name: str) -> dict[str, Any]:
    """The JSON of an answer, checked. Raises `SourceError`, whose one line says what is wrong where."""
    if not text.strip():
        raise SourceError(f'printed nothing; of none, print {{"{name}": []}}')
    try:
        value = json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise SourceError(f"printed no JSON ({error}): {shown(text.strip())}") from None
    if fault := checker(name)(value):
        raise SourceError(f"printed {fault[0].lstrip('.') or 'an answer'}{fault[1]}")
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


# --------------------------------------------------------------------------- the parts of JSON Schema


def _checker(rule: Schema, definitions: Mapping[str, Schema]) -> Check:
    if "$ref" in rule:
        rule = definitions[rule["$ref"].rpartition("/")[2]]
    if "enum" in rule:
        return _one_of(rule["enum"])
    leaf = _leaf(rule)
    if rule["type"] == "array":
        return _array(leaf, _checker(rule["items"], definitions))
    if rule["type"] == "object":
        keys = {key: _checker(inner, definitions) for key, inner in rule["properties"].items()}
        return _object(leaf, keys, rule.get("required", ()))
    return leaf


def _one_of(words: list[Any]) -> Check:
    known, expected = [(type(word) is bool, word) for word in words], " or ".join(map(json.dumps, words))
    return lambda value: None if (type(value) is bool, value) in known else ("", _not(value, expected))


def _leaf(rule: Schema) -> Check:
    word, types = TYPES[rule["type"]]
    limits = [(within, rule[name]) for name, (_, within) in LIMITS.items() if name in rule]
    texts = [text.format(rule[name]) for name, (text, _) in LIMITS.items() if name in rule]
    expected = " ".join([rule.get("title", word), " and ".join(texts)]).strip()
    pattern = re.compile(rule["pattern"].replace("$", r"\Z")) if "pattern" in rule else None
    whole = rule["type"] == "integer"

    def check(value: Any) -> Fault:
        fits = type(value) in types and not (whole and value % 1)
        if (
            fits
            and all(within(value, limit) for within, limit in limits)
            and not (pattern and not pattern.search(value))
        ):
            return None
        return "", _not(value, expected)

    return check


def _array(leaf: Check, item: Check) -> Check:
    def check(value: Any) -> Fault:
        if fault := leaf(value):
            return fault
        for number, one in enumerate(value):
            if fault := item(one):
                return f"[{number}]{fault[0]}", fault[1]
        return None

    return check


def _object(leaf: Check, keys: Mapping[str, Check], required: list[str]) -> Check:
    def check(value: Any) -> Fault:
        if fault := leaf(value):
            return fault
        for key, one in value.items():
            if key not in keys:
                return "", f" with the unknown key {shown(key)}, expected {', '.join(keys)}"
            if fault := keys[key](one):
                return f".{key}{fault[0]}", fault[1]
        for key in required:
            if key not in value:
                return "", f" without the key {shown(key)}"
        return None

    return check


def _not(value: Any, expected: str) -> str:
    return f": {shown(value)}, expected {expected}"


def shown(value: Any) -> str:
    """A value for a person, in one short line."""
    text = json.dumps(value[:200] if isinstance(value, str) else value)
    return text if len(text) <= 60 else f"{text[:57]}..."
