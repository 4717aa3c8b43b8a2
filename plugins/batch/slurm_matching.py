"""Whether a job would run on a would-be machine: partitions, features, gres. Pure.

A machine is known by its pool's lines of ``worker_ad`` (``Features = gpu,fast``, ``Partitions = long``, ``Gres =
gpu:tesla:2``; others are passed over), and where they do not say, by what the last worker of its kind showed. What
neither says is no reason against it.
"""

from __future__ import annotations

import re
from typing import Iterable, Mapping, Optional

from elastiq.interfaces import JobGroup, Machine, request_fits
from elastiq.plugins.batch.slurm_records import Node, gres, words

SAID = ("partitions", "features", "gres")
_TOKEN = re.compile(r"\s*(?:([()\[\]&|,])|\*(\d+)|([^\s()\[\]&|,*]+))")


def why_not(group: JobGroup, machine: Machine) -> str:
    """Empty if a job of the group would run there, or may."""
    fits, why = request_fits(group.request, machine.resources)
    if not fits:
        return why
    job, has = lines(group.ad), {**lines(machine.portrait.splitlines()), **lines(machine.worker_ad)}
    wanted, there = {*words(job.get("partitions"))}, {*words(has.get("partitions"))}
    if wanted and "partitions" in has and not wanted & there:
        return f"it is for partition {' or '.join(sorted(wanted))}, such a machine is in {_listed(there)}"
    if (
        job.get("features")
        and "features" in has
        and satisfies(job["features"], frozenset(words(has["features"]))) is False
    ):
        return (
            f"it asks for the features {job['features'][:80]}, such a machine has {_listed({*words(has['features'])})}"
        )
    if job.get("gres") and "gres" in has:
        amounts = gres(has["gres"])
        lacking = [name for name, amount in gres(job["gres"]).items() if amounts.get(name, 0) < amount]
        if lacking:
            return f"it asks for {job['gres'][:80]}, such a machine has {has['gres'][:80] or 'no gres'}"
    return ""


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))[:80] or "none"


def lines(texts: Iterable[str]) -> dict[str, str]:
    """Of lines ``Name = value`` those that count here, quotes around the value taken away."""
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name = {"feature": "features", "partition": "partitions"}.get(name.strip().lower(), name.strip().lower())
        if equals and name in SAID:
            found[name] = value.strip().strip("\"'").strip()
    return found


def portrait(node: Node) -> str:
    """What this node shows of future ones like it."""
    said = {"Partitions": ",".join(node.partitions), "Features": ",".join(node.features), "Gres": node.gres}
    return "\n".join(f"{name} = {' '.join(value.split())}" for name, value in said.items())


# --------------------------------------------------------------------------- constraints


def satisfies(constraint: str, features: frozenset[str]) -> Optional[bool]:
    """Whether a node with these features can be one of the nodes of a job with such a constraint (sbatch(1),
    --constraint); None if it cannot be read.

    ``&`` and ``,`` are and, ``|`` is or. In brackets stand alternatives of which all nodes take the same
    (``[rack1|rack2]``), or shares (``[big*1&small*4]``): a node serves if it is of one of them.
    """
    tokens = []
    position = 0
    while position < len(constraint.rstrip()):
        found = _TOKEN.match(constraint, position)
        if not found:
            return None
        position = found.end()
        if found[2] is None:  # a count says how many nodes, which is nothing of one node
            tokens.append(found[1] or found[3])
    reader = _Reader(tokens, features)
    try:
        value = reader.either(in_brackets=False)
    except IndexError:
        return None
    return value if reader.at_end else None


class _Reader:
    """Reads an expression from the left; raises IndexError where it is none."""

    def __init__(self, tokens: list[str], features: frozenset[str]) -> None:
        self._tokens, self._features, self._position = tokens, features, 0

    @property
    def at_end(self) -> bool:
        return self._position == len(self._tokens)

    def _next(self) -> str:
        token = self._tokens[self._position]
        self._position += 1
        return token

    def _is(self, *choices: str) -> bool:
        return not self.at_end and self._tokens[self._position] in choices

    def either(self, in_brackets: bool) -> bool:
        value = self._all(in_brackets)
        while self._is("|"):
            self._next()
            other = self._all(in_brackets)
            value = value or other
        return value

    def _all(self, in_brackets: bool) -> bool:
        value = self._one()
        while self._is("&", ","):
            self._next()
            other = self._one()
            value = (value or other) if in_brackets else (value and other)
        return value

    def _one(self) -> bool:
        token = self._next()
        if token in ("(", "["):
            value = self.either(in_brackets=token == "[")
            if self._next() != {"(": ")", "[": "]"}[token]:
                raise IndexError
            return value
        if token in (")", "]", "&", "|", ","):
            raise IndexError
        return token in self._features


def matched(groups: Iterable[JobGroup], machines: Iterable[Machine]) -> Mapping[tuple[str, Machine], str]:
    """Of every pair."""
    asked = list(groups)
    return {(group.key, machine): why_not(group, machine) for machine in machines for group in asked}
