"""The Celery plugin keeps the contract: by kombu, over a socket, with a broker and workers that are fakes."""

from __future__ import annotations

import re
from functools import partial
from typing import Any, Callable, Iterator, Mapping, Optional

import pytest

from elastiq.conformance.batch import BatchBench, BatchConformance
from elastiq.interfaces import Owner
from elastiq.plugins.batch.celery import Celery
from elastiq.plugins.batch.celery_helper import Helper
from tests.integration.fake_celery import FakeBroker, FakeWorker

OWNER = Owner("test", "0123456789abcdef0123")
QUEUES = {1: "celery", **{cpus: f"of-{cpus}" for cpus in (2, 3, 4, 8, 64)}}
FAULTS = {"fail": "refuse", "garble": "garble", "hang": "hang"}


class CeleryBench(BatchBench):
    # What the worker's name does not say of its address, nobody says.
    odd_hosts = (
        "IP-10-9-0-1.Example.ORG",
        "ip-10-9-0-2.ec2.internal",
        "10-9-0-3",
        "10.9.0.4",
        "10-9-0-5.a.b-c.d",
        f"ip-10-9-0-6.{'x' * 60}",
    )

    def __init__(self, helper: Helper) -> None:
        self.broker, self._helper = FakeBroker(), helper
        values = {option.name: option.default for option in Celery.OPTIONS}
        lines = [f"{name} cpus={cpus}" for cpus, name in QUEUES.items()]
        self.values = {
            **values,
            "broker_url": self.broker.url,
            "broker_transport_options": '{"polling_interval": 0.02}',
            "queues": lines,
            "reply_timeout_s": 1.0,
            "gone_after_s": 0.0,
        }
        self.restart()

    def restart(self) -> None:
        self.batch: Celery = Celery.from_config(self.values, OWNER)
        self.batch.helper.processes = self._helper.processes  # one for all tests: to start it takes half a second

    def submit(
        self,
        count: int = 1,
        cpus: float = 1,
        memory_mb: Optional[float] = None,
        nodes: int = 1,
        user: str = "",
        name: str = "tasks.work",
    ) -> None:
        self.broker.send(QUEUES[int(cpus)], count, name=name)

    def add_worker(self, name: str, address: str, cpus: float = 4, memory_mb: float = 8192) -> str:
        host = name if name in self.odd_hosts else f"ip-{address.replace('.', '-')}"
        self.broker.add_worker(f"{re.sub('[@/]', '', name)}@{host}", address, slots=int(cpus))
        return host.lower()

    def process(self, worker: str) -> FakeWorker:
        (found,) = [one for name, one in self.broker.workers.items() if name.rpartition("@")[2].lower() == worker]
        return found

    def start_job(self, worker: str, cpus: float = 1) -> None:
        self.broker.start(self.process(worker))

    def end_job(self, worker: str) -> None:
        self.broker.end(self.process(worker))

    def lose_worker(self, worker: str) -> None:
        self.broker.kill(self.process(worker))

    def busy_forms(self) -> Mapping[str, Callable[[str], None]]:
        def start(worker: str, state: str, late: bool) -> None:
            self.broker.start(self.process(worker), state, late=late)

        return {
            "acknowledged": partial(start, state="active", late=False),
            "to be acknowledged late": partial(start, state="active", late=True),
            "prefetched": partial(start, state="reserved", late=True),
            "waiting for its time": partial(start, state="scheduled", late=True),
        }

    def strange_forms(self) -> Mapping[str, Callable[[str], None]]:
        def silent(worker: str) -> None:
            self.batch.workers()  # it was known
            self.process(worker).answers = 0

        def twice(worker: str) -> None:
            self.process(worker).answers = 2

        return {"silent": silent, "two of one name": twice}

    def drain_by_hand(self, worker: str) -> None:
        self.process(worker).queues = []

    def holds(self, worker: str) -> bool:
        return any(f"@{worker}." in member.lower() for member in self.broker.names)

    def _fault_next(self, call: str, fault: str) -> None:
        """Until the plugin has asked once: the libraries try again."""
        ask = self.batch.helper.ask

        def ask_in_vain(*args: Any, **more: Any) -> Mapping[str, Any]:
            self.broker.fault, self.batch.helper.ask = FAULTS[fault], ask  # type: ignore[method-assign]
            try:
                return ask(*args, **more)
            finally:
                self.broker.fault = ""

        self.batch.helper.ask = ask_in_vain  # type: ignore[method-assign]

    def fail_next(self, call: str) -> None:
        self._fault_next(call, "fail")

    def garble_next(self, call: str) -> None:
        self._fault_next(call, "garble")

    def hang_next(self, call: str) -> None:
        self.values["command_timeout_s"] = 0.5
        self.restart()
        self._fault_next(call, "hang")

    def refuse_next_drain(self) -> None:
        for worker in self.broker.workers.values():
            worker.refuses = True

    def start_job_in_next_drain(self, worker: str) -> None:
        self.process(worker).at_cancel = self.broker.start


@pytest.fixture(scope="module")
def helper() -> Helper:
    return Helper({option.name: option.default for option in Celery.OPTIONS})


class TestCelery(BatchConformance):
    cannot = {
        "memory": "Celery knows no memory of workers",
        "users": "tasks have no owners",
        "hold": "tasks are not held",
        "depend": "what a chord waits for is not in a queue yet",
        "blocked": "what is in a queue may run",
        "arrays": "each task is one message",
        "array-limit": "each task is one message",
        "nodes": "a task runs on one worker",
        "held-running": "tasks are not held",
        "queues": "a worker is listed once, whatever it consumes",
        "register": "workers make themselves known",
        "match": "a queue's key `pools` says where it is consumed",
        "blank": "Redis's answers are never empty",
        "cut": "Redis's answers tell their length",
        "parts": "there is one broker",
    }

    @pytest.fixture
    def bench(self, helper: Helper) -> Iterator[CeleryBench]:
        bench = CeleryBench(helper)
        yield bench
        bench.broker.close()
