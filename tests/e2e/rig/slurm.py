"""A real Slurm of Debian's packages: slurmctld on a head host, and a cloud whose instances run slurmd.

The nodes are dynamic (`slurmd -Z`) and have no slurm.conf of their own ("configless"), but for those of `PREDECLARED`.
"""

from __future__ import annotations

import secrets
import shlex
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.rig import fleet, hosts, places, roots
from tests.e2e.rig.client import Ec2
from tests.e2e.rig.process import RigError, poll

SUITES = {"bookworm": "22.05", "trixie": "24.11"}
TOOLS = ("squeue", "sinfo", "scontrol", "scancel", "sbatch", "sacct", "srun", "sdiag", "sprio", "sacctmgr")
PREDECLARED = "big[1-3]"
_STATE = "/var/lib/slurm/slurmctld"
_PACKAGES = ("slurmctld", "slurmd", "slurm-client", "munge")
# Nothing here tracks processes by control groups: they are the machine's.
_CGROUPS = {"bookworm": "CgroupPlugin=cgroup/v1\n", "trixie": "CgroupPlugin=disabled\n"}

# Short periods, so that the tests need not wait. SlurmUser is the one who may drain and delete nodes without slurmdbd.
_CONF = f"""\
ClusterName=rig
SlurmctldHost=head({places.HUB_IP})
SlurmUser=elastiq
PrivateData=cloud
AuthType=auth/munge
CredType=cred/munge
SlurmctldParameters=enable_configless
SlurmdParameters=config_overrides
StateSaveLocation={_STATE}
SlurmdSpoolDir=/var/lib/slurm/slurmd
SlurmctldPidFile=/run/slurm/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.log
MailProg=/bin/true
ProctrackType=proctrack/pgid
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
DefMemPerCPU=100
ReturnToService=2
SlurmdTimeout=15
MessageTimeout=20
SchedulerParameters=sched_interval=1,sched_min_interval=100000,bf_interval=1
MinJobAge=600
MaxNodeCount=64
MaxJobCount=50000
MaxArraySize=20001
TreeWidth=65533
NodeName={PREDECLARED} NodeAddr=192.0.2.1 CPUs=8 RealMemory=16000 Feature=big State=CLOUD
# What dynamic nodes may be like: without, no job can ask for it while there is none.
NodeName=like[1-4] NodeAddr=192.0.2.1 CPUs=4 RealMemory=8192 Feature=cloud State=FUTURE
NodeName=like[5-6] NodeAddr=192.0.2.1 CPUs=4 RealMemory=8192 Feature=special State=FUTURE
NodeSet=dynamic Feature=cloud
NodeSet=special Feature=special
PartitionName=main Nodes=dynamic Default=YES MaxTime=INFINITE State=UP
PartitionName=special Nodes=special MaxTime=INFINITE State=UP
PartitionName=big Nodes={PREDECLARED} MaxTime=INFINITE State=UP
"""


def recipe(suite: str) -> roots.Recipe:
    return roots.Recipe(suite, _PACKAGES, (f"echo {_CGROUPS[suite].strip()} >$1/etc/slurm/cgroup.conf",))


def prepare(host: hosts.Host, key: bytes) -> None:
    """The head's key, and munged: what a node needs before any daemon of Slurm."""
    host.put("/etc/munge/munge.key", key, 0o400, "munge")
    host.run("install", "-d", "-o", "munge", "-g", "munge", "-m", "755", "/run/munge")
    host.start_program(["munged", "--foreground"], "/var/log/munged.out", "munge")
    if not poll(lambda: host.path("/run/munge/munge.socket.2").exists(), 10):
        raise RigError(f"munged does not start on {host.name}: {host.read('/var/log/munged.out')}")


