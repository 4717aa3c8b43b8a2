"""A real Grid Engine (Son of Grid Engine 8.1.9) of Debian's packages: sge_qmaster on a head host, and a cloud whose
instances run sge_execd.

The names of all hosts that may come are in every host's /etc/hosts, as docs/batch/gridengine.md advises. The cell and
the ports are not the usual ones: elastiq must be told of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.e2e.rig import fleet, hosts, places, roots
from tests.e2e.rig.client import Ec2
from tests.e2e.rig.process import RigError, poll

SUITES = ("bookworm", "trixie")
TOOLS = ("qstat", "qhost", "qconf", "qmod", "qping", "getent")
ROOT, CELL, QMASTER_PORT, EXECD_PORT = "/var/lib/gridengine", "rig", 6544, 6545
ENVIRONMENT = {
    "SGE_ROOT": ROOT,
    "SGE_CELL": CELL,
    "SGE_QMASTER_PORT": str(QMASTER_PORT),
    "SGE_EXECD_PORT": str(EXECD_PORT),
    "SGE_ND": "1",  # the daemons stay in the foreground
}
_SPOOL = "/var/spool/gridengine"
_ADMIN = "sgeadmin"
_ACCOUNTING = f"{ROOT}/{CELL}/common/accounting"
_GLOBAL = "/tmp/global"  # qconf -Mconf goes by the name of the file
_NUMBERS = range(2, 252)  # of the addresses that instances get
# Short periods, so that the tests need not wait.
_CONFIGURATION = {
    "mailer": "/bin/true",
    "load_report_time": "00:00:01",
    "max_unheard": "00:00:05",
    "reschedule_unknown": "00:00:03",
    "reporting_params": "accounting=true reporting=false flush_time=00:00:01 joblog=false sharelog=00:00:00",
}
_SCHEDULER = {"schedule_interval": "0:0:1", "flush_submit_sec": "1", "flush_finish_sec": "1", "load_formula": "slots"}
_QUEUE = {
    "hostlist": "@allhosts head",  # where no queue has a host, qsub fails
    "slots": "4,[head=0]",
    "load_thresholds": "NONE",
    "pe_list": "smp mpi",
    "rerun": "TRUE",
    "shell": "/bin/sh",
    "min_cpu_interval": "00:00:01",
}
_PE = """\
pe_name {name}
slots 999
user_lists NONE
xuser_lists NONE
start_proc_args NONE
stop_proc_args NONE
allocation_rule {rule}
control_slaves FALSE
job_is_first_task TRUE
urgency_slots min
accounting_summary FALSE
qsort_args NONE
"""


def recipe(suite: str) -> roots.Recipe:
    packages = ("gridengine-master", "gridengine-exec", "gridengine-client")
    preseed = "--essential-hook=echo gridengine-master shared/gridengineconfig boolean false"
    # Grid Engine refuses a user whose group has no name.
    group = f'chroot "$1" groupmod --gid {places.DAEMON_UID} elastiq'
    return roots.Recipe(suite, packages, (group,), options=(f'{preseed} | chroot "$1" debconf-set-selections',))


def names(head: hosts.Host) -> str:
    """Lines of /etc/hosts for all that may come."""
    machines = (f"172.31.{places.FIRST.first_net}.{number}" for number in _NUMBERS)
    lines = (f"{address} ip-{address.replace('.', '-')}" for address in machines)
    return "\n".join(["127.0.0.1 localhost", f"{head.address} {head.name}", *lines, ""])


def prepare(host: hosts.Host, head: hosts.Host) -> None:
    """What every host of the cluster has: names, and where the master is."""
    host.put("/etc/hosts", names(head))
    bootstrap = host.read("/usr/share/gridengine/default-bootstrap")
    host.put(f"{ROOT}/{CELL}/common/bootstrap", bootstrap, owner=_ADMIN)
    host.put(f"{ROOT}/{CELL}/common/act_qmaster", f"{head.name}\n", owner=_ADMIN)


@dataclass
class GridEngine:
    """The head, its cloud, and a folder with Grid Engine's commands for use on the machine."""

    suite: str
    head: hosts.Host
    root: Path
    tools: Path
    cloud: Ec2

    @classmethod
    def start(cls, suite: str) -> GridEngine:
        """All of it; `RigError` if it does not come up."""
        root = roots.root(recipe(suite))
        head = hosts.Host(root, "head", places.HUB_IP)
        head.start()
        prepare(head, head)
        tools = places.base() / "hosts" / head.label / "bin"
        head.wrap_tools(tools, TOOLS, "elastiq")
        made = cls(suite, head, root, tools, fleet.start_cloud(head, root, "tests.e2e.rig.gridengine_image"))
        made._make_cluster()
        return made

    def stop(self) -> None:
        self.head.kill()

    def reset(self) -> None:
        """No job, no instance, no host, and nothing known of the past."""
        self.cloud.reset()
        self.kill_qmaster()
        self._make_cluster()

    # ------------------------------------------------------------- the master

    def start_qmaster(self) -> None:
        self.head.start_program(["/usr/sbin/sge_qmaster"], "/var/log/qmaster.out", environment=ENVIRONMENT)
        if not poll(self.answers, 20, 0.1):
            raise RigError(f"sge_qmaster does not answer: {self.head.read('/var/log/qmaster.out')[-2000:]}")

    def kill_qmaster(self) -> None:
        self.head.ask("pkill", "-KILL", "-x", "sge_qmaster")
        if not poll(lambda: self.head.ask("pgrep", "-x", "sge_qmaster").returncode, 10):
            raise RigError("sge_qmaster does not end")

    def answers(self) -> bool:
        return self.head.ask("qconf", "-sh", environment=ENVIRONMENT).returncode == 0

    def _make_cluster(self) -> None:
        """A new spool, as the package's init_cluster makes it, and what an administrator would configure."""
        self.head.run("rm", "-rf", _SPOOL, _ACCOUNTING)
        for directory in ("qmaster/job_scripts", "spooldb"):
            self.head.run("install", "-d", "-o", _ADMIN, "-g", _ADMIN, f"{_SPOOL}/{directory}")
        self.head.run("chown", "-R", f"{_ADMIN}:{_ADMIN}", _SPOOL, f"{ROOT}/{CELL}")
        template = self.head.read("/usr/share/gridengine/default-configuration")
        self.head.put(_GLOBAL, _replaced(template, _CONFIGURATION))
        library = "/usr/lib/gridengine"
        self._as_admin(f"{library}/spoolinit", "berkeleydb", "libspoolb", f"{_SPOOL}/spooldb", "init")
        util = "/usr/share/gridengine/util/resources"
        for words in (
            ("configuration", _GLOBAL),
            ("complexes", f"{util}/centry"),
            ("usersets", f"{util}/usersets"),
            ("managers", "root", _ADMIN, "elastiq"),
        ):
            self._as_admin(f"{library}/spooldefaults", *words)
        self.start_qmaster()
        self.ask("qconf", "-as", "head")
        self._add("-Ahgrp", "group_name @allhosts\nhostlist NONE\n")
        for name, rule in (("smp", "$pe_slots"), ("mpi", "$fill_up")):
            self._add("-Ap", _PE.format(name=name, rule=rule))
        self.add_queue("all.q")
        self._add("-Msconf", _replaced(self.ask("qconf", "-ssconf"), _SCHEDULER))

    def add_queue(self, name: str, **values: str) -> None:
        """A queue like all.q, but for these values."""
        self._add("-Aq", _replaced(self.ask("qconf", "-sq"), {"qname": name, **_QUEUE, **values}))

    def configure(self, **values: str) -> None:
        """Change the configuration until the next reset."""
        self.head.put(_GLOBAL, _replaced(self.ask("qconf", "-sconf"), values))
        self.ask("qconf", "-Mconf", _GLOBAL)

    def _add(self, option: str, text: str) -> None:
        self.head.put("/tmp/object", text)
        self.ask("qconf", option, "/tmp/object")

    def _as_admin(self, *words: str) -> None:
        self.head.run(*words, user=_ADMIN, environment=ENVIRONMENT)

    # ------------------------------------------------------------- an administrator and a user

    def ask(self, *argv: object, user: str = "") -> str:
        """What a command prints, run on the head as root or ``user``; `RigError` if it fails."""
        return self.head.run(*argv, user=user, environment=ENVIRONMENT)

    def submit(self, seconds: float, *options: str) -> str:
        """Submit a job of jobuser that sleeps; returns its number."""
        words = ["qsub", "-terse", "-b", "y", "-o", "/dev/null", "-e", "/dev/null", *options, "sleep", f"{seconds:g}"]
        return self.ask(*words, user="jobuser").strip().partition(".")[0]

    def accounts(self) -> list[dict[str, str]]:
        """What was written of each job, or task, that ended: accounting(5)."""
        path = self.head.path(_ACCOUNTING)
        lines = [line for line in path.read_text().splitlines() if not line.startswith("#")] if path.exists() else []
        columns = {"host": 1, "job": 5, "failed": 11, "exit": 12, "slots": 34, "task": 35}
        return [{name: line.split(":")[column] for name, column in columns.items()} for line in lines]

    def worker(self, address: str) -> hosts.Host:
        """The host of the instance with this address."""
        return fleet.host_at(self.head, self.root, address)

    def cloud_log(self) -> str:
        """What the cloud's server said; the calls left out."""
        text = places.ec2_socket(self.cloud.endpoint).with_suffix(".log").read_text(errors="replace")
        return "\n".join(line for line in text.splitlines() if '"POST /' not in line)


def _replaced(text: str, values: dict[str, str]) -> str:
    """The lines ``name  value`` with these values in place of theirs."""
    lines = (line.split(None, 1) for line in text.replace("\\\n", " ").splitlines())
    return "".join(f"{words[0]} {values.get(words[0], ' '.join(words[1:]))}\n" for words in lines if words)
