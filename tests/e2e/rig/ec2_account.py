"""The account's instances: moto's EC2, with the parts that moto leaves out.

moto by itself ignores ClientToken and MaxCount, is `running` at the first look and `terminated` at
once, gives addresses from anywhere, and shows a new instance to every reader immediately.
"""

from __future__ import annotations

import base64
import itertools
import os
import time
from dataclasses import dataclass, field
from typing import Any, Callable, Iterator, Optional

os.environ.setdefault("MOTO_EC2_LOAD_DEFAULT_AMIS", "true")

import moto.ec2.models.instances as moto_instances
import moto.ec2.utils as moto_utils
from moto.ec2.models import EC2Backend, ec2_backends
from moto.ec2.models.instance_types import INSTANCE_TYPES

from tests.e2e.rig import places
from tests.e2e.rig.condor_config import WorkerOptions
from tests.e2e.rig.ec2_image import IMAGE

_CODES = {"pending": 0, "running": 16, "error": 0, "shutting-down": 32, "terminated": 48, "stopping": 64, "stopped": 80}


@dataclass
class Behaviour:
    """How the cloud behaves from now on; what concerns a machine is fixed when it is launched."""

    boot_s: float = 0.5  # pending for so long
    shutdown_s: float = 0.3  # shutting-down for so long
    hide_s: float = 0.0  # not in any listing for so long
    capacity: int = 1000  # instances that are pending or running
    join: bool = True  # whether the image starts a worker at all
    published: str = "own"  # the instance id in the worker's ad: "own", "none", or the text itself
    foreign_address: bool = False  # the worker has another address than the cloud says
    silent_end: bool = False  # the worker dies without a word to the pool
    retirement_s: int = 0  # MAXJOBRETIREMENTTIME of the worker


@dataclass
class Machine:
    """What stands behind an instance."""

    behaviour: Behaviour
    user_data: str = ""
    launched_at: float = field(default_factory=time.monotonic)
    worker: Optional[str] = None  # the worker's address, once it was started
    ending_since: Optional[float] = None
    ended: bool = False


class Account:
    """All instances. The caller holds the server's lock."""

    def __init__(self, endpoint: places.Endpoint) -> None:
        self.endpoint = endpoint
        self.behaviour = Behaviour()
        self.machines: dict[str, Machine] = {}
        first = endpoint.first_net
        self._addresses: Iterator[str] = (f"172.31.{first + n // 250}.{2 + n % 250}" for n in itertools.count())
        self._patch_moto()

    def instances(self) -> list[Any]:
        """moto's instances, hidden ones included."""
        return [instance for reservation in self._backend().reservations.values() for instance in reservation.instances]

    def set_state(self, instance: Any, name: str) -> None:
        instance._state.name, instance._state.code = name, _CODES[name]

    def room(self) -> int:
        """How many more instances the cloud has capacity for."""
        return self.behaviour.capacity - sum(instance.state in ("pending", "running") for instance in self.instances())

    def launched(self, ids: list[str], user_data: str = "") -> None:
        """Give new instances a machine; they are pending from now. ``user_data`` is in base64."""
        for instance in self.instances():
            if instance.id in ids:
                self.set_state(instance, "pending")
                said = base64.b64decode(user_data).decode()
                self.machines[instance.id] = Machine(Behaviour(**vars(self.behaviour)), said)

    def terminating(self, ids: list[str]) -> None:
        """moto has ended them at once; a cloud takes a while."""
        for instance in self.instances():
            machine = self.machines.get(instance.id)
            if instance.id in ids and machine is not None and not machine.ended:
                self.set_state(instance, "shutting-down")

    def make(self, tags: dict[str, str], address: Optional[str], worker: bool, token: str) -> str:
        """An instance that somebody else launched."""
        reservation = self._backend().run_instances(
            IMAGE, 1, None, [], tags={"instance": tags}, instance_type="c5.xlarge", client_token=token,
            is_instance_type_default=False, region_name=self.endpoint.region, private_ip=address,
        )  # fmt: skip
        instance = reservation.instances[0]
        self.launched([instance.id])
        self.machines[instance.id].behaviour.join = worker
        return str(instance.id)

    def forget_all(self) -> None:
        """As on the first day, but addresses are never given twice."""
        self._backend().reservations.clear()
        self.machines.clear()
        self.behaviour = Behaviour()

    def next_address(self) -> str:
        return next(self._addresses)

    def worker_options(self, instance: Any) -> WorkerOptions:
        """What its image makes of it: a worker of its flavour's size, and of what its user data says."""
        machine = self.machines[instance.id]
        behaviour = machine.behaviour
        flavour = INSTANCE_TYPES[instance.instance_type]
        return WorkerOptions(
            published_id={"own": instance.id, "none": ""}.get(behaviour.published, behaviour.published),
            cpus=flavour["VCpuInfo"]["DefaultVCpus"],
            memory_mb=flavour["MemoryInfo"]["SizeInMiB"],
            gpus=sum(gpu["Count"] for gpu in flavour.get("GpuInfo", {}).get("Gpus", ())),
            retirement_s=behaviour.retirement_s,
            user_data=machine.user_data,
        )

    def _backend(self) -> Any:
        return ec2_backends["123456789012"][self.endpoint.region]

    def _patch_moto(self) -> None:
        listing: Callable[..., list[Any]] = moto_instances.InstanceBackend.all_reservations

        def visible(backend: Any, filters: Any = None) -> list[Any]:
            shown = []
            for reservation in listing(backend, filters):
                reservation.instances = [
                    instance for instance in reservation.instances if not self._hidden(instance.id)
                ]
                if reservation.instances:
                    shown.append(reservation)
            return shown

        backend: Any = EC2Backend
        backend.all_reservations = visible
        instances: Any = moto_instances
        instances.random_private_ip = lambda *_args, **_options: self.next_address()
        moto_utils.filter_dict_attribute_mapping["client-token"] = "client_token"

    def _hidden(self, instance_id: str) -> bool:
        machine = self.machines.get(instance_id)
        return machine is not None and time.monotonic() - machine.launched_at < machine.behaviour.hide_s
