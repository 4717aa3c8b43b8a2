"""Lightly used machines that are emptied: no new job starts there, and each ends once its last one has ended.

One is emptied when the other busy machines have room for as many jobs as run on it, and on those that are being
emptied already. Idle machines are no such room: they are about to go themselves, or are hot spares. Nothing is
moved and nothing is evicted: a batch system that cannot let the jobs end by themselves refuses. When jobs wait for
which there is no other room, an emptied machine is returned to service before a new one is launched.

Pure. Imported where ``consolidate`` is set, or a machine is being emptied.
"""

from __future__ import annotations

from collections import Counter
from typing import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from elastiq.interfaces import Resources, Worker, WorkerState
from elastiq.nodes import CAPACITY, IN_SERVICE, JOINED, TO_COME, Node, State
from elastiq.packing import Need, Room, RoomClass, Vector, jobs_held, need, vector
from elastiq.situation import Launch, Situation, Step, Verdict
from elastiq.wording import counted

LIGHT = 0.5  # at most this share of a lightly used machine is taken, of whichever resource most is
# For so long no job has begun or ended there; or for idle_for_time_s, where that is shorter. Much shorter than its
# default of an hour, in which jobs begin everywhere: a machine that goes too early is returned in seconds, while jobs
# still run there. On the mix of benchmarks/consolidation.py 600 s save twice as much as an hour.
QUIET_S = 600.0
AT_ONCE = 3  # so many are drained by one plan; the next waits until these are seen to be drained
TRIES = 20  # candidates that are looked at by one plan


class Consolidation:
    """What one plan does about it. Adds to ``room`` that of the machines that can be returned."""

    def __init__(self, s: Situation, room: Room, leaving: Collection[str]) -> None:
        self._s, self._room, self._leaving = s, room, leaving
        emptied = (node for node in s.registry if node.emptied and node.state in JOINED and node.seen is not None)
        self._emptied = [node for node in emptied if node.state is State.DRAINING or not _takes_jobs(node)]
        for node in self._emptied:
            if self._stays(node) and not self._returned_in_vain(node):
                room.add(_room_of(s, node), [node.id], (node.pool, node.flavour))
        self.lacking = self._below_minimum()  # for a minimum: nothing is launched for one while these are returned

    # ------------------------------------------------------------------ back to service

    def returns(self) -> list[Step]:
        """Emptied machines that are needed again."""
        needed = [node for node in self._emptied if node.id in self._room.reserved and _can_return(node)]
        due = {step.node.id for step in self.lacking}
        return [*self.lacking, *(Step(node, "waiting jobs need its room") for node in needed if node.id not in due)]

    def _stays(self, node: Node) -> bool:
        """Whether there is no other reason for it to go."""
        return not (node.for_good or node.id in self._leaving or node.pool in self._s.drained)

    def _returned_in_vain(self, node: Node) -> bool:
        """Whether it is long in service again, and its worker does not show it."""
        return node.state in IN_SERVICE and node.room_s >= self._s.settings.unused_room_s

    def _below_minimum(self) -> list[Step]:
        s, steps = self._s, []
        if not self._emptied or s.no_launch:
            return []
        there = Counter(n.pool for n in s.registry if n.state in CAPACITY and n.id not in self._leaving)
        for node in filter(_can_return, filter(self._stays, self._emptied)):
            why = _minimum(s, node.pool, there[node.pool] + 1, sum(there.values()) + 1)
            if why:
                steps.append(Step(node, why))
                there[node.pool] += 1
        return steps

    # ------------------------------------------------------------------ out of service

    def allowed(self, drains: Sequence[Step]) -> Sequence[Step]:
        """Those of these drains that break no minimum should a machine that is being returned not come back."""
        s, returning = self._s, [node for node in self._emptied if node.state in IN_SERVICE]
        if not returning:
            return drains
        there = Counter(node.pool for node in s.registry if node.state in IN_SERVICE)
        there.subtract(node.pool for node in returning)
        kept = []
        for step in drains:
            pool = step.node.pool
            if step.for_good or not _minimum(s, pool, there[pool], sum(there.values())):
                kept.append(step)
                there[pool] -= 1
        return kept

    def drains(self, launches: Sequence[Launch], verdicts: Iterable[Verdict], others: Iterable[Step]) -> list[Step]:
        """The machines to empty: the dearest first, then those that are used least. ``others`` are drained by the
        same plan. None while jobs wait that could run, while machines boot, or while an earlier drain has no effect
        yet."""
        s = self._s
        obstacle = s.no_end or s.no_drain or not (s.settings.consolidate and s.can_drain and s.settled)
        if obstacle or launches or any(v.group.waiting and v.matchable for v in verdicts):
            return []
        if s.registry.count(None, TO_COME) or any(n.acting or not _can_return(n) for n in self._emptied):
            return []
        going = {step.node.id for step in others}
        stay = [n for n in s.registry if n.state in IN_SERVICE and self._stays(n) and n.id not in going]
        there = Counter(node.pool for node in stay)
        free = Counter(_room_of(s, node) for node in stay if node.state is State.BUSY and _takes_jobs(node))
        free.update(vector(w.free, s.settings.n_jobs_per_vm - w.jobs) for w in self._static_workers())
        placed = Counter[Need]()  # how many jobs of each size lose their place
        for node in self._emptied:
            placed[_need(node)] += _jobs(node)
        steps: list[Step] = []
        for node in sorted(filter(self._may_go, stay), key=self._order)[:TRIES]:
            if _minimum(s, node.pool, there[node.pool], sum(there.values())):
                continue
            own, asked, jobs = _room_of(s, node), _need(node), _jobs(node)
            free[own] -= 1
            placed[asked] += jobs
            if _hold(free, placed):
                steps.append(Step(node, _why(free, asked, jobs), for_good=True, emptied=vars(_each(node))))
                there[node.pool] -= 1
                if len(steps) == AT_ONCE:
                    break
            else:
                free[own] += 1
                placed[asked] -= jobs
        return steps

    def _may_go(self, node: Node) -> bool:
        """Whether it is lightly used, and has been for a while. One whose drain was refused is left alone until other
        jobs run there."""
        s, worker = self._s, node.seen
        if node.state is not State.BUSY or worker is None or not _takes_jobs(node) or not worker.jobs:
            return False
        if node.refused == (worker.jobs, worker.job_starts) or not node.may_act(s.now) or node.site not in s.sites:
            return False
        quiet_s = min(QUIET_S, s.idle_for_s(node.pool))
        return node.room_s >= quiet_s and _used(s, node) <= LIGHT

    def _order(self, node: Node) -> tuple[float, float, str]:
        pool = self._s.settings.pool(node.pool)
        price = (pool.price(node.flavour, node.market) if pool else None) or 0.0
        return (-price, _used(self._s, node), node.id)

    def _static_workers(self) -> Iterator[Worker]:
        """Workers that never go, as the configuration says; other people's machines may."""
        static = {name.lower() for name in self._s.settings.static_workers}
        workers = (one.worker for one in self._s.registry.strangers.values() if one.worker.takes_jobs)
        return (worker for worker in workers if static & {worker.name, *worker.addresses})


