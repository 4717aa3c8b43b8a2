"""HTCondor's bindings, asked through the helper process (`htcondor_server`), which one deadline can kill.

Imported where ``query_method = bindings`` asks for it, and where jobs are matched with machines.
"""

from __future__ import annotations

import json
import sys
import weakref
from pathlib import Path
from typing import Any, Iterable, Mapping, Optional, Sequence

from elastiq.command import CommandError, CommandNotFound
from elastiq.coprocess import Coprocess
from elastiq.interfaces import BatchSystem, JobGroup, Machine, SourceError, UnsupportedError, request_fits
from elastiq.plugins.batch import htcondor_ads as ads
from elastiq.plugins.batch import htcondor_portraits as portraits
from elastiq.plugins.batch.htcondor_own_ads import VARYING

SERVER = Path(__file__).with_name("htcondor_server.py")
SYSTEM_PYTHON = "/usr/bin/python3"  # distributions' packages have the bindings for this one
MAX_OUTPUT = 64_000_000  # bytes
ALARM_S = 2.0  # after the deadline a helper ends itself, if there is nobody to kill it
KINDS = {"-any": "Any", "-schedd": "Schedd"}
GET_THEM = "install python3-htcondor (EL: python3-condor), or `pip install htcondor` where elastiq is"


class Bindings:
    """The helper processes of one pool. Any thread may call."""

    def __init__(self, batch: BatchSystem, pool: str, timeout_s: float) -> None:
        # Weak: after a reload the helpers end with the batch system that had them.
        self._batch, self._pool, self._timeout_s = weakref.ref(batch), pool, timeout_s
        pythons = [path for path in dict.fromkeys((sys.executable, SYSTEM_PYTHON)) if path]
        self._helpers = [Coprocess((python, str(SERVER)), MAX_OUTPUT) for python in pythons]

    def rows(self, tool: str, args: Sequence[str]) -> Optional[list[ads.Row]]:
        """What this command of HTCondor would print with ``-json``; None for one that only the command can
        answer. Raises `SourceError`."""
        query = _query(tool, args)
        if query is None:
            return None
        return ads.rows(self._ask(tool, {"do": tool, "pool": self._pool, **query}), tool)

    def match(self, groups: Sequence[JobGroup], machines: Sequence[Machine]) -> Mapping[tuple[str, Machine], str]:
        """See `BatchSystem.match`. What is alike is matched once. Raises `SourceError`."""
        jobs, numbers = _numbered(portraits.job_ad(group) for group in groups)
        drawn, places = _numbered(portraits.would_be(machine) for machine in machines)
        request = {"do": "match", "jobs": jobs, "machines": drawn}
        unknown = {"passing": portraits.PASSING.pattern, "varying": VARYING.pattern}
        answer = json.loads(self._ask("matching", {**request, **unknown}))
        reasons: Sequence[str] = answer["reasons"]
        refused = {(job, machine): reasons[why] for job, machine, why in answer["pairs"]}
        return {
            (group.key, machine): request_fits(group.request, machine.resources)[1] or refused.get((job, place), "")
            for group, job in zip(groups, numbers)
            for machine, place in zip(machines, places)
        }

    def portrait(self, slots: Sequence[ads.Row]) -> str:
        """See `BatchSystem.portrait`."""
        return portraits.portrait(slots)

    def version(self) -> str:
        """Which bindings answer, for a person. Raises `SourceError`."""
        return str(json.loads(self._ask("the bindings", {"do": "version"}))["version"])

    def _ask(self, what: str, request: Mapping[str, Any]) -> str:
        line = json.dumps({**request, "timeout_s": self._timeout_s + ALARM_S}).encode()
        absent = []
        for helper in self._helpers:
            try:
                said = helper.ask(line, self._timeout_s).decode("utf-8", errors="replace")
            except CommandNotFound as error:
                said = json.dumps({"absent": str(error)})
            except CommandError as error:
                raise SourceError(f"{what} failed by the bindings: {error}") from None
            problem = json.loads(said) if said.startswith(('{"absent":', '{"error":')) else {}
            if "error" in problem:
                helper.close()  # what the library remembers of its peers may be what is wrong
                raise SourceError(f"{what} failed by the bindings: {' '.join(problem['error'].split())}")
            if "absent" not in problem:
                self._helpers = [helper]
                return said
            absent.append(problem["absent"])
            helper.close()
        if (batch := self._batch()) is not None:
            batch.can_match = False
        raise NoBindings(f"no Python here has HTCondor's bindings ({'; '.join(absent)})")


class NoBindings(UnsupportedError):
    """There are none on this machine; ``why`` does not say what to do."""

    def __init__(self, why: str) -> None:
        super().__init__(f"{why}: {GET_THEM}")
        self.why = why


def _query(tool: str, args: Sequence[str]) -> Optional[dict[str, Any]]:
    """The same question in the words of `htcondor_server`; None if it cannot be asked there."""
    query: dict[str, Any] = {"attributes": [], "constraint": "", "name": "", "group_by": False, "kind": "Startd"}
    rest = iter(args)
    for word in rest:
        if word in ("-constraint", "-name"):
            query[word[1:]] = next(rest)
        elif word == "-attributes":
            query["attributes"] = next(rest).split(",")
        elif word in KINDS:
            query["kind"] = KINDS[word]
        elif word == "-group-by":
            query["group_by"] = True
        elif word not in ("-json", "-allusers"):
            return None
    return query if tool in ("condor_q", "condor_status") else None


def _numbered(ads: Iterable[Mapping[str, Any]]) -> tuple[list[Any], list[int]]:
    """Those that differ, and for each one the number of its like."""
    numbers: dict[str, int] = {}
    places = [numbers.setdefault(json.dumps(ad, sort_keys=True), len(numbers)) for ad in ads]
    return list(map(json.loads, numbers)), places
