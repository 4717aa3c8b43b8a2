"""A Grid Engine cluster in a folder, for tests: its state, and commands that show it (`fake_gridengine_commands`)."""

from __future__ import annotations

import json
import py_compile
import stat
import sys
from pathlib import Path
from typing import Any

from tests.integration import fake_gridengine_commands as commands
from tests.integration.fake_gridengine_commands import read_state, real_name, write_state

TOOLS = ("qstat", "qhost", "qconf", "qmod", "qping", "getent")
CONFIGURATION = {
    "-sconf": "#global:\nmax_unheard                  00:05:00\nreschedule_unknown           00:05:00\n",
    "-ssconf": "queue_sort_method                 seqno\nload_formula                      slots\n",
}


class FakeCluster:
    """The state of a cluster in ``folder``, and the commands that show it in ``folder/bin``."""

    def __init__(self, folder: Path, **state: Any) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        self.bin.mkdir(parents=True)
        program = py_compile.compile(str(commands.__file__), cfile=str(folder / "commands.pyc"), doraise=True)
        for tool in TOOLS:
            path = self.bin / tool
            path.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S {program} {folder} {tool} "$@"\n')
            path.chmod(path.stat().st_mode | stat.S_IXUSR)
        self.state: dict[str, Any] = {
            "queues": {"all.q": ["@allhosts"]},
            "groups": {"@allhosts": []},
            "hosts": {},
            "admin": ["head"],
            "managers": ["sgeadmin"],
            "jobs": [],
            "pes": {"smp": "$pe_slots", "mpi": "$fill_up"},
            "names": {},
            "up_s": 5000,
            "may_change": True,
            "configuration": CONFIGURATION,
            **state,
        }
        self.save()

    def save(self) -> None:
        write_state(self.folder, self.state)

    def load(self) -> dict[str, Any]:
        self.state = read_state(self.folder)
        return self.state

    def once(self, kind: str, what: str) -> None:
        """Let the next call of this kind misbehave: fail, garble, blank, cut, hang, slip."""
        (self.folder / f"next-{kind}").write_text(what)

    def calls(self, tool: str) -> list[list[str]]:
        """The arguments of every call of a command so far."""
        log = self.folder / "calls"
        lines = log.read_text().splitlines() if log.exists() else []
        return [argv[1:] for argv in map(json.loads, lines) if argv[0] == tool]

    def submit(self, count: int = 1, **job: Any) -> int:
        """Put so many jobs of a user (not of the one who asks) into the queue; returns the first one's number."""
        state = self.load()
        first = 1 + max((one["first"] + one["count"] - 1 for one in state["jobs"]), default=0)
        state["jobs"].append({"first": first, "count": count, "state": "qw", "slots": 1, "owner": "alice", **job})
        self.save()
        return int(first)

    def add_host(self, name: str, address: str, cpus: float = 4, memory_mb: float = 8192, **more: Any) -> None:
        """A host that an administrator has added, with a running execd."""
        state = self.load()
        state["names"][name] = address
        state["admin"].append(name)
        state["groups"]["@allhosts"].append(name)
        state["hosts"][name] = {"alive": True, "cpus": cpus, "memory": memory_mb, "states": {}, **more}
        self.save()

    def change(self, host: str, **values: Any) -> None:
        self.load()["hosts"][real_name(self.state, host)].update(values)
        self.save()

    def run_job(self, hosts: list[str], cpus: float = 1, **job: Any) -> int:
        """Let a job run, with so many slots on each of these hosts; the first one has its master."""
        names = [real_name(self.load(), host) for host in hosts]
        return self.submit(state=job.pop("state", "r"), slots=int(cpus * len(names)), hosts=names, **job)
