"""Slurm's commands as one small program over a file: they print what the real ones print, in the forms of several
versions (20.11 text; 22.05 JSON of openapi/v0.0.38; 24.11 JSON of data_parser/v0.0.42).

Imported, it is the bench (`FakeSlurm`); executed under the name of a command, it is that command.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import stat
import sys
import time
from pathlib import Path
from typing import Any, Iterable

if __name__ == "__main__":  # in isolated mode
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.integration import slurm_forms as forms
from tests.integration.slurm_forms import BOOTED, job, node, stamp

TOOLS = ("scontrol", "squeue", "sinfo")


class FakeSlurm:
    """The state of a cluster in ``folder``, and the commands that show it in ``folder/bin``."""

    def __init__(self, folder: Path, version: str = "22.05.8") -> None:
        self.folder = folder
        self.bin = folder / "bin"
        self.bin.mkdir(parents=True)
        for tool in TOOLS:
            path = self.bin / tool
            path.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S {__file__} {folder} {tool} "$@"\n')
            path.chmod(path.stat().st_mode | stat.S_IXUSR)
        self.state: dict[str, Any] = {
            "version": version,
            "json": True,  # the plugins for it are installed
            "now": BOOTED + 5000,
            "jobs": [],
            "nodes": {},
            "may_update": True,
            "config": {
                "ReturnToService": "2",
                "SuspendProgram": "(null)",
                "PrivateData": "none",
                "ClusterName": "test",
            },
            "slips_in": "",  # a node on which a job starts while it is being drained
        }
        self.save()

    def save(self) -> None:
        write_state(self.folder, self.state)

    def load(self) -> dict[str, Any]:
        self.state = read_state(self.folder)
        return self.state

    def once(self, kind: str, what: str) -> None:
        """Let the next call of this kind misbehave: fail, garble, blank, cut, hang, error (in JSON)."""
        (self.folder / f"next-{kind}").write_text(what)

    def run(self, tool: str, *args: str) -> tuple[int, str, str]:
        """What a command does, without a process for it."""
        return Command(self.folder, tool, list(args)).run()

    def calls(self, tool: str) -> list[list[str]]:
        """The arguments of every call of a command so far."""
        log = self.folder / "calls"
        lines = log.read_text().splitlines() if log.exists() else []
        return [argv[1:] for argv in map(json.loads, lines) if argv[0] == tool]

    def submit(self, count: int = 1, **said: Any) -> int:
        """Put jobs into the queue, or change what there is of them: the keys are those of `job`. The last one's id."""
        jobs = self.load()["jobs"]
        number = max((job["id"] for job in jobs), default=0)
        jobs.extend(job(number + 1 + each, **said) for each in range(count))
        self.save()
        return number + count

    def add_node(self, name: str, address: str, **said: Any) -> None:
        self.load()["nodes"][name] = node(address, name, **said)
        self.save()

    def change_node(self, name: str, **said: Any) -> None:
        """The worker's name may be in lower case."""
        self.load()["nodes"][self.spelt(name)].update(said)
        self.save()

    def spelt(self, worker: str) -> str:
        return next(str(name) for name in self.state["nodes"] if name.lower() == worker)


def read_state(folder: Path) -> dict[str, Any]:
    state: dict[str, Any] = json.loads((folder / "state.json").read_text())
    return state


def write_state(folder: Path, state: dict[str, Any]) -> None:
    new = folder / f"state.{os.getpid()}"
    new.write_text(json.dumps(state))
    new.replace(folder / "state.json")


# --------------------------------------------------------------------------- the commands


