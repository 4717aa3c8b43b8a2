"""Rows of ``qstat -r -xml`` -> groups of waiting jobs. Pure.

A pending array is one row, its tasks that wait in ``tasks``. A job of a parallel environment asks for slots: all on one
host, so many on each of several, or anywhere (`allocation_rule`, sge_pe(5)). Memory and GPUs are what the keys
memory_complexes and gpu_complexes name; a consumable is asked for by each slot, or by the job (sge_complex(5)).
"""

from __future__ import annotations

import fnmatch
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import AbstractSet, Iterable, Mapping, NamedTuple, Optional, Sequence
from xml.etree.ElementTree import Element

from elastiq.interfaces import JobGroup, Resources
from elastiq.plugins.batch import gridengine_xml as xml
from elastiq.plugins.batch import index_sets
from elastiq.plugins.batch.shapes import Groups, Shape

WAITS = frozenset("qwR")  # of a pending job's state; h is a hold, E an error, d a deletion (qstat(1))
PE_SLOTS = "$pe_slots"
# Limits of a job's time and files: they bind the job, and are nothing that a machine has (queue_conf(5)).
NO_NEED = re.compile(r"[hs]_(rt|cpu|fsize|core|stack|data)")
_LITERAL = re.compile(r"[\w.-]+")


@dataclass(frozen=True)
class Job:
    """One row: a job, or the tasks of an array that are in one state."""

    id: str
    state: str
    pending: bool
    slots: int = 1
    tasks: str = ""
    requests: Mapping[str, str] = field(default_factory=dict)
    queues: tuple[str, ...] = ()
    pe: str = ""
    pe_range: str = ""

    @property
    def waits(self) -> bool:
        """Whether a machine is what it waits for, as far as its state says."""
        return self.pending and set(self.state) <= WAITS and bool(self.state)

    @property
    def count(self) -> int:
        """How many tasks the row stands for."""
        try:
            return index_sets.count(self.tasks) if self.tasks else 1
        except ValueError:
            return 1  # a form that nobody told us: one surely

    @property
    def is_array(self) -> bool:
        return self.count > 1


def job(row: Element) -> Job:
    """A ``job_list``."""
    requests = {child.get("name", ""): (child.text or "").strip() for child in row.iter("hard_request")}
    pe = row.find("requested_pe")
    return Job(
        id=xml.text(row, "JB_job_number"),
        state=xml.text(row, "state"),
        pending=row.get("state") == "pending",
        slots=max(1, int(xml.number(xml.text(row, "slots")) or 1)),
        tasks=xml.text(row, "tasks"),
        requests={name: value for name, value in requests.items() if name and not NO_NEED.fullmatch(name)},
        queues=tuple(sorted(xml.texts(row, "hard_req_queue"))),
        pe=(pe.get("name") or "") if pe is not None else "",
        pe_range=(pe.text or "").strip() if pe is not None else "",
    )


class Complex(NamedTuple):
    """What ``qconf -sc`` says of one: its type, how a request is compared with what is there, YES, NO or JOB."""

    type: str
    relop: str
    consumable: str


UNKNOWN = Complex("STRING", "==", "NO")


@dataclass(frozen=True)
class Site:
    """What of the cluster's configuration says how jobs are to be read. ``rules`` are the allocation rules of the
    parallel environments, by their names."""

    memory: Sequence[str] = ()
    gpus: Sequence[str] = ()
    complexes: Mapping[str, Complex] = field(default_factory=dict)
    rules: Mapping[str, str] = field(default_factory=dict)

    def rule(self, pe: str) -> str:
        """The rule of a parallel environment, or of those that a pattern names: then the one that asks the least."""
        found = {self.rules[name] for name in fnmatch.filter(self.rules, pe)}
        return PE_SLOTS if found == {PE_SLOTS} or not found else min(found - {PE_SLOTS})

    def known(self, pe: str) -> bool:
        """Whether there is such an environment, or one that a pattern names."""
        return bool(fnmatch.filter(self.rules, pe))

    def shape(self, of: Job) -> Shape:
        """What makes jobs alike."""
        cpus, nodes = self._layout(of)
        sizes = (*self.memory, *self.gpus)
        request = Resources(
            cpus=cpus, memory_mb=self._amount(of, self.memory, cpus, 1024**2), gpus=self._amount(of, self.gpus, cpus, 1)
        )
        others = ((name, value) for name, value in sorted(of.requests.items()) if name not in sizes)
        ad = [f"{name} {self.complexes.get(name, UNKNOWN).relop} {value}" for name, value in others]
        ad += [f"queues = {', '.join(of.queues)}"] if of.queues else []
        ad += [f"pe = {of.pe}"] if of.pe else []
        host = of.requests.get("hostname", "")
        why = f"asks for the host {host}, which no new machine will be" if _LITERAL.fullmatch(host) else ""
        return Shape(request, "; ".join(ad), why, nodes=nodes, ad=tuple(ad))

    def _layout(self, of: Job) -> tuple[int, int]:
        """How many slots on one machine, and on how many."""
        slots = least(of.pe_range) or of.slots
        if not of.pe:
            return slots, 1
        rule = self.rule(of.pe)
        if rule.isdigit() and int(rule) > 0:
            each = min(int(rule), slots)
            return each, max(1, slots // each)
        return (slots, 1) if rule == PE_SLOTS else (1, slots)  # $fill_up, $round_robin: wherever there is one

    def _amount(self, of: Job, names: Sequence[str], slots: int, unit: float) -> Optional[float]:
        """The most that it asks for by one of these complexes, on one machine."""
        found = []
        for name in names:
            each = xml.number(of.requests.get(name))
            if each is not None:
                limit = name.startswith(("h_", "s_"))  # of the process, and multiplied by its slots: queue_conf(5)
                per_slot = {"YES": True, "JOB": False}.get(self.complexes.get(name, UNKNOWN).consumable, limit)
                found.append(each * (slots if per_slot else 1) / unit)
        return max(found, default=None)


def least(pe_range: str) -> int:
    """The fewest slots of ``4``, ``4-16``, ``2-4,8`` (sge_types(1)); 0 of what is none of them."""
    numbers = [int(part.partition("-")[0] or 1) for part in pe_range.split(",") if re.fullmatch(r"\d*-?\d*", part)]
    return min(numbers, default=0) if pe_range else 0


def groups(
    jobs: Iterable[Job], site: Site, later: AbstractSet[str] = frozenset(), at_once: Mapping[str, int] = {}
) -> tuple[JobGroup, ...]:
    """The groups of those that wait and of those that run. ``later`` are jobs whose time has not come; ``at_once`` says
    how many tasks of an array may run at the same time, where that is limited."""
    jobs = list(jobs)
    running = Counter[str]()
    for one in jobs:
        running[one.id] += 0 if one.pending else one.count
    room = {name: max(0, limit - running[name]) for name, limit in at_once.items()}
    found = Groups()
    for one in jobs:
        if not one.pending:
            found.add(site.shape(one), running=one.count)
        elif one.waits and one.id not in later:
            waiting = min(one.count, room.get(one.id, one.count))
            if one.id in room:
                room[one.id] -= waiting
            if waiting:
                found.add(site.shape(one), waiting=waiting, sample=one.id)
    return found.all()