@dataclass
class Slurm:
    """The head, its cloud, and a folder with Slurm's commands for use on the machine."""

    suite: str
    head: hosts.Host
    root: Path
    tools: Path
    cloud: Ec2

    @classmethod
    def start(cls, suite: str, more: str = "") -> Slurm:
        """All of it; ``more`` are further lines of slurm.conf. `RigError` if it does not come up."""
        root = roots.root(recipe(suite))
        head = hosts.Host(root, "head", places.HUB_IP)
        head.start()
        key = secrets.token_bytes(128)
        prepare(head, key)
        head.put("/etc/slurm/slurm.conf", _CONF + more)
        for directory in ("/run/slurm", "/var/log/slurm", _STATE):
            head.run("install", "-d", "-o", "elastiq", "-g", "elastiq", "-m", "755", directory)
        tools = places.base() / "hosts" / head.label / "bin"
        head.wrap_tools(tools, TOOLS, "elastiq")
        made = cls(suite, head, root, tools, fleet.start_cloud(head, root, "tests.e2e.rig.slurm_image"))
        made.start_slurmctld()
        return made

    def start_slurmctld(self) -> None:
        self.head.start_program(["slurmctld", "-D"], "/var/log/slurmctld.out", "elastiq")
        if not poll(self.answers, 60, 0.1):
            raise RigError(f"slurmctld does not answer: {self.head.read('/var/log/slurmctld.out')[-2000:]}")

    def stop_slurmctld(self, number: str = "TERM") -> None:
        """With SIGTERM it saves the state, which it else does every few seconds."""
        self.head.ask("pkill", f"-{number}", "-x", "slurmctld")
        if not poll(lambda: self.head.ask("pgrep", "-x", "slurmctld").returncode, 60):
            raise RigError("slurmctld does not end")

    def answers(self) -> bool:
        return "UP" in self.head.ask("scontrol", "ping").stdout

    def cloud_log(self) -> str:
        """What the cloud's server said; the calls left out."""
        text = places.ec2_socket(self.cloud.endpoint).with_suffix(".log").read_text(errors="replace")
        return "\n".join(line for line in text.splitlines() if '"POST /' not in line)

    def stop(self) -> None:
        self.head.kill()

    # ------------------------------------------------------------- an administrator and a user

    def ask(self, *argv: object, user: str = "") -> str:
        """What a command of Slurm prints, run on the head as root or ``user``; `RigError` if it fails."""
        return self.head.run(*argv, user=user)

    def submit(self, seconds: float, *options: str, user: str = "jobuser") -> str:
        """Submit a batch job of an ordinary user that sleeps; returns its id."""
        script = f"sleep {seconds:g}; exit 0"
        words = ["sbatch", "--parsable", "--output=/dev/null", "--chdir=/tmp", *options, f"--wrap={script}"]
        return self.ask(*words, user=user).strip()

    def jobs(self) -> list[dict[str, str]]:
        """All jobs that slurmctld remembers, each task of an array for itself."""
        return [dict(_pairs(line)) for line in self.ask("scontrol", "show", "job", "-o").splitlines() if "=" in line]

    def nodes(self) -> dict[str, dict[str, str]]:
        """All node records by name."""
        rows = [dict(_pairs(line)) for line in self.ask("scontrol", "show", "node", "-o", "-a").splitlines()]
        return {row["NodeName"]: row for row in rows if "NodeName" in row}

    def worker(self, address: str) -> hosts.Host:
        """The host of the instance with this address."""
        return fleet.host_at(self.head, self.root, address)

    def reset(self) -> None:
        """No job, no instance, no node but the predeclared ones, and nothing known of the past."""
        self.cloud.reset()
        self.stop_slurmctld("KILL")
        self.head.run("find", _STATE, "-mindepth", "1", "-delete")
        self.start_slurmctld()
        self.ask("scontrol", "update", f"nodename={PREDECLARED}", "state=down", "reason=elastiq: no machine")


def _pairs(line: str) -> list[tuple[str, str]]:
    """Of one line of `scontrol show -o`; values with blanks are cut, which nobody here reads."""
    found = [word.split("=", 1) for word in shlex.split(line.replace("'", "").replace('"', "")) if "=" in word]
    return [(name, value) for name, value in found]
