#!/usr/bin/env python3
"""COBalD/TARDIS itself in simulated time: what its drones do for a burst of jobs. Needs the package cobald-tardis.

    PYTHON-WITH-TARDIS benchmarks/_tardis.py JOBS HOURS     prints a JSON object, as benchmarks/burst.py wants it

TARDIS's own code decides and acts: its pool factory, the FactoryPool, the drones and their states, the fake site and
the LinearController run unchanged, on an asyncio loop whose clock jumps to the next timer. What is ours is the batch
system: a worker joins when its machine has booted, jobs run oldest first on the first free core, and a machine is
paid from the request to deploy it to the request to stop it. The configuration is the example of TARDIS's
documentation (LinearController 0.90, 0.90, rate 1; Limiter minimum 1), with a quota of 20 machines.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import selectors
import sys
import types
from collections import deque
from datetime import datetime, timedelta
from typing import Any, Optional

CORES, MACHINES, BOOT_S, JOB_S = 8, 20, 120.0, 1800.0
CALL_S = 0.5
BEGIN = datetime(2026, 1, 1)


class Jumping(selectors.SelectSelector):
    """Waits for nothing: time passes instead."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    def select(self, timeout: Optional[float] = None) -> Any:
        self.now_s += timeout or 0.0
        return []


class Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now_s


class Clock(datetime):
    """`datetime.now()` of the loop that runs."""

    @classmethod
    def now(cls, tz: Any = None) -> datetime:
        return BEGIN + timedelta(seconds=asyncio.get_event_loop().time())


class Cluster:
    """Workers, jobs, and what is paid."""

    def __init__(self, jobs: int) -> None:
        self.queue: deque[int] = deque()
        self.jobs = jobs
        self.busy: dict[str, int] = {}  # cores of each worker that has joined
        self.drained: set[str] = set()
        self.launched: dict[str, float] = {}
        self.ended: dict[str, float] = {}
        self.waits: list[float] = []
        self.done = 0
        self.peak = 0

    def submit(self) -> None:
        self._submitted = now()
        self.queue.extend(range(self.jobs))
        self.match()

    def join(self, drone: str) -> None:
        if drone not in self.ended:
            self.busy[drone] = 0
            self.match()

    def match(self) -> None:
        for drone in self.busy:
            while self.queue and self.busy[drone] < CORES and drone not in self.drained and drone not in self.ended:
                self.queue.popleft()
                self.busy[drone] += 1
                self.waits.append(now() - self._submitted)
                asyncio.get_event_loop().call_later(JOB_S, self._end, drone)

    def _end(self, drone: str) -> None:
        assert drone not in self.ended, "a machine was stopped under a job"
        self.busy[drone] -= 1
        self.done += 1
        self.match()

    def launch(self, drone: str) -> None:
        self.launched[drone] = now()
        self.peak = max(self.peak, len(self.launched) - len(self.ended))
        asyncio.get_event_loop().call_later(BOOT_S, self.join, drone)


def now() -> float:
    return asyncio.get_event_loop().time()


