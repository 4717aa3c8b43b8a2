"""How a fault is planted: a function is compiled anew from its changed source, and put back afterwards."""

from __future__ import annotations
import __future__

import contextlib
import inspect
import sys
import textwrap
from dataclasses import dataclass
from typing import Any, Callable, Iterator, Sequence

from elastiq.simulation.scenario import Scenario


@dataclass(frozen=True)
class Change:
    """In the source of ``owner.name``, ``old`` becomes ``new``."""

    owner: Any  # a class or a module
    name: str
    old: str
    new: str


@dataclass(frozen=True)
class Mutant:
    """``invariants``: any of them may be the first to be broken. ``bend`` makes scenarios in which it shows more
    often: it changes what was drawn from a seed."""

    name: str
    invariants: str
    changes: tuple[Change, ...]
    bend: Callable[[Scenario], Scenario] = lambda scenario: scenario


class DoesNotApply(Exception):
    """The code that a mutant changes is not what it was: the table must follow."""


@contextlib.contextmanager
def planted(mutant: Mutant) -> Iterator[None]:
    """The daemon with this fault."""
    with contextlib.ExitStack() as undo:
        for owner, name in dict.fromkeys((change.owner, change.name) for change in mutant.changes):
            before = inspect.getattr_static(owner, name)
            undo.callback(setattr, owner, name, before)
            here = [change for change in mutant.changes if (change.owner, change.name) == (owner, name)]
            setattr(owner, name, rewritten(mutant.name, before, here))
        yield


def rewritten(mutant: str, before: Any, changes: Sequence[Change]) -> Any:
    """The function with the changed source, in the names of its own module."""
    function: Any = before.fget if isinstance(before, property) else before
    source = textwrap.dedent(inspect.getsource(function))
    for change in changes:
        if change.old not in source:
            raise DoesNotApply(f"mutant {mutant!r}: {function.__qualname__} has no {change.old!r}: mend the table")
        source = source.replace(change.old, change.new)
    module = sys.modules[function.__module__]
    where = f"<mutant {mutant}>"
    code = compile(source.replace(change.old, change.new), where, "exec", flags=__future__.annotations.compiler_flag)
    names: dict[str, Any] = {}
    exec(code, vars(module), names)
    return names[function.__name__]
