"""What a hypervisor does: instances change their states, machines boot and end."""

from __future__ import annotations

import sys
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Optional, Protocol

from tests.e2e.rig.condor_config import WorkerOptions
from tests.e2e.rig.ec2_account import Account, Machine

TICK_S = 0.05


class Workers(Protocol):
    """What instances become."""

    def boot(self, address: str, options: WorkerOptions) -> None: ...

    def halt(self, address: str, silently: bool) -> None:
        """End one, if it is there. ``silently``: as when a host dies; else orderly."""

    def addresses(self) -> list[str]:
        """Of all that are there, of whatever endpoint."""


class Hypervisor:
    """Walks over all instances every tick, on a thread of its own; workers start and stop on others."""

    def __init__(self, account: Account, lock: threading.RLock, workers: Workers) -> None:
        self._account, self._lock, self._kind = account, lock, workers
        self._workers = ThreadPoolExecutor(4)
        self._locks: dict[str, threading.Lock] = {}
        threading.Thread(target=self._loop, daemon=True, name="hypervisor").start()

    def _loop(self) -> None:
        while True:
            with self._lock:
                for instance in self._account.instances():
                    machine = self._account.machines.get(instance.id)
                    if machine is not None:
                        self._advance(instance, machine)
            time.sleep(TICK_S)

    def _advance(self, instance: Any, machine: Machine) -> None:
        now = time.monotonic()
        behaviour = machine.behaviour
        if instance.state == "pending" and now - machine.launched_at >= behaviour.boot_s:
            self._account.set_state(instance, "running")
            if behaviour.join:
                own = instance.private_ip_address
                machine.worker = self._account.next_address() if behaviour.foreign_address else own
                options = self._account.worker_options(instance)
                self._submit(machine.worker, lambda address: self._kind.boot(address, options))
        elif instance.state in ("shutting-down", "terminated") and not machine.ended:
            if machine.ending_since is None:
                machine.ending_since = now
                self._end_worker(machine)
            if now - machine.ending_since >= behaviour.shutdown_s:
                self._account.set_state(instance, "terminated")
                machine.ended = True

    def _end_worker(self, machine: Machine) -> None:
        if machine.worker is not None:
            silently = machine.behaviour.silent_end
            self._submit(machine.worker, lambda address: self._kind.halt(address, silently))

    def _submit(self, address: Optional[str], act: Callable[[str], None]) -> None:
        if address is not None:
            self._workers.submit(self._do, address, self._locks.setdefault(address, threading.Lock()), act)

    @staticmethod
    def _do(address: str, one_at_a_time: threading.Lock, act: Callable[[str], None]) -> None:
        try:
            with one_at_a_time:
                act(address)
        except Exception:  # noqa: BLE001  (the pool's future, which nobody reads, would swallow it)
            print(f"worker {address}:", file=sys.stderr)
            traceback.print_exc()

    def end_all(self) -> None:
        """End every worker of this endpoint, orderly, and wait for it. The caller does not hold the lock."""
        self._workers.shutdown(wait=True)
        with ThreadPoolExecutor(8) as pool:
            ours = filter(self._account.endpoint.holds, self._kind.addresses())
            list(pool.map(lambda address: self._kind.halt(address, False), ours))
        self._workers = ThreadPoolExecutor(4)
