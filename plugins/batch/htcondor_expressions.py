"""Requests that are expressions, without HTCondor's library: the common ones, over what the schedd sends along.

The schedd groups by the text of an expression and sends the attributes that it refers to. Known here:
literals, the job's own attributes, the operators, and the functions in FUNCTIONS. Whatever else it says
(another function, TARGET, a string where a number must be, an error) is unclear, and the request unsaid.

What HTCondor measures of a job changes while it runs. So of a running job those attributes are undefined, as
they were before its first start; of a waiting one that ran before they are what it will be matched with.
"""

from __future__ import annotations

import functools
import math
import re
from typing import Any, Callable, Optional

from elastiq.plugins.batch.htcondor_ads import Row, number

RUNNING = (2, 6, 7)
MEASURED = frozenset("memoryusage residentsetsize proportionalsetsizekb imagesize diskusage".split())
COUNTED = frozenset("numjobstarts numshadowstarts jobruncount".split())  # one more as soon as it runs
# What was measured is a request from this size on (below, the size of the program says nothing), in these steps:
# HTCondor's own of memory, in MB; 1 GB of disk, in KB.
STEPS = {"requestmemory": (1024, 128), "requestdisk": (10 * 1024**2, 1024**2)}
UNITS = {"b": 1 / 1024**2, "k": 1 / 1024, "m": 1.0, "g": 1024.0, "t": 1024.0**2}  # MB
LONGEST, DEEPEST = 4000, 40

TOKEN = re.compile(
    r"""\s*(?:(?P<number>(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?)(?![\w.])
    |(?P<text>"(?:[^"\\]|\\.)*")
    |(?P<word>[A-Za-z_][\w.]*)
    |(?P<sign>=\?=|=!=|\?:|&&|\|\||[<>=!]=|[-+*/%()<>!?:,{}]))""",
    re.VERBOSE,
)
EQUAL = ("==", "!=", "=?=", "=!=", "is", "isnt")
BINARY = (("||",), ("&&",), EQUAL, ("<", "<=", ">", ">="), ("+", "-"), ("*", "/", "%"))


class Unclear(Exception):
    """Only HTCondor's own library could tell, or nobody."""


def asked(name: str, value: str, row: Row) -> Optional[float]:
    """What the request of this name (in lower case) comes to, None where that is unclear. MB for memory, KB
    for disk, as in the ad."""
    if not value.startswith("/Expr("):
        return _with_unit(name, value)
    scope = _Scope(row)
    try:
        found = number(scope.value(_parsed(value[6:-2])))
    except (Unclear, ArithmeticError, RecursionError):
        return None
    if found is None or not scope.measured or name not in STEPS:
        return found
    least, step = STEPS[name]
    return math.ceil(found / step) * step if found >= least else None


