"""How much an object holds: every container that can be reached from it, by the way there."""

from __future__ import annotations

import functools
import logging
import sqlite3
import types
from collections import Counter, deque
from typing import Any, Iterator

LEAVES = (str, bytes, int, float, type, types.ModuleType, logging.Logger, sqlite3.Connection)
CONTAINERS = (list, tuple, set, frozenset, deque)


def sizes(root: object, outside: tuple[type, ...] = ()) -> Counter[str]:
    """The number of items by way: ``.observer.jobs.value``, with ``[]`` for any item of a container.

    Containers that are reached the same way are added up. What is ``outside`` is not looked into.
    """
    found: Counter[str] = Counter()
    seen: dict[int, object] = {}  # the objects are kept, so that their ids stay theirs
    ahead: deque[tuple[str, object]] = deque([("", root)])
    while ahead:
        way, thing = ahead.popleft()
        if thing is None or isinstance(thing, (*LEAVES, *outside)) or id(thing) in seen:
            continue
        seen[id(thing)] = thing
        if isinstance(thing, (dict, *CONTAINERS)):
            found[way] += len(thing)
        ahead.extend((way + step, part) for step, part in _parts(thing))
    return found


def _parts(thing: Any) -> Iterator[tuple[str, object]]:
    if isinstance(thing, dict):
        yield from (("[]", value) for value in [*thing.values(), *thing.keys()])
    elif isinstance(thing, CONTAINERS):
        yield from (("[]", value) for value in list(thing))
    elif isinstance(thing, functools.partial):
        yield from ((".partial", value) for value in (thing.func, thing.args, thing.keywords))
    elif isinstance(thing, types.MethodType):
        yield ".self", thing.__self__
    elif isinstance(thing, types.FunctionType):
        for cell in thing.__closure__ or ():
            try:
                yield ".closure", cell.cell_contents
            except ValueError:
                pass  # not bound yet
    else:
        yield from ((f".{name}", value) for name, value in getattr(thing, "__dict__", {}).items())
        for name in getattr(type(thing), "__slots__", ()):
            yield f".{name}", getattr(thing, name, None)