def install(cluster: Cluster) -> Any:
    """TARDIS's pool, on that cluster."""
    status = importlib.import_module("tardis.interfaces.batchsystemadapter").MachineStatus
    refused = importlib.import_module("tardis.exceptions.tardisexceptions").TardisQuotaExceeded
    fake_batch = importlib.import_module("tardis.adapters.batchsystems.fakebatchsystem")
    fake_site = importlib.import_module("tardis.adapters.sites.fakesite")

    class Batch(fake_batch.FakeBatchSystemAdapter):  # type: ignore[misc, name-defined]
        async def drain_machine(self, drone_uuid: str) -> None:
            cluster.drained.add(drone_uuid)

        async def get_allocation(self, drone_uuid: str) -> float:
            return cluster.busy.get(drone_uuid, 0) / CORES

        get_utilisation = get_allocation  # of one resource, both are the same

        async def get_machine_status(self, drone_uuid: str) -> Any:
            if drone_uuid not in cluster.busy:
                return status.NotAvailable
            if drone_uuid not in cluster.drained:
                return status.Available
            return status.Draining if cluster.busy[drone_uuid] else status.Drained

    class Site(fake_site.FakeSiteAdapter):  # type: ignore[misc, name-defined]
        async def deploy_resource(self, resource_attributes: Any) -> Any:
            if len(cluster.launched) - len(cluster.ended) >= MACHINES:
                raise refused("the site's quota")
            cluster.launch(resource_attributes.drone_uuid)
            return await super().deploy_resource(resource_attributes)

        def handle_exceptions(self) -> Any:
            return contextlib.nullcontext()  # the fake's own hides which error it was

        async def stop_resource(self, resource_attributes: Any) -> None:
            cluster.ended.setdefault(resource_attributes.drone_uuid, now())
            await super().stop_resource(resource_attributes)

        async def terminate_resource(self, resource_attributes: Any) -> None:
            cluster.ended.setdefault(resource_attributes.drone_uuid, now())
            await super().terminate_resource(resource_attributes)

    fake_batch.FakeBatchSystemAdapter, fake_site.FakeSiteAdapter = Batch, Site
    for name in ("adapters.sites.fakesite", "resources.drone", "resources.dronestates"):
        importlib.import_module(f"tardis.{name}").datetime = Clock  # type: ignore[attr-defined]
    asynchronous = types.SimpleNamespace(sleep=asyncio.sleep)  # its services wait by trio, whose clock is another
    for name in ("composite.factory", "controller.linear"):
        importlib.import_module(f"cobald.{name}").trio = asynchronous  # type: ignore[attr-defined]

    constant = types.SimpleNamespace
    configuration = {
        "BatchSystem": {
            "adapter": "FakeBatchSystem",
            "allocation": 0.0,
            "utilisation": 0.0,
            "machine_status": "Available",
        },
        "Sites": [{"name": "fake", "adapter": "FakeSite", "quota": MACHINES * CORES}],
        "fake": {
            "api_response_delay": constant(get_value=lambda: CALL_S),
            "resource_boot_time": constant(get_value=lambda: BOOT_S),
            "MachineTypes": ["m8"],
            "MachineMetaData": {"m8": {"Cores": CORES, "Memory": 16, "Disk": 100}},
            "MachineTypeConfiguration": {"m8": {}},
        },
    }
    return importlib.import_module("tardis.resources.poolfactory").create_composite_pool(configuration)


async def play(cluster: Cluster, hours: float) -> None:
    """Its services are started as COBalD starts them: each once, when it is there."""
    units = importlib.import_module("cobald.daemon.runners.service").ServiceUnit
    pool = install(cluster)
    limiter = importlib.import_module("cobald.decorator.limiter").Limiter(pool, minimum=1)
    controller = importlib.import_module("cobald.controller.linear").LinearController(
        limiter, low_utilisation=0.90, high_allocation=0.90, rate=1
    )
    asyncio.get_event_loop().call_later(0.0, cluster.submit)
    tasks: list[Any] = []
    while now() < hours * 3600.0:
        for unit in units.units():
            service = unit.service()
            if not unit.running and service is not None:
                unit._started = True
                tasks.append(asyncio.ensure_future(service.run()))
        await asyncio.sleep(0.5)
        for task in [task for task in tasks if task.done()]:
            task.result()  # raises what went wrong
            tasks.remove(task)
    del controller
    for task in tasks:
        task.cancel()


def main() -> None:
    jobs, hours = int(sys.argv[1]), float(sys.argv[2])
    loop, cluster = Loop(), Cluster(jobs)
    asyncio.set_event_loop(loop)
    loop.run_until_complete(play(cluster, hours))
    end_s = loop.time()
    spans = [cluster.ended.get(drone, end_s) - began for drone, began in cluster.launched.items()]
    waits = sorted(cluster.waits)
    found = {
        "jobs_done": cluster.done,
        "machine_hours": sum(spans) / 3600.0,
        "mean_wait_s": sum(waits) / len(waits) if waits else None,
        "p95_wait_s": waits[int(0.95 * (len(waits) - 1))] if waits else None,
        "peak_vms": cluster.peak,
        "launches": len(cluster.launched),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