def _with_unit(name: str, text: str) -> Optional[float]:
    """Of ``+RequestMemory = "2G"``: text, which condor_submit would have made a number of."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([bkmgt])b?\s*", text, re.IGNORECASE)
    if found is None or name not in STEPS:
        return None
    return float(found[1]) * UNITS[found[2].lower()] * (1024 if name == "requestdisk" else 1)


# --------------------------------------------------------------------------- text -> tree


@functools.lru_cache(maxsize=256)
def _parsed(text: str) -> Any:
    """The tree of an expression: ("is", a, b), ("call", name, ...), ("list", ...), ("name", name), ("value", v)."""
    tokens, at = [], 0
    while len(text) <= LONGEST and text[at:].strip():
        found = TOKEN.match(text, at)
        if found is None:
            raise Unclear(text)
        tokens.append((str(found.lastgroup), found[found.lastgroup or 0]))
        at = found.end()
    parser = _Parser(tokens)
    tree = parser.choice()
    if parser.rest:
        raise Unclear(text)
    return tree


class _Parser:
    """By recursive descent, as deep as the brackets."""

    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self.rest, self.depth = tokens[::-1], 0

    def taken(self, *wanted: str) -> str:
        """The next token if it is one of these (words in any case), else nothing."""
        if self.rest and self.rest[-1][0] in ("sign", "word") and self.rest[-1][1].lower() in wanted:
            return self.rest.pop()[1].lower()
        return ""

    def need(self, sign: str) -> None:
        if not self.taken(sign):
            raise Unclear(sign)

    def choice(self) -> Any:
        self.depth += 1
        if self.depth > DEEPEST:
            raise Unclear("too deep")
        tree = self.binary(0)
        if self.taken("?:"):
            tree = ("else", tree, self.choice())
        elif self.taken("?"):
            yes = self.choice()
            self.need(":")
            tree = ("call", "ifthenelse", tree, yes, self.choice())
        self.depth -= 1
        return tree

    def binary(self, level: int) -> Any:
        if level == len(BINARY):
            return self.unary()
        tree = self.binary(level + 1)
        while sign := self.taken(*BINARY[level]):
            tree = ({"is": "=?=", "isnt": "=!="}.get(sign, sign), tree, self.binary(level + 1))
        return tree

    def unary(self) -> Any:
        sign = self.taken("-", "!")
        if sign:
            self.depth += 1
            if self.depth > DEEPEST:
                raise Unclear("too deep")
            tree = (f"unary{sign}", self.unary())
            self.depth -= 1
            return tree
        return self.single()

    def single(self) -> Any:
        if self.taken("("):
            tree = self.choice()
            self.need(")")
            return tree
        if self.taken("{"):
            return ("list", *self.arguments("}"))
        kind, text = self.rest.pop() if self.rest else ("", "")
        if kind == "number":
            return ("value", int(text) if text.isdigit() else float(text))
        if kind == "text":
            return ("value", re.sub(r"\\(.)", r"\1", text[1:-1]))
        if kind != "word":
            raise Unclear(text or "its end")
        name = text.lower()
        if self.taken("("):
            return ("call", name, *self.arguments(")"))
        known = {"true": True, "false": False, "undefined": None}
        return ("value", known[name]) if name in known else ("name", name)

    def arguments(self, end: str) -> list[Any]:
        found: list[Any] = []
        while not self.taken(end):
            if found:
                self.need(",")
            found.append(self.choice())
        return found


# --------------------------------------------------------------------------- tree -> value


class _Scope:
    """The attributes of one job (or group); ``measured`` once a measured one was used."""

    def __init__(self, row: Row) -> None:
        self.row, self.measured, self.within = row, False, 0
        self.running = row.get("jobstatus") in RUNNING

    def value(self, tree: Any) -> Any:
        """A number, a text, a truth value, a list, or None for undefined; raises `Unclear`."""
        kind, *parts = tree
        if kind == "value":
            return parts[0]
        if kind == "name":
            return self.attribute(parts[0].removeprefix("my."))
        if kind == "call":
            return self.call(parts[0], parts[1:])
        if kind == "list":
            return [self.value(part) for part in parts]
        first = self.value(parts[0])
        if kind == "else":
            return self.value(parts[1]) if first is None else first
        if kind in ("&&", "||"):
            return self.logic(kind == "||", _truth(first), parts[1])
        return _combined(kind, first, *(self.value(part) for part in parts[1:]))

    def attribute(self, name: str) -> Any:
        if "." in name or name == "error":
            raise Unclear(name)
        value = self.row.get(name)
        if self.running and name in MEASURED:
            return None
        if self.running and name in COUNTED and isinstance(value, int):
            return max(0, value - 1)
        self.measured |= name in MEASURED and value is not None
        if not (isinstance(value, str) and value.startswith("/Expr(")):
            return value
        self.within += 1
        if self.within > DEEPEST:
            raise Unclear("a request that refers to itself")
        found = self.value(_parsed(value[6:-2]))
        self.within -= 1
        return found

    def logic(self, decided_by: bool, first: Optional[bool], other: Any) -> Optional[bool]:
        if first is decided_by:
            return first
        second = _truth(self.value(other))
        return second if second is decided_by or first is not None else None

    def call(self, name: str, parts: list[Any]) -> Any:
        if name == "ifthenelse" and len(parts) == 3:
            condition = _truth(self.value(parts[0]))
            return None if condition is None else self.value(parts[1 if condition else 2])
        if name == "isundefined" and len(parts) == 1:
            return self.value(parts[0]) is None
        values = [self.value(part) for part in parts]
        count, function = FUNCTIONS.get(name, (-1, len))
        if count != len(values):
            raise Unclear(name)
        return None if None in values else function(*values)


def _truth(value: Any) -> Optional[bool]:
    if value is None or isinstance(value, bool):
        return value
    return bool(_number(value))


def _number(value: Any) -> Any:
    if isinstance(value, bool):
        return int(value)
    if not isinstance(value, (int, float)):
        raise Unclear("no number")
    return value


def _combined(kind: str, first: Any, *others: Any) -> Any:
    second = others[0] if others else None
    if kind in ("=?=", "=!="):
        same = type(first) is type(second) and first == second
        return same is (kind == "=?=")
    if first is None or (others and second is None):
        return None
    if kind == "unary!":
        return not _truth(first)
    if isinstance(first, str) and isinstance(second, str):
        first, second = first.lower(), second.lower()
    else:
        first, second = _number(first), _number(second or 0)
    operator = OPERATORS.get(kind)
    if operator is None or (isinstance(first, str) and kind in ARITHMETIC):
        raise Unclear(kind)
    return operator(first, second)


def _whole(value: Any) -> int:
    if not isinstance(value, int):
        raise Unclear("a remainder of no whole number")
    return value


def _quotient(first: Any, second: Any) -> Any:
    return math.trunc(first / second) if isinstance(first, int) and isinstance(second, int) else first / second


ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _quotient,
    "%": lambda a, b: int(math.fmod(_whole(a), _whole(b))),
    "unary-": lambda a, _: -a,
}
OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    **ARITHMETIC,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def _most(pick: Callable[[list[Any]], Any]) -> Callable[[Any], Any]:
    def of(values: Any) -> Any:
        if not isinstance(values, list):
            raise Unclear("no list")
        found = [_number(value) for value in values if value is not None]
        return pick(found) if found else None

    return of


def _quantized(value: Any, step: Any) -> Any:
    if isinstance(step, list):
        for one in map(_number, step):
            if one >= _number(value):
                return one
        step = step[-1] if step else 0
    if _number(step) <= 0:
        raise Unclear("quantize")
    return math.ceil(_number(value) / step) * step


FUNCTIONS: dict[str, tuple[int, Callable[..., Any]]] = {
    "ceiling": (1, lambda a: math.ceil(_number(a))),
    "floor": (1, lambda a: math.floor(_number(a))),
    "int": (1, lambda a: math.trunc(_number(a))),
    "max": (1, _most(max)),
    "min": (1, _most(min)),
    "quantize": (2, _quantized),
    "real": (1, lambda a: float(_number(a))),
    "round": (1, lambda a: round(_number(a))),
}
