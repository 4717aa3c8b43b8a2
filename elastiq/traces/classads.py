"""Numbers out of a job's ClassAd: values, and the simple expressions that ``condor_submit`` and sites write.

What a request is at the negotiation may be an expression, as ``RequestMemory = ifThenElse(MemoryUsage =!= undefined,
MemoryUsage, (ImageSize + 1023) / 1024)``, condor_submit's own. Arithmetic, comparisons and a few functions are worked
out here (the names are those of HTCondor's manual, "ClassAd functions"); all else is undefined. Nothing is executed:
the text is parsed by `ast` and walked through.
"""

from __future__ import annotations

import ast
import math
import operator
import re
import warnings
from functools import lru_cache
from typing import Any, Callable, Mapping, Optional

LONGEST = 2000
DEEPEST = 5  # references that lead to references
WIDEST = 8  # arguments, so that no ad takes long

Ad = Mapping[str, Any]


class Expression(str):
    """Text of a value that is to be worked out."""


_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Mod: operator.mod,
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}  # fmt: skip
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "isundefined": lambda value: value is None,
    "iferror": lambda value, other=None: other if value is None else value,
    "max": lambda *values: max(values),
    "min": lambda *values: min(values),
    "ceiling": math.ceil,
    "floor": math.floor,
    "round": round,
    "int": int,
    "real": float,
    "quantize": lambda value, step: math.ceil(value / step) * step,
}
_WORDS = {"undefined": None, "error": None, "true": True, "false": False}
_SPELT = ((re.compile(r"=!=|\bisnt\b", re.I), "!="), (re.compile(r"=\?=|\bis\b", re.I), "=="),
          (re.compile(r"&&"), " and "), (re.compile(r"\|\|"), " or "), (re.compile(r"!(?!=)"), " not "))  # fmt: skip


def number(ad: Ad, name: str) -> Optional[float]:
    """The number that an attribute is, None if it is none: not there, undefined, or more than is worked out here."""
    return _as_number(_value(ad, name.lower(), 0))


def _as_number(value: Any) -> Optional[float]:
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def _value(ad: Ad, name: str, depth: int) -> Any:
    if depth > DEEPEST:
        return None
    found = ad.get(name)
    if not isinstance(found, Expression):
        return found
    tree = _tree(found)
    if tree is None:
        return None
    try:
        return _walk(tree, ad, depth)
    except (TypeError, ValueError, ArithmeticError, LookupError, RecursionError):
        return None


@lru_cache(maxsize=1000)
def _tree(text: str) -> Optional[ast.expr]:
    if len(text) > LONGEST:
        return None
    for pattern, python in _SPELT:
        text = pattern.sub(python, text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what is odd in Python
            return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _walk(node: ast.expr, ad: Ad, depth: int) -> Any:
    """Raises TypeError for what is not worked out here, and where something is undefined that must not be."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        name = node.id.lower()
        return _WORDS[name] if name in _WORDS else _value(ad, name, depth + 1)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return _value(ad, node.attr.lower(), depth + 1) if node.value.id.lower() == "my" else None
    if isinstance(node, ast.BinOp):
        return _binary(node.op, _walk(node.left, ad, depth), _walk(node.right, ad, depth))
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return _binary(node.ops[0], _walk(node.left, ad, depth), _walk(node.comparators[0], ad, depth))
    if isinstance(node, ast.BoolOp) and len(node.values) <= WIDEST:
        values = (bool(_walk(each, ad, depth)) for each in node.values)
        return all(values) if isinstance(node.op, ast.And) else any(values)
    if isinstance(node, ast.UnaryOp):
        value = _walk(node.operand, ad, depth)
        return not value if isinstance(node.op, ast.Not) else -value if isinstance(node.op, ast.USub) else value
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) <= WIDEST:
        return _call(node.func.id.lower(), node.args, ad, depth)
    raise TypeError


def _call(name: str, given: list[ast.expr], ad: Ad, depth: int) -> Any:
    if name == "ifthenelse" and len(given) == 3:
        return _walk(given[1] if _walk(given[0], ad, depth) else given[2], ad, depth)
    return _FUNCTIONS[name](*(_walk(each, ad, depth) for each in given))


def _binary(kind: ast.AST, left: Any, right: Any) -> Any:
    if isinstance(kind, ast.operator) and not (isinstance(left, (int, float)) and isinstance(right, (int, float))):
        raise TypeError
    if isinstance(kind, ast.Div):  # of whole numbers it is a whole number
        return int(left / right) if isinstance(left, int) and isinstance(right, int) else left / right
    return _OPERATORS[type(kind)](left, right)