class Command:
    def __init__(self, folder: Path, tool: str, args: list[str]) -> None:
        self.folder, self.tool, self.args = folder, tool, args
        if tool == "scontrol" and {"update", "delete"} & {*args}:  # what changes the state does so one at a time
            self.lock = open(folder / "lock", "w")
            fcntl.flock(self.lock, fcntl.LOCK_EX)
        self.state = read_state(folder)
        self.version = tuple(int(part) for part in self.state["version"].split(".")[:2])
        self.printed: list[str] = []
        self.complaint = ""
        with open(folder / "calls", "a") as log:
            log.write(json.dumps([tool, *args]) + "\n")

    def kind(self) -> str:
        text = " ".join(self.args)
        if self.tool == "squeue":
            return "find_job" if "-j" in self.args else "jobs_recorded_on" if "-o" in self.args else "jobs"
        for words, kind in (
            ("state=drain", "drain"),
            ("waits for", "register"),
            ("no machine", "put_back"),
            ("delete", "put_back"),
            ("state=undrain", "undrain"),
            ("show node", "workers"),
            ("--json", "workers"),
        ):
            if words in text:
                return kind
        return "other"

    def run(self) -> tuple[int, str, str]:
        """Its exit code, and what it prints."""
        taken = self.folder / f"taken-{os.getpid()}"
        try:
            (self.folder / f"next-{self.kind()}").rename(taken)
            what = taken.read_text()
        except FileNotFoundError:
            what = ""
        if what == "gone":
            return 1, "", "slurm_load_jobs error: Invalid job id specified\n"
        if what == "hang":
            time.sleep(300)
        if what == "fail":
            return 1, "", "slurm_load error: Unable to contact slurm controller (connect failure)\n"
        if what == "munge":
            error = 'Munge encode failed: Failed to access "/run/munge/munge.socket.2": No such file or directory'
            lines = ("If munged is up, restart with --num-threads=10", error, "slurm_send_node_msg: auth_g_create: no")
            complaint = "".join(f"{self.tool}: error: {line}\n" for line in lines)
            errors = json.dumps({"errors": [{"error": "Failed while looking for jobs"}], "jobs": []})
            return (0, errors, complaint) if "--json" in self.args else (1, "", complaint)
        if what == "error":
            return (
                0,
                json.dumps({"errors": [{"description": "Zero Bytes were transmitted"}], "nodes": [], "jobs": []}),
                "",
            )
        if what == "garble":
            return 0, "<html><body>Please log in</body></html>\n", ""
        code = {"scontrol": self.scontrol, "squeue": self.squeue, "sinfo": self.sinfo}[self.tool]()
        text = "".join(self.printed)
        return code, {"blank": "", "cut": text[: len(text) // 2]}.get(what, text), self.complaint

    def refuse(self, text: str) -> int:
        self.complaint += text + "\n"
        return 1

    def print(self, text: str) -> int:
        self.printed.append(text + "\n")
        return 0

    # ---- scontrol

    def scontrol(self) -> int:
        words = [word for word in self.args if not word.startswith("-")]
        if "--version" in self.args:
            return self.print(f"slurm-wlm {self.state['version']}")
        if words[:1] == ["update"]:
            return self.update(dict(word.split("=", 1) for word in words[1:]))
        if words[:1] == ["delete"]:
            return self.delete(words[1].partition("=")[2])
        if words[:2] == ["show", "config"]:
            self.print(f"Configuration data as of {stamp(self.state['now'])}")
            self.print(f"BOOT_TIME               = {stamp(BOOTED)}")
            for name, value in self.state["config"].items():
                self.print(f"{name:<23} = {value}")
            return 0
        if "--json" in self.args:
            if self.version < (23, 2):
                return self.refuse(
                    "scontrol: unrecognized option '--json'\nTry \"scontrol --help\" for more information"
                )
            return self.json("nodes", [forms.new_node(*self.of(name)) for name in self.listed()])
        if words == ["show", "partition"]:
            names = sorted({name for of in self.state["nodes"].values() for name in of["partitions"]})
            return self.print("\n".join(f"PartitionName={name} AllowGroups=ALL State=UP" for name in names))
        if words[:2] == ["show", "job"]:
            jobs = [each for each in self.state["jobs"] if str(each["id"]) == words[-1] or len(words) == 2]
            return self.print("\n".join(map(forms.job_line, jobs)))
        if words[:2] == ["show", "node"]:
            named = words[2:]
            names = [name for name in self.listed("--future" in self.args) if not named or name in named]
            if not names:
                return self.print("No nodes in the system")
            return self.print("\n".join(forms.node_line(*self.of(name), self.version) for name in names))
        raise AssertionError(self.args)

    def listed(self, future: bool = False) -> list[str]:
        return [name for name, of in self.state["nodes"].items() if future or of["base"] != "FUTURE"]

    def update(self, said: dict[str, str]) -> int:
        if not self.state["may_update"]:
            return self.refuse("slurm_update error: Invalid user id")
        name = said.pop("nodename")
        of = self.state["nodes"].get(name)
        if of is None:
            return self.refuse("slurm_update error: Invalid node name specified")
        if said.get("state") == "drain" and self.state["slips_in"] == name:
            number = max((each["id"] for each in self.state["jobs"]), default=0) + 1
            self.state["jobs"].append(job(number, state="R", reason="None", hosts=[name]))
        of["address"], of["host"] = said.get("nodeaddr", of["address"]), said.get("nodehostname", of["host"])
        of["comment"] = said.get("comment", of["comment"])
        state = said.get("state", "")
        if state == "drain":
            if not said.get("reason"):
                return self.refuse("slurm_update error: You must specify a reason when DOWNING a node. Request denied")
            of["flags"] = sorted({*of["flags"], "DRAIN"})
        elif state == "undrain":
            if of["base"] == "DOWN":
                of["flags"] = sorted({*of["flags"], "NOT_RESPONDING"})
            of.update(flags=[flag for flag in of["flags"] if flag != "DRAIN"], base="IDLE", reason="")
        elif state == "down":
            of["base"] = "DOWN"
            for each in self.state["jobs"]:  # slurmctld ends them, and puts them into the queue again
                if name in each["hosts"]:
                    each.update(hosts=[], state="PD", reason="BeginTime", begin=self.state["now"] + 121)
        else:
            assert not state, state
        of["reason"] = said.get("reason", of["reason"])
        write_state(self.folder, self.state)
        return 0

    def delete(self, name: str) -> int:
        if not self.state["may_update"]:
            return self.refuse(f"delete_node nodename={name}: Invalid user id")
        if name not in self.state["nodes"]:
            return self.refuse(f"delete_node nodename={name}: Invalid node name specified")
        if any(name in each["hosts"] for each in self.state["jobs"]):
            return self.refuse(f"delete_node nodename={name}: Requested nodes are busy")
        del self.state["nodes"][name]
        write_state(self.folder, self.state)
        return 0

    # ---- nodes

    def of(self, name: str) -> tuple[str, dict[str, Any], forms.Used]:
        return name, self.state["nodes"][name], self.used(name)

    def used(self, name: str) -> forms.Used:
        """Cpus, memory, and the words of its state."""
        of, cpus, memory, flags = self.state["nodes"][name], 0.0, 0.0, [*self.state["nodes"][name]["flags"]]
        there = [each for each in self.state["jobs"] if name in each["hosts"]]
        for each in there:
            if each["state"] == "CG":
                flags.append("COMPLETING")
            elif each["state"] != "S":
                cpus += each["cpus"] / len(each["hosts"])
                memory += (each["memory"] or 0) / len(each["hosts"])
        base = of["base"]
        if base == "IDLE" and cpus:
            base = "ALLOCATED" if cpus >= of["cpus"] else "MIXED"
        return cpus, memory, [base, *sorted({*flags})]

    def sinfo(self) -> int:
        if "--json" not in self.args or self.version < (21, 8):
            return self.refuse("sinfo: unrecognized option '--json'")
        return self.json("nodes", [forms.old_node(*self.of(name)) for name in self.listed()])

    def json(self, key: str, rows: list[dict[str, Any]]) -> int:
        if not self.state["json"]:
            return self.refuse(f"{self.tool}: error: cannot find serializer plugin for application/json")
        meta = {"plugin": {"type": "data_parser/v0.0.42"}, "Slurm": {"release": self.state["version"]}}
        return self.print(json.dumps({"meta": meta, key: rows, "warnings": [{"description": "old"}], "errors": []}))

    # ---- squeue

    def squeue(self) -> int:
        everyone = "-a" in self.args  # without it, hidden partitions are left out
        jobs = [each for each in self.state["jobs"] if everyone or each["partition"] != "hidden"]
        if "-j" in self.args:
            wanted = {int(one) for one in self.args[self.args.index("-j") + 1].split(",")}
            jobs = [each for each in jobs if wanted & {each["id"], each["array"], each["het"]}]
            if not jobs and len(wanted) == 1:
                return self.refuse("slurm_load_jobs error: Invalid job id specified")
        if "--json" in self.args:
            new = self.version >= (23, 2)
            return self.json("jobs", [forms.new_job(each) if new else forms.old_job(each) for each in jobs])
        if "-O" in self.args:
            return self.wide_table(jobs, self.args[self.args.index("-O") + 1])
        return self.free_table(jobs, self.args[self.args.index("-o") + 1])

    def wide_table(self, jobs: Iterable[dict[str, Any]], form: str) -> int:
        columns = [re.fullmatch(r"([\w-]+):(\d+)(.*)", column, re.DOTALL) for column in form.split(",")]
        assert all(columns), form
        spec = [(found[1], int(found[2]), found[3]) for found in columns if found]
        self.print("".join(f"{name.upper():<{width}.{width}}{end}" for name, width, end in spec))
        for each in jobs:
            said = forms.columns_of(each)
            self.print("".join(f"{said[name]:<{width}.{width}}{end}" for name, width, end in spec))
        return 0

    def free_table(self, jobs: Iterable[dict[str, Any]], form: str) -> int:
        names = {"%i": "JOBID", "%t": "ST", "%u": "USER", "%N": "NODELIST"}
        for mark, name in names.items():
            form = form.replace(mark, f"{{{name}}}")
        self.print(form.format(**{name: name for name in names.values()}))
        for each in jobs:
            nodes = forms.squeezed(each["hosts"])
            self.print(form.format(JOBID=forms.shown_id(each), ST=each["state"], USER=each["user"], NODELIST=nodes))
        return 0


if __name__ == "__main__":
    assert os.environ["TZ"] == "UTC" and os.environ["SLURM_BITSTR_LEN"] == "0"
    assert not any(name.startswith(("SQUEUE_", "SLURM_CLUSTERS")) for name in os.environ)
    code, told, complaint = Command(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]).run()
    sys.stdout.write(told)
    sys.stderr.write(complaint)
    sys.exit(code)
