"""The commands of Torque and of PBS Pro as one small program over a file: they print what the real ones print by their
sources (Torque 2.5-6.1, OpenPBS 20-23) and public captures.

Imported, it is the bench (`FakePBS`); executed under the name of a command, it is that command.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import os
import re
import shlex
import stat
import sys
import time
from pathlib import Path
from typing import Any, Iterator, Optional, Sequence

TOOLS = ("qstat", "pbsnodes", "qmgr", "getent")
SERVER = "head.example.org"
LONG = "/usr/share/Modules/bin:/usr/lib64/qt/bin:/usr/local/bin:/usr/bin:/usr/local/sbin:/usr/sbin:/opt/pbs/bin"
PBSE_UNKJOBID, PBSE_UNKQUE = 153, 170  # 15001 and 15018, of which an exit code keeps the last eight bits


class FakePBS:
    """A server's state in ``folder``, and the commands that show it in ``folder/bin``. ``system``: torque or pbs."""

    def __init__(self, folder: Path, system: str) -> None:
        self.folder, self.system = folder, system
        self.bin = folder / "bin"
        self.bin.mkdir(parents=True)
        for tool in TOOLS:
            path = self.bin / tool
            path.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S {__file__} {folder} {system} {tool} "$@"\n')
            path.chmod(path.stat().st_mode | stat.S_IXUSR)
        self.state: dict[str, Any] = {
            "jobs": [],
            "nodes": {},
            "next": 1,
            "operator": True,
            "manager": True,
            "query_other_jobs": True,
            "resolves": True,
            "queues": {"batch": {"queue_type": "Execution", "enabled": "True", "started": "True"}},
            "server": {"server_state": "Active", "scheduling": "True", "managers": "root@*", "operators": "*@*"},
        }
        self.save()

    def save(self) -> None:
        write_state(self.folder, self.state)

    def load(self) -> dict[str, Any]:
        self.state = read_state(self.folder)
        return self.state

    def once(self, kind: str, what: str) -> None:
        """Let the next call of this kind misbehave: fail, garble, hang, silent."""
        (self.folder / f"next-{kind}").write_text(what)

    def calls(self, tool: str) -> list[list[str]]:
        """The arguments of every call of a command so far."""
        log = self.folder / "calls"
        lines = log.read_text().splitlines() if log.exists() else []
        return [argv[1:] for argv in map(json.loads, lines) if argv[0] == tool]

    def submit(self, count: int = 1, state: str = "Q", host: str = "", queue: str = "batch", **attributes: str) -> str:
        """Put jobs of a user (not of the one who asks) into the queue; returns the last one's name. Resources are
        ``Resource_List.nodes=...``, given with two underscores for the dot."""
        now = self.load()
        first = now["next"]
        now["next"] += count
        named = {name.replace("__", "."): value for name, value in attributes.items()}
        job = {"first": first, "count": count, "state": state, "host": host, "queue": queue, "attributes": named}
        now["jobs"].append(job)
        self.save()
        return f"{first + count - 1}.{SERVER}"

    def submit_array(
        self, count: int, limit: Optional[int] = None, cpus: float = 1, on: Sequence[str] = (), state: str = ""
    ) -> None:
        """An array of which a job runs on each of the nodes ``on``."""
        self.submit_shape(1, cpus, state=state or ("B" if on and self.system == "pbs" else "Q"))
        array = self.state["jobs"][-1]
        array.update({"array": count, "limit": limit, "on": list(on)})
        for index, node in enumerate(on):
            self.state["nodes"][node]["jobs"].append([f"{array['first']}[{index}].{SERVER}", int(cpus)])
        self.save()

    def submit_shape(
        self, count: int, cpus: float, memory_mb: Optional[float] = None, nodes: int = 1, **more: Any
    ) -> str:
        """As ``qsub -l nodes=1:ppn=4``, or ``-l select=1:ncpus=4 -l place=scatter``, makes them."""
        if self.system == "torque":
            asked = {"Resource_List__nodes": f"{nodes}:ppn={cpus:.0f}", "Resource_List__ncpus": "1"}
            asked |= {} if memory_mb is None else {"Resource_List__mem": f"{memory_mb * nodes:.0f}mb"}
        else:
            select = f"{nodes}:ncpus={cpus:.0f}{'' if memory_mb is None else f':mem={memory_mb:.0f}mb'}"
            place = "scatter" if nodes > 1 else "free"
            asked = {"Resource_List__select": select, "schedselect": select, "Resource_List__place": place}
        return self.submit(count, **{**asked, **more})

    def add_node(self, name: str, address: str, cpus: float = 4, memory_mb: float = 8192, **more: Any) -> None:
        node = {"address": address, "np": int(cpus), "mem_kb": int(memory_mb * 1024), "state": "free", "jobs": []}
        self.load()["nodes"][name] = {**node, "offline": False, "note": "", "attributes": {}, **more}
        self.save()

    def start_job(self, *nodes: str, cpus: float = 1, **more: Any) -> str:
        job = self.submit_shape(1, cpus, nodes=len(nodes), **{"state": "R", "host": "+".join(nodes), **more})
        for node in nodes:
            self.state["nodes"][node]["jobs"].append([job, int(cpus)])
        self.save()
        return job

    def end_job(self, node: str) -> None:
        """The last job of a node is done, and leaves the queue."""
        job = self.load()["nodes"][node]["jobs"].pop()[0]
        self.state["jobs"] = [one for one in self.state["jobs"] if f"{one['first']}.{SERVER}" != job]
        self.save()

    def change_node(self, node: str, **values: Any) -> None:
        self.load()["nodes"][node].update(values)
        self.save()

    def node_named(self, name: str) -> str:
        """The node of a name in whatever case."""
        return next(node for node in self.load()["nodes"] if node.lower() == name.lower())


