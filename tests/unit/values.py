"""Short ways to make what the core decides upon; what a test does not name is ordinary."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Iterable, Optional

from elastiq.demand import Trials, WaitingHistory
from elastiq.health import Health
from elastiq.interfaces import (
    Instance,
    Instances,
    InstanceState,
    JobGroup,
    Jobs,
    Pool,
    Resources,
    Worker,
    Workers,
    WorkerState,
)
from elastiq.nodes import Node, Registry, State
from elastiq.settings import Settings
from elastiq.situation import Situation

FOUR = Resources(cpus=4, memory_mb=8000)
ONE = Resources(cpus=1, memory_mb=1000)
NOW = 10_000.0  # monotonic, far from zero and from any wall time
WALL = 1_700_000_000.0
JOINED_STATES = (State.IDLE, State.BUSY, State.DRAINING)


def a_pool(name: str = "ec2", **changed: Any) -> Pool:
    return replace(Pool(name, "aws", ("medium",), capacity=FOUR), **changed)


def some_settings(**changed: Any) -> Settings:
    base = Settings("test", (a_pool(),), waiting_jobs_time_s=0.0, idle_for_time_s=600.0, max_vms=10)
    return replace(base, **changed)


def a_worker(name: str = "w1", state: WorkerState = WorkerState.IDLE, **changed: Any) -> Worker:
    free = Resources(0, 0) if state is WorkerState.BUSY else FOUR
    jobs = 4 if state is WorkerState.BUSY else 0
    base = Worker(name, state, frozenset({f"10.0.0.{name[1:]}"}), total=FOUR, free=free, jobs=jobs)
    return replace(base, **changed)


def an_instance(instance_id: str = "i-1", state: InstanceState = InstanceState.RUNNING, **changed: Any) -> Instance:
    base = Instance(instance_id, state, frozenset({f"10.0.0.{instance_id[2:]}"}), pool="ec2", flavour="medium")
    return replace(base, **changed)


def a_node(state: State = State.IDLE, number: int = 1, **changed: Any) -> Node:
    """A node as it is after the reads that made it so: ``i-<number>``, whose worker is ``w<number>``."""
    base = Node(f"launch.{number}", "ec2", "aws", state, "medium", intent="launch", created_at=WALL)
    if state is not State.REQUESTED:
        base.instance_id, base.addresses = f"i-{number}", frozenset({f"10.0.0.{number}"})
        base.instance = an_instance(f"i-{number}")
    if state in JOINED_STATES:
        busy = state is State.BUSY
        base.seen = a_worker(f"w{number}", WorkerState.BUSY if busy else WorkerState.IDLE)
        base.worker, base.jobs, base.joined_at = base.seen.name, base.seen.jobs, WALL
    elif state is State.LOST:
        base.worker, base.joined_at = f"w{number}", WALL
    return replace(base, **changed)


def a_registry(*nodes: Node) -> Registry:
    registry = Registry()
    for node in nodes:
        registry.add(node)
    return registry


def group(key: str = "g", waiting: int = 1, request: Resources = ONE, **changed: Any) -> JobGroup:
    return replace(JobGroup(key, request, waiting, running=0), **changed)


def listing(*owned: Instance, **changed: Any) -> Instances:
    return replace(Instances(owned), **changed)


def view(*workers: Worker, **changed: Any) -> Workers:
    return replace(Workers(workers, source_up_s=1e6), **changed)


def situation(
    *groups: JobGroup,
    nodes: Iterable[Node] = (),
    waited_s: float = 0.0,
    history: Optional[WaitingHistory] = None,
    registry: Optional[Registry] = None,
    settings: Optional[Settings] = None,
    **changed: Any,
) -> Situation:
    """All sources are known and settled; the groups have waited for ``waited_s``."""
    settings = settings or some_settings()
    jobs = Jobs(groups)
    if history is None:
        history = WaitingHistory(settings.waiting_jobs_time_s)
        history.observe(NOW - waited_s, jobs)
        history.observe(NOW, jobs)
    base = Situation(
        now=NOW,
        settings=settings,
        registry=a_registry(*nodes) if registry is None else registry,
        jobs=jobs,
        history=history,
        trials=Trials(),
        health=Health(),
        sites=frozenset({"aws"}),
        settled=True,
        workers_began=NOW,
        wall=WALL,
    )
    return replace(base, **changed)


def state_of(node: Node) -> State:
    """Its state now; a type checker takes the attribute itself for what it was in the assertion before."""
    return node.state
