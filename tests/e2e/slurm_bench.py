"""The situations of the conformance suite, made in a real Slurm."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, Optional, Sequence

from elastiq.conformance.bench import ODD_NAMES, BatchBench
from elastiq.interfaces import Instance, Owner
from elastiq.plugins.batch.slurm import Slurm
from tests.e2e.cluster import wait_for
from tests.e2e.rig import hosts, slurm
from tests.e2e.rig.places import HUB_IP
from tests.e2e.rig.process import run

OWNER = Owner("rig", "0123456789abcdef0123")
# Of nodes that never are: what waits for machines waits there, whatever workers there are.
MORE = """\
NodeName=never[1-8] NodeAddr=192.0.2.1 CPUs=128 RealMemory=500000 Feature=never State=FUTURE
PartitionName=waiting Nodes=never[1-8] MaxTime=INFINITE State=UP
PartitionName=closed Nodes=never[1-8] MaxTime=INFINITE State=DOWN
PartitionName=brief Nodes=never[1-8] MaxTime=1 State=UP
PartitionName=second Nodes=never[1-8] MaxTime=INFINITE State=UP
"""
AWAY = "/etc/slurm/away.conf"
_PATIENCE_S = 60


class RealSlurm(BatchBench):
    """One test's."""

    worker_ad = ("Partitions = waiting",)
    odd_names = ODD_NAMES
    odd_hosts = ("UPPER.Example.ORG", "ip-10-9-0-2.ec2.internal", "n-3")

    def __init__(self, rig: slurm.Slurm, powerless: Path) -> None:
        """``powerless``: a folder with Slurm's commands as a user calls them who may not drain."""
        self._rig, self._powerless = rig, powerless
        self._hosts: dict[str, hosts.Host] = {}  # by the worker's name
        self._values: dict[str, Any] = {option.name: option.default for option in Slurm.OPTIONS}
        self._values.update(command_folder=str(rig.tools), predeclared_nodes=(slurm.PREDECLARED,))
        rig.reset()
        self.restart()

    def close(self) -> None:
        for host in self._hosts.values():
            host.kill()

    def restart(self) -> None:
        self.batch = self._slurm = Slurm.from_config(self._values, OWNER)
        undrain = self._slurm.undrain

        def until_it_responds(worker: str) -> None:
            """slurmctld takes a node that is resumed for one that does not answer, until it has asked it."""
            undrain(worker)
            node = self._node(worker)
            responds = lambda: "NOT_RESPONDING" not in self._rig.nodes().get(node, {}).get("State", "")  # noqa: E731
            wait_for(responds, _PATIENCE_S, f"{node} responds", 0.1)

        setattr(self._slurm, "undrain", until_it_responds)  # noqa: B010

    # ------------------------------------------------------------- the queue

    def submit(
        self, count: int = 1, cpus: float = 1, memory_mb: Optional[float] = None, nodes: int = 1, user: str = "",
        name: str = "",
    ) -> None:  # fmt: skip
        options = [f"--nodes={nodes}", f"--ntasks={nodes}"] if nodes > 1 else []
        options += [f"--mem={memory_mb:.0f}"] if memory_mb else []
        options += [f"--job-name={name}"] if name else []
        self._submit(count, cpus, options, user=user)

    def _submit(
        self, count: int, cpus: float, options: Sequence[str], partition: str = "waiting", user: str = ""
    ) -> str:
        """More than one as an array: so many jobs all the same."""
        words = [f"--partition={partition}", f"--cpus-per-task={cpus:g}", *options]
        words += [f"--array=1-{count}"] if count > 1 and not any("--array" in option for option in options) else []
        if user and self._rig.head.ask("id", user).returncode:
            self._rig.head.run("useradd", "--create-home", user)
        job = self._rig.submit(1000, *words, user=user or "jobuser")
        self._wait_for_reason(job)
        return job

    def _wait_for_reason(self, job: str) -> None:
        """Slurm finds out why a job waits a little later than the job is there."""

        def looked_at() -> bool:
            rows = self._rig.ask("squeue", "--noheader", "--jobs", job, "--format=%T %r").splitlines()
            return all(row != "PENDING None" for row in rows)

        wait_for(looked_at, _PATIENCE_S, f"a reason of job {job}", 0.1)

    def start_job(self, worker: str, cpus: float = 1) -> None:
        self._start(1, cpus, [f"--nodelist={self._node(worker)}"])

    def _start(self, count: int, cpus: float, options: Sequence[str]) -> str:
        predeclared = any("=big" in option for option in options)
        job = self._submit(count, cpus, options, "big" if predeclared else "main")
        running = ("squeue", "--noheader", "--jobs", job, "--states=RUNNING")
        wait_for(lambda: self._rig.ask(*running).strip(), _PATIENCE_S, f"job {job} runs", 0.1)
        return job

    def end_job(self, worker: str) -> None:
        job = self._running_on(worker)[0]
        self._rig.ask("scancel", job)
        wait_for(lambda: job not in self._running_on(worker), _PATIENCE_S, f"job {job} is over", 0.1)

    def _running_on(self, worker: str) -> list[str]:
        return self._rig.ask("squeue", "--noheader", "--nodelist", self._node(worker), "--format=%A").split()

    def hold(self, count: int = 1, cpus: float = 1) -> None:
        self._submit(count, cpus, ["--hold"])

    def depend(self, count: int = 1, cpus: float = 1) -> None:
        self._submit(count, cpus, [f"--dependency=afterok:{self._submit(1, 1, ['--hold'])}"])

    def blocked_forms(self) -> Mapping[str, Callable[[int], None]]:
        def form(partition: str, reason: str, *options: str) -> Callable[[int], None]:
            return lambda count: self._blocked(count, partition, reason, options)

        return {
            "a time to come": form("waiting", "BeginTime", "--begin=now+1hour"),
            "a partition that is down": form("closed", "PartitionDown"),
            "a time limit beyond the partition's": form("brief", "PartitionTimeLimit", "--time=100"),
        }

    def _blocked(self, count: int, partition: str, reason: str, options: Sequence[str]) -> None:
        """With the reason that the scheduler finds when it comes round."""
        job = self._submit(count, 1, options, partition)
        asked = ("squeue", "--noheader", "--jobs", job, "--format=%r")
        wait_for(lambda: {*self._rig.ask(*asked).split()} == {reason}, _PATIENCE_S, f"{job} waits for {reason}", 0.1)

    def submit_array(self, count: int, limit: Optional[int] = None, cpus: float = 1, on: Sequence[str] = ()) -> None:
        assert not on, "which tasks run cannot be chosen"
        self._submit(count, cpus, [f"--array=1-{count}" + (f"%{limit}" if limit else "")])

    def start_across(self, workers: Sequence[str], cpus: float = 1) -> None:
        names = ",".join(self._node(worker) for worker in workers)
        self._start(1, cpus, [f"--nodelist={names}", f"--nodes={len(workers)}", f"--ntasks={len(workers)}"])

    # ------------------------------------------------------------- the workers

    def add_worker(self, name: str, address: str, cpus: float = 4, memory_mb: float = 8192) -> str:
        words = ["-Z", "-N", name, "--conf", f"CPUs={cpus:g} RealMemory={memory_mb:.0f} Feature=cloud"]
        return self._boot(name, address, words)

    def _boot(self, node: str, address: str, words: Sequence[str]) -> str:
        """A host at that address, which finds the head's network and is found by it."""
        head = self._rig.head
        host = hosts.Host(self._rig.root, node, address, beside=head, names=f"{head.address} {head.name}\n")
        self._hosts[node.lower()] = host
        host.start()
        run(host.in_its_network(["ip", "route", "add", f"{HUB_IP}/32", "dev", "eth0"]))
        slurm.prepare(host, head.path("/etc/munge/munge.key").read_bytes())
        host.start_program(["slurmd", "-D", "--conf-server", f"{HUB_IP}:6817", *words], "/var/log/slurmd.out")
        wait_for(
            lambda: "IDLE" in self._rig.nodes().get(node, {}).get("State", ""), _PATIENCE_S, f"{node} registers", 0.1
        )
        return node.lower()

    def _node(self, worker: str) -> str:
        return next((name for name in self._rig.nodes() if name.lower() == worker), worker)

    def lose_worker(self, worker: str) -> None:
        """What slurmctld notices after SlurmdTimeout, it is told."""
        self._hosts.pop(worker).kill()
        self._rig.ask("scontrol", "update", f"nodename={self._node(worker)}", "state=down", "reason=died")
        self._rig.ask("scontrol", "update", f"nodename={self._node(worker)}", "state=noresp")

    def busy_forms(self) -> Mapping[str, Callable[[str], None]]:
        def suspended(worker: str) -> None:
            self._rig.ask("scontrol", "suspend", self._start(1, 1, [f"--nodelist={self._node(worker)}"]))

        return {"a running job": self.start_job, "a suspended job": suspended}

    def strange_forms(self) -> Mapping[str, Callable[[str], None]]:
        def form(state: str) -> Callable[[str], None]:
            words = ("scontrol", "update", f"state={state}", "reason=by hand")
            return lambda worker: self._change(*words, f"nodename={self._node(worker)}")

        return {"down by hand": form("down"), "failing": form("fail"), "not answering": form("noresp")}

    def _change(self, *words: str) -> None:
        self._rig.ask(*words)

    def list_twice(self, worker: str) -> None:
        self._change("scontrol", "update", "partitionname=second", f"nodes={self._node(worker)}")

    def drain_by_hand(self, worker: str) -> None:
        self._change("scontrol", "update", f"nodename={self._node(worker)}", "state=drain", "reason=its disk")

    # ------------------------------------------------------------- machines that are made known, and forgotten

    def knows(self, instance: Instance) -> bool:
        return any(f" {instance.id}" in self._rig.ask("scontrol", "show", "node", name) for name in self._rig.nodes())

    def join(self, instance: Instance) -> str:
        (address,) = instance.addresses
        node = next(name for name, said in self._rig.nodes().items() if said["NodeAddr"] == address)
        return self._boot(node, address, ["-N", node])

    def holds(self, worker: str) -> bool:
        said = self._rig.nodes().get(self._node(worker))
        return said is not None and "no machine" not in self._rig.ask("scontrol", "show", "node", self._node(worker))

    # ------------------------------------------------------------- what goes wrong

    def fail_next(self, call: str) -> None:
        """Slurm's commands find no slurmctld where they look for it, and give up soon."""
        self._with_other_next(call, {"slurm_conf": AWAY})

    def _with_other_next(self, call: str, values: Mapping[str, Any]) -> None:
        """Let the next call be made with other values of the configuration."""

        @contextlib.contextmanager
        def changed() -> Iterator[None]:
            source = self._slurm.source
            tools, source.tools = source.tools, Slurm.from_config({**self._values, **values}, OWNER).source.tools
            try:
                yield
            finally:
                source.tools = tools

        self._around_next(call, changed)

    def _around_next(self, call: str, context: Callable[[], contextlib.AbstractContextManager[None]]) -> None:
        method = getattr(self.batch, call)

        def once(*arguments: Any) -> Any:
            setattr(self.batch, call, method)
            with context():
                return method(*arguments)

        setattr(self.batch, call, once)

    def garble_next(self, call: str) -> None:
        raise NotImplementedError("slurmctld answers what is so")

    def refuse_next_drain(self) -> None:
        self._with_other_next("drain", {"command_folder": str(self._powerless)})

    def start_job_in_next_drain(self, worker: str) -> None:
        act = self._slurm.act

        def first_a_job(*words: str) -> None:
            setattr(self._slurm, "act", act)  # noqa: B010
            self.start_job(worker)
            act(*words)

        setattr(self._slurm, "act", first_a_job)  # noqa: B010
