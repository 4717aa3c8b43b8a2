"""The site of benchmarks/soak.py: moto behind a gate with faults, HTCondor's commands over a file, and what
really happens there: machines join, run jobs, crash; and a book of what was done to them."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import random
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Iterable, Iterator, Optional

from tests.ec2_server import EC2Server, Rule, error, moto_reservations
from tests.integration.fake_htcondor import FakePool, read_state, worker, write_state

CORES = 4  # of a machine, and of a job: one job a machine
STEP_S = 0.5
FORGOTTEN_S = 15.0  # after that an ended instance is listed no more
ALIVE = ("pending", "running")

# What may happen to one request of an action, and how it is called in the figures.
_ANY = ("DescribeInstances", "RunInstances", "TerminateInstances")
FAULTS: tuple[tuple[str, tuple[str, ...], Callable[[], Rule]], ...] = (
    ("RequestLimitExceeded", _ANY, lambda: error("RequestLimitExceeded", "Request limit exceeded.", 503)),
    ("InternalError", _ANY, lambda: error("InternalError", "An internal error has occurred.", 500)),
    ("503 of a proxy", _ANY, lambda: Rule("<html>Service Unavailable</html>", 503)),
    ("dropped", _ANY, lambda: Rule(drop=True)),
    ("dropped after its effect", _ANY, lambda: Rule(drop=True, effect=True)),
    ("cut XML after its effect", _ANY, lambda: Rule('<?xml version="1.0"?><Run', 200, effect=True)),
    ("shorter than announced", ("DescribeInstances",), lambda: Rule("<x/>", 200, cut=500)),
    ("login page", _ANY, lambda: Rule("<html>Please log in</html>", 200)),
    ("late", _ANY, lambda: Rule(passes=True, delay_s=4.0)),
    ("too late", _ANY, lambda: Rule(passes=True, delay_s=25.0)),
    ("no capacity", ("RunInstances",), lambda: error("InsufficientInstanceCapacity", "Insufficient capacity.", 500)),
    ("fewer than asked for", ("RunInstances",), lambda: Rule(passes=True, limit=1)),
)
CONDOR_KINDS = ("jobs", "workers", "schedds", "drain", "undrain", "jobs_recorded_on")
CONDOR_FAULTS = (
    *((kind, what) for kind in CONDOR_KINDS for what in ("fail", "garble", "silent")),
    ("jobs", "fail-with-rows"),
    ("workers", "hang"),
)


@dataclass
class Job:
    length_s: float
    number: int
    worker: str = ""
    ends_at: float = 0.0


@dataclass
class Machine:
    """An instance of ours, as the site knows it."""

    id: str
    intent: str
    joins_at: float  # infinite: never
    worker: str = ""
    ended_at: float = 0.0


class Gate(EC2Server):
    """Shows every request that takes effect to the site, which serializes them."""

    site: Optional[Site] = None

    def _moto(
        self, environ: dict[str, Any], parameters: dict[str, str], rule: Rule, start: Callable[..., Any]
    ) -> Iterable[bytes]:
        if self.site is None:
            return super()._moto(environ, parameters, rule, start)
        with self.site.lock:
            self.site.before(parameters)
            answer = super()._moto(environ, parameters, rule, start)
            self.site.after()
            if parameters.get("Action") in ("RunInstances", "TerminateInstances") and self.site.at_effect is not None:
                at_effect, self.site.at_effect = self.site.at_effect, None
                at_effect()
            return answer


class Site:
    """All that is outside of the daemon. ``violations`` says what must never happen and did."""

    def __init__(self, folder: Path, cluster: str, most: int, seed: int) -> None:
        from moto.moto_server.werkzeug_app import create_backend_app

        self.pool, self.cluster, self.most, self.rng = FakePool(folder), cluster, most, random.Random(seed)
        self.lock = threading.RLock()
        self.gate = Gate(create_backend_app("ec2"))
        self.foreign: frozenset[str] = frozenset()
        self.machines: dict[str, Machine] = {}  # ours that are listed
        self.by_intent: Counter[str] = Counter()
        self.ended, self.crashed, self.peak, self.done = 0, 0, 0, 0
        self.faults: Counter[str] = Counter()
        self.violations: list[str] = []
        self.wanted = 0  # jobs that should wait or run
        self.at_effect: Optional[Callable[[], None]] = None  # once, before a launch or an end is answered
        self.jobs: list[Job] = []
        self._numbers = itertools.count(1)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._live, daemon=True)

    def open(self) -> None:
        """Instances that are none of ours run there before the daemon begins."""
        import boto3

        client = boto3.client(
            "ec2", endpoint_url=self.gate.url, region_name="us-east-1", aws_access_key_id="A", aws_secret_access_key="S"
        )
        tags = [{"Key": "elastiq:cluster", "Value": self.cluster}, {"Key": "elastiq:head", "Value": "another"}]
        spec = [{"ResourceType": "instance", "Tags": tags}]
        client.run_instances(ImageId="ami-12c6146b", MinCount=5, MaxCount=5)
        client.run_instances(ImageId="ami-12c6146b", MinCount=3, MaxCount=3, TagSpecifications=spec)
        self.foreign = frozenset(self._alive())
        self.gate.forget()
        self.gate.site = self
        self._thread.start()

    def close(self) -> None:
        self._closed.set()
        self._thread.join(30)
        self.gate.close()

    # ------------------------------------------------------------------ the cloud

    def _instances(self) -> Iterator[Any]:
        for reservations in moto_reservations():
            for reservation in list(reservations.values()):
                yield from reservation.instances

    def _alive(self) -> dict[str, Any]:
        return {one.id: one for one in self._instances() if one._state.name in ALIVE}

    def ours_alive(self) -> int:
        with self.lock:
            return len(self._alive().keys() - self.foreign)

    def before(self, parameters: dict[str, str]) -> None:
        """A request is about to take effect: what runs there at this moment?"""
        if parameters.get("Action") != "TerminateInstances":
            return
        for key, name in parameters.items():
            machine = self.machines.get(name)
            busy = machine is not None and any(job.worker == machine.worker for job in self.jobs if job.worker)
            if key.startswith("InstanceId") and name in self.foreign:
                self.violations.append(f"{name} is not ours, and its end was asked for")
            if key.startswith("InstanceId") and busy and machine is not None and not machine.ended_at:
                self.violations.append(f"{name} ({machine.worker}) was ended while a job ran there")

    def after(self) -> None:
        """A request took effect: take up what is new."""
        alive = self._alive()
        for name in alive.keys() - self.foreign - self.machines.keys():
            tags = {tag["key"]: tag["value"] for tag in alive[name].get_tags()}
            intent = tags.get("elastiq:intent", "")
            joins_s = self.rng.uniform(1.0, 5.0) if self.rng.random() < 0.98 else float("inf")
            self.machines[name] = Machine(name, intent, time.monotonic() + joins_s)
            self.by_intent[intent] += 1
        for machine in self.machines.values():
            if machine.id not in alive and not machine.ended_at:
                machine.ended_at = time.monotonic()
                self.ended += 1
        self.peak = max(self.peak, len(alive) - len(self.foreign))
        if len(alive) - len(self.foreign) > self.most:
            self.violations.append(f"{len(alive) - len(self.foreign)} machines, {self.most} are allowed")

    def _forget(self) -> None:
        """Drop what ended a while ago from the listings."""
        old = {m.id for m in self.machines.values() if m.ended_at and m.ended_at < time.monotonic() - FORGOTTEN_S}
        for reservations in moto_reservations() if old else ():
            for key, reservation in list(reservations.items()):
                reservation.instances = [one for one in reservation.instances if one.id not in old]
                if not reservation.instances:
                    del reservations[key]
        for name in old:
            del self.machines[name]

    # ------------------------------------------------------------------ the batch system

    def _live(self) -> None:
        while not self._closed.wait(STEP_S):
            with self.lock, self._pool_state() as state:
                self.after()
                self._forget()
                self._machines(state["workers"])
                self._run_jobs(state["workers"], time.monotonic())
                state["jobs"] = [self._ad(job) for job in self.jobs]

    @contextlib.contextmanager
    def _pool_state(self) -> Iterator[dict[str, Any]]:
        """The file of the fake commands, which change it too."""
        with open(self.pool.folder / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            state = read_state(self.pool.folder)
            yield state
            write_state(self.pool.folder, state)

    def _machines(self, workers: dict[str, Any]) -> None:
        """Machines join the pool; the workers of those that ended are gone, with what they ran."""
        now, alive = time.monotonic(), self._alive()
        for machine in self.machines.values():
            if machine.ended_at:
                workers.pop(machine.worker, None)
                for job in self.jobs:
                    if machine.worker and job.worker == machine.worker:
                        job.worker = ""
            elif not machine.worker and machine.joins_at <= now and alive[machine.id]._state.name == "running":
                machine.worker = f"{machine.id}.example.org"
                workers[machine.worker] = worker(machine.worker, alive[machine.id].private_ip, CORES, 8192)

    def _run_jobs(self, workers: dict[str, Any], now: float) -> None:
        for job in [job for job in self.jobs if job.worker and job.ends_at <= now]:
            workers[job.worker]["slots"] = []
            self.jobs.remove(job)
            self.done += 1
        waiting = [job for job in self.jobs if not job.worker]
        for job in waiting[: max(0, len(self.jobs) - self.wanted)]:
            self.jobs.remove(job)
        while len(self.jobs) < self.wanted:
            self.jobs.append(Job(self.rng.uniform(3.0, 25.0), next(self._numbers)))
        free = [(name, w) for name, w in workers.items() if not w["slots"] and w["drain"] is None]
        for job, (name, its) in zip([job for job in self.jobs if not job.worker], free):
            job.worker, job.ends_at = name, now + job.length_s
            its["slots"], its["starts"] = [CORES], its["starts"] + 1

    def _ad(self, job: Job) -> dict[str, Any]:
        ad = {"JobStatus": 2 if job.worker else 1, "JobUniverse": 5, "RequestCpus": CORES, "RequestMemory": 1000}
        ad |= {"ClusterId": job.number, "ProcId": 0}
        host = f"slot1_1@{job.worker}" if job.worker else ""
        return {"schedd": "head", "owner": "somebody", "host": host, "ad": ad}

    # ------------------------------------------------------------------ faults

    def fault(self) -> None:
        """Let something go wrong: one call of the API or of a command, or a machine."""
        kind = self.rng.random()
        if kind < 0.6:
            name, actions, made = self.rng.choice(FAULTS)
            action = self.rng.choice(actions)
            self.gate.script(action, made())
            self.faults[f"{action}: {name}"] += 1
        elif kind < 0.9:
            command, what = self.rng.choice(CONDOR_FAULTS)
            self.pool.once(command, what)
            self.faults[f"condor {command}: {what}"] += 1
        else:
            with self.lock:
                running = [m for m in self.machines.values() if m.worker and not m.ended_at]
                alive = self._alive()
                if running and (chosen := self.rng.choice(running)).id in alive:
                    alive[chosen.id].terminate()
                    self.crashed += 1
                    self.faults["a machine died by itself"] += 1

    def stop_faults(self) -> None:
        self.gate._rules.clear()
        for order in self.pool.folder.glob("next-*"):
            order.unlink(missing_ok=True)

    # ------------------------------------------------------------------ the books

    def judged(self) -> list[str]:
        """All that went wrong, now that it is over."""
        found = list(self.violations)
        sent = self.gate.asked("RunInstances")
        tokens = Counter(one.get("ClientToken", "") for one in sent)
        found += [f"ClientToken {token!r} was sent {count} times" for token, count in tokens.items() if count > 1]
        asked = {one.get("ClientToken", ""): int(one["MaxCount"]) for one in sent}
        for intent, count in self.by_intent.items():
            allowed = next((most for token, most in asked.items() if intent and token.endswith(intent)), 0)
            if count > allowed:
                found.append(f"intent {intent!r} has {count} instances, {allowed} were asked for")
        lost = self.foreign - self._alive().keys()
        found += [f"{name} is not ours, and is gone" for name in sorted(lost)]
        return found