def read_state(folder: Path) -> dict[str, Any]:
    state: dict[str, Any] = json.loads((folder / "state.json").read_text())
    return state


def write_state(folder: Path, state: dict[str, Any]) -> None:
    new = folder / f"state.{os.getpid()}"
    new.write_text(json.dumps(state))
    new.replace(folder / "state.json")


# --------------------------------------------------------------------------- the commands


class Command:
    def __init__(self, folder: Path, system: str, tool: str, args: list[str]) -> None:
        self.folder, self.torque, self.tool, self.args = folder, system == "torque", tool, args
        self.letters = {letter for arg in args if re.fullmatch("-[a-zA-Z]+", arg) for letter in arg[1:]}
        self.changes = tool == "qmgr" or (tool == "pbsnodes" and bool({"o", "c", "r", "N", "C"} & self.letters))
        if self.changes:
            self.lock = open(folder / "lock", "w")  # until the command has ended
            fcntl.flock(self.lock, fcntl.LOCK_EX)
        self.state = read_state(folder)
        with open(folder / "calls", "a") as log:
            log.write(json.dumps([tool, *args]) + "\n")

    def kind(self) -> str:
        if self.tool == "qstat":
            if "Q" in self.letters:
                return "queues"
            return "server" if "B" in self.letters else "jobs" if self.structured() else "jobs-text"
        if self.tool == "pbsnodes":
            if "o" in self.letters:
                return "drain"
            return "undrain" if self.changes else "nodes" if self.structured() else "nodes-text"
        return self.tool

    def structured(self) -> bool:
        return "x" in self.letters if self.torque else "json" in self.args

    def operands(self) -> list[str]:
        found, skip = [], False
        for arg in self.args:
            if skip or arg.startswith("-"):
                skip = not skip and arg in ("-N", "-C", "-F", "-c") and not (self.tool == "pbsnodes" and arg == "-c")
            else:
                found.append(arg)
        return found

    def run(self) -> int:
        self.misbehave()
        return self.answer()

    def answer(self) -> int:
        return {"qstat": self.qstat, "pbsnodes": self.pbsnodes, "qmgr": self.qmgr, "getent": self.getent}[self.tool]()

    def misbehave(self) -> None:
        taken = self.folder / f"taken-{os.getpid()}"
        try:
            (self.folder / f"next-{self.kind()}").rename(taken)
        except FileNotFoundError:
            return
        what = taken.read_text()
        if what == "hang":
            time.sleep(300)
        if what == "silent":
            sys.exit(0)
        if what == "slip":
            node = next(iter(self.state["nodes"].values()))
            node["jobs"].append([f"9999.{SERVER}", 1])
            return write_state(self.folder, self.state)
        if what == "cut":
            return self.cut_answer()
        if what == "garble":
            sys.exit(print("<html><body>Please log in</body></html>"))
        if what == "broken":  # as old versions of PBS Pro do, and Torque with what its users wrote
            xml = "<Data><Job><Job_Id>1</Job_Name></Job></Data>"
            sys.exit(print(xml if self.torque else '{"pbs_version":"19", "Jobs":{"1":{"A":005}}}'))
        print("Connection refused", file=sys.stderr)
        if self.torque:
            text = f"cannot connect to server {SERVER} (errno=111) Connection refused"
            sys.exit(self.refuse(f"{self.tool}: {text}", 111 if self.tool == "qstat" else 1))
        if "json" in self.args:  # PBS Pro's qstat prints its frame all the same
            print(json.dumps(self.frame()))
        sys.exit(self.refuse(f"{self.tool}: cannot connect to server {SERVER} (errno=15010)", 255))

    def cut_answer(self) -> None:
        out, sys.stdout = sys.stdout, io.StringIO()
        code = self.answer()
        text, sys.stdout = sys.stdout.getvalue(), out
        print(text[: len(text) // 2], end="")
        sys.exit(code)

    def refuse(self, text: str, code: int = 1) -> int:
        print(text, file=sys.stderr)
        return code

    # ---- qstat

    def qstat(self) -> int:
        if "Q" in self.letters or "B" in self.letters:
            return self.show_queues() if "Q" in self.letters else self.show_server()
        jobs = list(self.jobs())
        asked = self.operands()
        if asked:
            jobs = [(name, job) for name, job in jobs if name in asked or name.partition(".")[0] in asked]
            if not jobs:
                return self.refuse(f"qstat: Unknown Job Id {asked[0]}", PBSE_UNKJOBID)
        if not self.structured():
            for name, job in jobs:
                print(f"Job Id: {name}")
                print_text(job, 79)
        elif self.torque:
            self.print_xml([("Job", "Job_Id", name, nested(job)) for name, job in jobs])
        else:
            frame = self.frame()
            if jobs:
                frame["Jobs"] = {name: as_json(nested(job)) for name, job in jobs}
            print(json.dumps(frame, indent=4))
        return 0

    def frame(self) -> dict[str, Any]:
        return {"timestamp": 1664911414, "pbs_version": "20.0.1", "pbs_server": SERVER}

    def jobs(self) -> Iterator[tuple[str, dict[str, str]]]:
        for job in self.state["jobs"] if self.state["query_other_jobs"] else ():
            if "array" in job:
                yield from self.array(job)
                continue
            for number in range(job["first"], job["first"] + job["count"]):
                yield f"{number}.{SERVER}", self.job(job, f"job{number}", job["state"], job["host"])

    def array(self, job: dict[str, Any]) -> Iterator[tuple[str, dict[str, str]]]:
        """Torque shows with -t its jobs only; PBS Pro its jobs too, and without -t itself alone."""
        count, limit, on, first = job["array"], job["limit"], job["on"], job["first"]
        request = f"0-{count - 1}" + (f"%{limit}" if limit is not None else "")
        if not self.torque:
            states = f"Queued:{count - len(on)} Running:{len(on)} Exiting:0 Expired:0 "
            more = {"array": "True", "array_state_count": states, "array_indices_submitted": f"0-{count - 1}"}
            more |= {"array_indices_remaining": f"{len(on)}-{count - 1}"} if count > len(on) else {}
            more |= {"max_run_subjobs": str(limit)} if limit is not None else {}
            yield f"{first}[].{SERVER}", {**self.job(job, "array", job["state"], ""), **more}
        elif "t" not in self.letters:
            yield f"{first}[].{SERVER}", {**self.job(job, "array", "Q", ""), "job_array_request": request}
        for index in range(count if "t" in self.letters else 0):
            host = on[index] if index < len(on) else ""
            more = (
                {"job_array_request": request, "job_array_id": str(index)}
                if self.torque
                else {"array_index": str(index)}
            )
            yield f"{first}[{index}].{SERVER}", {**self.job(job, f"array-{index}", "R" if host else "Q", host), **more}

    def job(self, job: dict[str, Any], name: str, state: str, hosts: str) -> dict[str, str]:
        path = f"PBS_O_PATH={LONG},PBS_O_HOST=login.example.org"
        attributes = {
            "Job_Name": name,
            "Job_Owner": "alice@login.example.org",
            "job_state": state,
            "queue": job["queue"],
            "server": SERVER,
            **({"exec_host": "+".join(f"{host}/0" for host in hosts.split("+"))} if hosts else {}),
            "Hold_Types": "u" if state == "H" else "n",
            "Priority": "0",
            **job["attributes"],
        }
        variables = ["PBS_O_QUEUE=batch,PBS_O_HOME=/home/alice,PBS_O_LANG=en_US.UTF-8", path]
        variables += [attributes["Variable_List"]] if "Variable_List" in attributes else []
        return {**attributes, "Variable_List": ",".join(variables)}

    def show_queues(self) -> int:
        for name, queue in self.state["queues"].items():
            states = dict.fromkeys("TQHWREB", 0)
            for job in self.state["jobs"]:
                if job["queue"] == name:
                    states[job["state"]] = states.get(job["state"], 0) + job["count"]
                    if "array" in job:
                        states["Q"] += job["array"] - len(job["on"]) - int(job["state"] == "Q")
                        states["R"] += len(job["on"])
            words = zip(("Transit", "Queued", "Held", "Waiting", "Running", "Exiting", "Begun"), states.values())
            total = sum(states.values())
            print(f"Queue: {name}")
            print_text({**queue, "total_jobs": str(total), "state_count": " ".join(f"{w}:{n}" for w, n in words)}, 79)
        return 0

    def show_server(self) -> int:
        print(f"Server: {SERVER}")
        query = {"query_other_jobs": "True"} if self.state["query_other_jobs"] else {}
        print_text({**self.state["server"], **query, "pbs_version": "6.1.2" if self.torque else "20.0.1"}, 79)
        return 0

    # ---- pbsnodes

    def pbsnodes(self) -> int:
        if self.changes:
            return self.mark_nodes()
        names = self.operands() or list(self.state["nodes"])
        unknown = [name for name in names if name not in self.state["nodes"]]
        if unknown:
            return self.refuse("pbsnodes: Unknown node  MSG=cannot locate specified node", 1)
        if not names:
            return (
                self.refuse("pbsnodes: No nodes found", 2)
                if self.torque
                else self.refuse("pbsnodes: Server has no node list")
            )
        rows = [(name, self.node(name, self.state["nodes"][name])) for name in names]
        if not self.structured():
            for name, row in rows:
                print(name)
                print_text(row, 10**6, "     ")
        elif self.torque:
            self.print_xml([("Node", "name", name, dict(row)) for name, row in rows])
        else:
            for _, row in rows:
                ids = [job.partition("/")[0] for job in row.pop("jobs", "").split(", ") if job]
                row["jobs"] = list(dict.fromkeys(ids))  # type: ignore[assignment]
            print(json.dumps({**self.frame(), "nodes": {name: as_json(nested(row)) for name, row in rows}}, indent=4))
        return 0

    def node(self, name: str, node: dict[str, Any]) -> dict[str, str]:
        used = sum(cores for _, cores in node["jobs"])
        state = node["state"]
        if state == "free" and used >= node["np"]:
            state = "job-exclusive" if self.torque else "job-busy"
        if node["offline"]:
            state = "offline" if state == "free" else f"{state},offline"
        row = {"state": state}
        if self.torque:
            row |= {"power_state": "Running", "np": str(node["np"]), **node["attributes"], "ntype": "cluster"}
            begin, entries = 0, []
            for job, cores in node["jobs"]:
                entries.append(f"{begin}-{begin + cores - 1}/{job}" if cores > 1 else f"{begin}/{job}")
                begin += cores
            row |= {"jobs": ",".join(entries)} if entries else {}
            if "down" not in state:
                row["status"] = f"rectime=1527799181,jobs=,state=free,ncpus={node['np']},physmem={node['mem_kb']}kb"
            return {**row, **({"note": node["note"]} if node["note"] else {}), "mom_service_port": "15002"}
        row = {"Mom": mom_of(name), "Port": "15002", "pbs_version": "20.0.1", "ntype": "PBS", **row}
        row |= {
            f"resources_available.{key}": value
            for key, value in {"arch": "linux", "host": name.partition(".")[0]}.items()
        }
        row |= {"resources_available.mem": f"{node['mem_kb']}kb", "resources_available.ncpus": str(node["np"])}
        row |= {"resources_available.vnode": name, **node["attributes"]}
        row |= {"jobs": ", ".join(f"{job}/{core}" for job, cores in node["jobs"] for core in range(cores))}
        row |= {"resources_assigned.ncpus": str(used)} if used else {}
        return {
            **row,
            "resv_enable": "True",
            "sharing": "default_shared",
            **({"comment": node["note"]} if node["note"] else {}),
        }

    def mark_nodes(self) -> int:
        text = next((self.args[at + 1] for at, arg in enumerate(self.args) if arg in ("-N", "-C")), None)
        failed = 0
        for operand in self.operands():
            names = [name for name in self.state["nodes"] if operand == (name if self.torque else mom_of(name))]
            node = self.state["nodes"][names[0]] if names else None
            why = "Unknown node" if node is None else "" if self.state["operator"] else "Unauthorized Request"
            if why or node is None:
                failed = self.refuse(f"Error marking node {operand} - {why}")
                continue
            if text is not None:
                node["note"] = "" if text == "n" and self.torque else text
            if "o" in self.letters:
                node["offline"] = True
            if ("c" if self.torque else "r") in self.letters:
                node["offline"] = False
        write_state(self.folder, self.state)
        return 0 if self.torque else failed

    # ---- qmgr, getent

    def qmgr(self) -> int:
        verb, what, name, *rest = shlex.split(self.args[self.args.index("-c") + 1])
        assert what == "node", what
        error = ""
        node = self.state["nodes"].get(name)
        if not self.state["manager"]:
            error = "Unauthorized Request"
        elif verb == "create" and not self.state["resolves"]:
            error = "Unknown node"
        elif verb == "create" and node is not None:
            error = "Node name already exists"
        elif verb != "create" and node is None:
            error = "Unknown node"
        if error:
            print(f"qmgr obj={name} svr=default: {error}", file=sys.stderr)
            return self.refuse("qmgr: Error (15007) returned from server", 0 if self.torque else 1)
        if verb == "create":
            state = "down,offline,MOM-list-not-sent" if self.torque else "state-unknown,down"
            node = {"address": "", "np": 1, "mem_kb": 0, "state": state.replace(",offline", ""), "jobs": []}
            self.state["nodes"][name] = {**node, "offline": False, "note": "", "attributes": {}}
        if verb == "delete":
            del self.state["nodes"][name]
        elif rest:
            self.state["nodes"][name]["attributes"].update(pair.split("=", 1) for pair in split_pairs(" ".join(rest)))
        write_state(self.folder, self.state)
        return 0

    def getent(self) -> int:
        missing = 0
        for name in self.args[1:]:
            known = {node.lower(): row["address"] for node, row in self.state["nodes"].items()}
            address = known.get(name)
            missing = missing or (0 if address else 2)
            if address:
                print(f"{address:<15} STREAM {mom_of(name)}\n{address:<15} DGRAM  \n{address:<15} RAW    ")
        return missing

    def print_xml(self, rows: list[tuple[str, str, str, dict[str, Any]]]) -> None:
        def text(value: Any) -> str:
            if isinstance(value, dict):
                return "".join(f"<{key}>{text(inner)}</{key}>" for key, inner in value.items())
            return str(value).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")

        if rows or self.tool == "pbsnodes" or not self.state.get("zero_bytes"):
            body = "".join(f"<{tag}><{key}>{name}</{key}>{text(row)}</{tag}>" for tag, key, name, row in rows)
            print(f"<Data>{body}</Data>")


def mom_of(name: str) -> str:
    return name if "." in name else f"{name}.example.org"


def split_pairs(text: str) -> list[str]:
    """``a=1,b=x`` of qmgr, whose quotes are gone: a comma before NAME= separates."""
    return re.split(r",(?=[\w.]+=)", text)


def print_text(attributes: dict[str, str], width: int, indent: str = "    ") -> None:
    for name, value in attributes.items():
        line = f"{indent}{name} = {value}"
        print(line[:width])
        for begin in range(width, len(line), width - 8):
            print("\t" + line[begin : begin + width - 8])
    print()


def nested(attributes: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in attributes.items():
        head, dot, tail = name.partition(".")
        if dot:
            found.setdefault(head, {})[tail] = value
        else:
            found[name] = value
    return found


def as_json(attributes: dict[str, Any]) -> dict[str, Any]:
    """PBS Pro writes as numbers what looks like one; and the environment as an object."""

    def value(name: str, text: Any) -> Any:
        if isinstance(text, dict):
            return {inner: value(inner, one) for inner, one in text.items()}
        if name == "Variable_List":
            return {pair.partition("=")[0]: value("", pair.partition("=")[2]) for pair in text.split(",")}
        return int(text) if isinstance(text, str) and re.fullmatch(r"0|[1-9]\d*", text) else text

    return {name: value(name, text) for name, text in attributes.items()}


def in_process(folder: Path, system: str, tool: str, args: Sequence[str]) -> tuple[int, str, str]:
    """The command without a process of its own, where there are too many for that: exit code, output, errors."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code: Any = Command(folder, system, tool, list(args)).run()
        except SystemExit as done:
            code = done.code
    return code or 0, out.getvalue(), err.getvalue()


if __name__ == "__main__":
    sys.exit(Command(Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:]).run())
