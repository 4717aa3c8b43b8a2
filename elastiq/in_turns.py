"""Jobs that are much shorter than a boot, one after the other in each slot: `job_length_s` says how long they take.

Pure. Imported where that key is set. A machine for each of a thousand jobs of a second boots for two minutes and works
for a second. So a slot that comes is taken to run as many of them as it can in the time that a machine takes to boot,
and one that runs such a job already, one less. Nobody starves by a length that is wrong: jobs that have waited for as
long as a machine may take to join count each for itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Iterable, Mapping, Sequence

from elastiq.broker import Wanted
from elastiq.interfaces import JobGroup
from elastiq.situation import Situation, Verdict, group_name

FIRST_BOOT_S = 120.0  # until a machine was seen to join


def each_slot_runs(s: Situation) -> int:
    """How many jobs a slot runs one after the other in the time that machines take to boot."""
    boots = [sorted(seen)[len(seen) // 2] for seen, _ in s.registry.uses.seen.values() if seen]
    return max(1, int(min(boots, default=FIRST_BOOT_S) / s.settings.job_length_s))


@dataclass(frozen=True)
class _InTurns(Wanted):
    waiting: int = 0
    each: int = 1

    @property
    def name(self) -> str:
        jobs = group_name(self.group, self.waiting, "waiting job")
        return f"{jobs}, {self.each} in each slot one after the other"


class Turns:
    """The waiting jobs of one plan as the slots that they need: ``groups``, and in ``waited`` how many of each have
    waited long enough."""

    def __init__(self, s: Situation, waiting: Sequence[JobGroup], waited: Mapping[str, int]) -> None:
        self._s, self._each = s, each_slot_runs(s)
        self._jobs = {g.key: g for g in waiting if g.nodes == 1 and not g.not_eligible and self._each > 1}
        self.groups = [replace(g, waiting=self._slots(g, g.waiting)) if g.key in self._jobs else g for g in waiting]
        self.waited = {**waited, **{key: self._slots(g, waited[key]) for key, g in self._jobs.items()}}

    def _slots(self, group: JobGroup, jobs: int) -> int:
        """For so many of its jobs, those that have waited longest."""
        late = min(jobs, self._s.history.waited(group.key, self._s.settings.estimated_vm_deploy_time_s))
        follow = (group.running or 0) * (self._each - 1)
        return late + -(-max(0, jobs - late - follow) // self._each)

    def named(self, wants: Iterable[Wanted]) -> list[Wanted]:
        """The same, with the jobs in their names and not the slots."""
        return [
            _InTurns(w.group, w.jobs, w.one_only, self._jobs[w.group.key].waiting, self._each)
            if w.group.key in self._jobs
            else w
            for w in wants
        ]

    def told(self, verdicts: Iterable[Verdict]) -> tuple[Verdict, ...]:
        """The same, of the jobs."""
        return tuple(self._told(v, self._jobs[v.group.key]) if v.group.key in self._jobs else v for v in verdicts)

    def _told(self, v: Verdict, group: JobGroup) -> Verdict:
        each, waiting = self._each, group.waiting
        unserved = min(waiting, (v.group.waiting - v.held - v.launching) * each)
        launching = min(waiting - unserved, v.launching * each)
        why = v.reason or f"a slot that runs such a job takes it: job_length_s {self._s.settings.job_length_s:g}"
        machines = {name: min(waiting, slots * each) for name, slots in v.machines.items()}
        held = waiting - unserved - launching
        return replace(v, group=group, held=held, launching=launching, reason=why, machines=machines)