def _can_return(node: Node) -> bool:
    """Whether its drain is seen to be in effect, so that it can be undone."""
    return node.state is State.DRAINING and not node.acting and node.seen is not None and node.seen.is_drained


def _takes_jobs(node: Node) -> bool:
    return node.seen is not None and node.seen.takes_jobs


def _minimum(s: Situation, name: str, here: int, there: int) -> str:
    """The minimum that so many machines, of the pool and of all, do not exceed; empty if they do."""
    pool = s.settings.pool(name)
    if pool is not None and name not in s.drained and here <= pool.min_vms:
        return f"min_vms {pool.min_vms} of pool {name}"
    return f"min_vms {s.settings.min_vms}" if there <= s.settings.min_vms else ""


# --------------------------------------------------------------------------- what is free, and what is taken


def _each(node: Node) -> Resources:
    """What one of its jobs takes, if all are alike."""
    worker = node.seen or Worker(node.name, WorkerState.OTHER)
    if node.emptied:
        return Resources(**node.emptied)
    return _by_size(worker.total, worker.free, lambda has, left: max(0.0, has - left) / max(1, worker.jobs))


def _free(node: Node) -> Resources:
    """What is free of it, or would be if it took jobs: of a worker that drains HTCondor says that nothing is."""
    worker = node.seen or Worker(node.name, WorkerState.OTHER)
    if not node.emptied:
        return worker.free
    left = _by_size(worker.total, _each(node), lambda has, each: max(0.0, has - each * worker.jobs))
    return left.merged(worker.free, max)


def _by_size(one: Resources, other: Resources, how: Callable[[float, float], float]) -> Resources:
    """Size by size, where both say it."""
    both = zip(vars(one).values(), vars(other).values())
    return Resources(*(None if a is None or b is None else how(a, b) for a, b in both))


def _room_of(s: Situation, node: Node) -> Vector:
    return vector(_free(node), max(0, s.settings.n_jobs_per_vm_of(node.pool) - _jobs(node)))


def _need(node: Node) -> Need:
    return need(_each(node))


def _jobs(node: Node) -> int:
    return node.seen.jobs if node.seen is not None else 0


def _used(s: Situation, node: Node) -> float:
    """The share that is taken of the resource of which most is."""
    worker = node.seen
    if worker is None:
        return 1.0
    both = zip(vars(worker.total).values(), vars(worker.free).values())
    shares = [1.0 - left / has for has, left in both if has and left is not None]
    if worker.total.cpus is None:
        shares.append(worker.jobs / max(1, s.settings.n_jobs_per_vm_of(node.pool)))
    return max(shares, default=1.0)


def _hold(free: Mapping[Vector, int], placed: Mapping[Need, int]) -> bool:
    """Whether this room, of so many machines each, holds so many jobs of each size."""
    room = Room(RoomClass(one, [""] * count, joined=True) for one, count in free.items() if count > 0)
    return all(room.hold(asked, jobs).jobs >= jobs for asked, jobs in sorted(placed.items(), reverse=True))


def _why(free: Mapping[Vector, int], asked: Need, jobs: int) -> str:
    more = sum(count * jobs_held(one, asked) for one, count in free.items())
    room = f"the others have room for {more} like {'it' if jobs == 1 else 'these'}"
    return f"lightly used ({counted(jobs, 'job')}), {room}: ends once its last job has ended"
