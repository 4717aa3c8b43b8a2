"""Grid Engine's commands as one small program over a file: they print what the real ones (8.1.9) print.

Executed with a folder, the name of a command and its arguments, it is that command.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import time

TYPE_CHECKING = False  # typing and pathlib would cost each command half of its time
if TYPE_CHECKING:
    from typing import Any, Optional

COMPLEXES = """\
#name               shortcut   type      relop requestable consumable default  urgency
#--------------------------------------------------------------------------------------
arch                a          STRING    ==    YES         NO         NONE     0
gpu                 gpu        INT       <=    YES         YES        0        0
h_rt                h_rt       TIME      <=    YES         NO         0:0:0    0
h_vmem              h_vmem     MEMORY    <=    YES         NO         0        0
hostname            h          HOST      ==    YES         NO         NONE     0
job_mem             job_mem    MEMORY    <=    YES         JOB        0        0
mem_free            mf         MEMORY    <=    YES         NO         0        0
slots               s          INT       <=    YES         YES        1        1000
vmem                vmem       MEMORY    <=    YES         YES        0        0
# >#< starts a comment but comments are not saved across edits --------
"""
COMMLIB = """\
error: commlib error: got select error (Connection refused)
error: unable to send message to qmaster using port 6444 on host "head": got send error"""


def read_state(folder: object) -> dict[str, Any]:
    state: dict[str, Any] = json.loads(read(f"{folder}/state.json"))
    return state


def write_state(folder: object, state: dict[str, Any]) -> None:
    new = f"{folder}/state.{os.getpid()}"
    with open(new, "w") as file:
        json.dump(state, file)
    os.replace(new, f"{folder}/state.json")


def read(path: str) -> str:
    with open(path) as file:
        return file.read()


def real_name(state: dict[str, Any], host: str) -> str:
    """As it is written in the cluster; names differ by more than their case."""
    return next((name for name in (*state["hosts"], *state["names"]) if name.lower() == host.lower()), host)


def escaped(text: str) -> str:
    """As 8.1.9 does it, its slip with `<` included."""
    for char, entity in (("&", "&amp;"), ("<", "%lt;"), (">", "&gt;"), ('"', "&quot;"), ("'", "&apos;")):
        text = text.replace(char, entity)
    return text


class Command:
    def __init__(self, folder: object, tool: str, args: list[str]) -> None:
        self.folder, self.tool, self.args = folder, tool, args
        self.lock = open(f"{folder}/lock", "w")
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        self.state = read_state(folder)
        with open(f"{folder}/calls", "a") as log:
            log.write(json.dumps([tool, *args]) + "\n")

    def value(self, option: str) -> str:
        return self.args[self.args.index(option) + 1] if option in self.args else ""

    def kind(self) -> str:
        if self.tool == "qmod":
            return "drain" if self.args[0] == "-d" else "undrain"
        if self.tool == "qconf":
            return {"-ah": "register", "-dh": "unregister"}.get(self.args[0], self.args[0].strip("-"))
        if self.tool == "qhost":
            return "host" if "-h" in self.args else "hosts"
        return "jobs" if "-r" in self.args else self.tool

    def run(self) -> int:
        text, code = self.misbehave()
        if code is not None:
            return code
        if not text:
            text = str(getattr(self, self.tool)() or "")
        sys.stdout.buffer.write(text.encode("utf-8", errors="surrogateescape"))
        return 0

    def misbehave(self) -> tuple[str, Optional[int]]:
        order = f"{self.folder}/next-{self.kind()}"
        if not os.path.exists(order):
            return "", None
        what = read(order)
        os.unlink(order)
        if what == "hang":
            fcntl.flock(self.lock, fcntl.LOCK_UN)
            time.sleep(300)
        if what == "blank":
            return "", 0
        if what == "garble":
            return "<html><body>Please log in</body></html>", None
        if what == "cut":
            text = str(getattr(self, self.tool)())
            return text[: len(text) // 2], None
        if what == "slip":  # a job is dispatched before the command has its effect
            host = self.args[1].partition("@")[2]
            job = {"first": 9000, "count": 1, "state": "t", "slots": 1, "owner": "alice", "hosts": [host]}
            self.state["jobs"].append(job)
            write_state(self.folder, self.state)
            return "", None
        if what == "fail":
            return "", self.fail(COMMLIB)
        raise AssertionError(what)

    def fail(self, text: str) -> int:
        print(text, file=sys.stderr)
        sys.exit(1)

    def may_change(self) -> None:
        if not self.state["may_change"]:
            self.fail('denied: "elastiq" must be manager for this operation')

    # ------------------------------------------------------------- reads

    def qstat(self) -> str:
        if "-help" in self.args:
            return "SGE 8.1.9\nusage: qstat [options]\n"
        if "-j" in self.args:
            return self.details(self.value("-j").split(","))
        later = self.value("-s") == "ha"
        running: list[str] = []
        pending: list[str] = []
        for job in self.state["jobs"]:
            if not later or job.get("later"):
                rows = pending if not job.get("hosts") else running
                rows += [self.row(job, job["first"] + n) for n in range(job["count"])]
        schema = "http://arc.liv.ac.uk/repos/darcs/sge/source/dist/util/resources/schemas/qstat/qstat.xsd"
        head = f"<?xml version='1.0'?>\n<job_info  xmlns:xsd=\"{schema}\">\n  <queue_info>\n"
        middle = "  </queue_info>\n  <job_info>\n"
        return head + "".join(running) + middle + "".join(pending) + "  </job_info>\n</job_info>\n"

    def row(self, job: dict[str, Any], number: int) -> str:
        hosts, name = job.get("hosts"), escaped(job.get("name", "sleep"))
        lines = [
            f'<job_list state="{"running" if hosts else "pending"}">', f"<JB_job_number>{number}</JB_job_number>",
            "<JAT_prio>0.25000</JAT_prio>", f"<JB_name>{name}</JB_name>", f"<JB_owner>{job['owner']}</JB_owner>",
            f"<state>{job['state']}</state>", "<JB_submission_time>2026-11-30T18:12:38</JB_submission_time>",
            f"<queue_name>{'all.q@' + hosts[0] if hosts else ''}</queue_name>", f"<slots>{job['slots']}</slots>",
        ]  # fmt: skip
        lines += [f"<tasks>{job['tasks']}</tasks>"] if job.get("tasks") else []
        if "-r" in self.args:
            lines.append(f"<full_job_name>{name}</full_job_name>")
            pe = job.get("pe")
            lines += [f'<requested_pe name="{pe}">{job.get("pe_range", job["slots"])}</requested_pe>'] if pe else []
            for wanted, value in job.get("requests", {}).items():
                lines.append(f'<hard_request name="{wanted}" resource_contribution="0.000000">{value}</hard_request>')
            lines += [f"<hard_req_queue>{queue}</hard_req_queue>" for queue in job.get("queues", ())]
            lines.append("<binding>NONE</binding>")
        return "    " + "\n      ".join(lines) + "\n    </job_list>\n"

    def details(self, numbers: list[str]) -> str:
        text, unknown = "", []
        for number in map(int, numbers):
            job = next((j for j in self.state["jobs"] if j["first"] <= number < j["first"] + j["count"]), None)
            if job is None:
                unknown.append(str(number))
                continue
            text += f"{'=' * 62}\njob_number:                 {number}\nowner:                      {job['owner']}\n"
            text += f"maximum concurrency:        {job['limit']}\n" if job.get("limit") else ""
            text += 'scheduling info:            queue instance "all.q@w1" dropped because it is full\n'
            text += f"{'':28}All queues dropped because of overload or full\n"
        if unknown:
            sys.stdout.write(text)
            sys.stdout.flush()
            self.fail("Following jobs do not exist: \n" + "\n".join(unknown))
        return text

    def qhost(self) -> str:
        asked = [real_name(self.state, name) for name in self.value("-h").split(",") if name]
        for name in asked:
            if name not in self.state["names"] and name not in self.state["hosts"]:
                self.fail(f'error: can\'t resolve hostname "{name}"')
        schema = "http://arc.liv.ac.uk/repos/darcs/sge/source/dist/util/resources/schemas/qhost/qhost.xsd"
        text = f"<?xml version='1.0'?>\n<qhost xmlns:xsd=\"{schema}\">\n" + self.host_values("global", None)
        for name, host in self.state["hosts"].items():
            if not asked or name in asked:
                text += self.host_values(name, host)
        return text + "</qhost>\n"

    def host_values(self, name: str, host: Optional[dict[str, Any]]) -> str:
        alive = host is not None and host["alive"]
        values = {"arch_string": "-", "num_proc": "-", "load_avg": "-", "mem_total": "-", "mem_used": "-"}
        if host is not None and (alive or host.get("seen")):
            memory = f"{host['memory'] / 1024:.3f}G"
            values.update(arch_string="lx-amd64", num_proc=str(int(host["cpus"])), mem_total=memory)
            values.update({"load_avg": "0.02", "mem_used": "512.0M"} if alive else {})
        lines = [f" <host name='{name}'>"]
        lines += [f"   <hostvalue name='{key}'>{value}</hostvalue>" for key, value in values.items()]
        if host is not None:
            resources = {"mem_total": ("hl", values["mem_total"]), **host.get("resources", {})}
            for key, (dominance, value) in resources.items():
                lines.append(f"   <resourcevalue name='{key}' dominance='{dominance}'>{value}</resourcevalue>")
            for queue in self.queues_of(name):
                lines += self.queue_values(queue, name, host)
        return "\n".join([*lines, " </host>\n"])

    def queues_of(self, host: str) -> list[str]:
        """Those that list it, and those that are orphaned: it has left them, but runs a job of theirs."""
        groups = self.state["groups"]
        jobs = {job.get("queue", "all.q") for job in self.state["jobs"] if host in (job.get("hosts") or ())}
        return [
            queue
            for queue, lists in self.state["queues"].items()
            if queue in jobs or any(host in groups.get(group, ()) for group in lists)
        ]

    def queue_values(self, queue: str, name: str, host: dict[str, Any]) -> list[str]:
        jobs = [j for j in self.state["jobs"] if name in (j.get("hosts") or ()) and j.get("queue", "all.q") == queue]
        used = sum(j["slots"] // len(j["hosts"]) for j in jobs)
        state = host["states"].get(queue, "") + ("" if host["alive"] else "u")
        values = {
            "qtype_string": "BIP", "slots_used": host.get("slots_used", used), "slots": int(host["cpus"]),
            "slots_resv": 0, "state_string": state,
        }  # fmt: skip
        lines = [f" <queue name='{queue}'>"]
        lines += [f"   <queuevalue qname='{queue}' name='{key}'>{value}</queuevalue>" for key, value in values.items()]
        lines.append(" </queue>")
        for job in jobs:
            rows = job["slots"] // len(job["hosts"]) if job.get("pe") else 1
            for n in range(rows):
                first = n == 0 and name == job["hosts"][0]
                lines += self.job_values(job, queue, name, "MASTER" if first else "SLAVE")
        return lines

    @staticmethod
    def job_values(job: dict[str, Any], queue: str, host: str, role: str) -> list[str]:
        number = job["first"]
        values = {
            "priority": "'0.250020'", "qinstance_name": f"{queue}@{host}", "job_name": "sleep",
            "job_owner": job["owner"], "job_state": job["state"], "start_time": 1796062359, "pe_master": role,
        }  # fmt: skip
        values.update({"taskid": job["tasks"]} if job.get("tasks") else {})
        lines = [f" <job name='{number}'>"]
        lines += [f"   <jobvalue jobid='{number}' name='{key}'>{value}</jobvalue>" for key, value in values.items()]
        return [*lines, " </job>"]

    def qping(self) -> str:
        return f"11/30/2026 18:12:44:\nSIRM version:             0.1\nrun time [s]:             {self.state['up_s']}\n"

    def getent(self) -> str:
        database, key = self.args
        names = self.state["names"]
        if database == "hosts":
            found = [(address, name) for name, address in names.items() if address == key]
        else:
            found = [(names[name], "STREAM " + name) for name in names if name.lower() == key.lower()]
        if not found:
            sys.exit(2)
        return "".join(f"{one:15} {two}\n" for one, two in found)

    # ------------------------------------------------------------- changes

    def qmod(self) -> str:
        said = []
        for instance in self.args[1:]:
            queue, _, host = instance.partition("@")
            name = real_name(self.state, host)
            if name not in self.state["hosts"] or queue not in self.queues_of(name):
                self.fail(f'invalid queue "{instance}"')
            if not self.state["may_change"]:
                self.fail(f'elastiq - you have no permission to modify queue "{instance}"')
            states = self.state["hosts"][name]["states"]
            left = states.get(queue, "").replace("d", "")
            states[queue] = left + ("d" if self.args[0] == "-d" else "")
            said.append(f'elastiq@head changed state of "{instance}"\n')
        write_state(self.folder, self.state)
        return "".join(said)

    def qconf(self) -> str:
        state, (option, *rest) = self.state, self.args
        shown = {
            "-sc": COMPLEXES, "-sm": "\n".join(state["managers"]) + "\n", "-sh": "\n".join(state["admin"]) + "\n",
            "-spl": "\n".join(state["pes"]) + "\n", "-sql": "\n".join(state["queues"]) + "\n",
            "-shgrpl": "\n".join(state["groups"]) + "\n", "-sss": "head\n", **state["configuration"],
        }  # fmt: skip
        if option in shown:
            return str(shown[option])
        if option == "-sp":
            return f"pe_name            {rest[0]}\nslots              999\nallocation_rule    {state['pes'][rest[0]]}\n"
        if option == "-sq":
            return f"qname                 {rest[0]}\nhostlist              {' '.join(state['queues'][rest[0]])}\n"
        if option == "-shgrp":
            hosts = " \\\n         ".join(state["groups"][rest[0]]) or "NONE"
            return f"group_name {rest[0]}\nhostlist {hosts}\n"
        self.may_change()
        said = getattr(self, "qconf_" + option[1:])(*rest)
        write_state(self.folder, state)
        return str(said)

    def resolved(self, host: str) -> str:
        name = real_name(self.state, host)
        if name not in self.state["names"]:
            self.fail(f'can\'t resolve hostname "{host}"')
        return name

    def qconf_ah(self, host: str) -> str:
        name = self.resolved(host)
        if name in self.state["admin"]:
            print(f'adminhost "{name}" already exists', file=sys.stderr)
            return ""
        self.state["admin"].append(name)
        return f"{name} added to administrative host list\n"

    def qconf_dh(self, host: str) -> str:
        name = self.resolved(host)
        if name not in self.state["admin"]:
            self.fail(f'denied: administrative host "{name}" does not exist')
        self.state["admin"].remove(name)
        return f'elastiq@head removed "{name}" from administrative host list\n'

    def qconf_de(self, host: str) -> str:
        name = self.resolved(host)
        if name not in self.state["hosts"]:
            self.fail(f'denied: execution host "{name}" does not exist')
        if self.queues_of(name) or any(name in (job.get("hosts") or ()) for job in self.state["jobs"]):
            self.fail(f'Host object "{name}" is still referenced in cluster queue "all.q".')
        del self.state["hosts"][name]
        return f'elastiq@head removed "{name}" from execution host list\n'

    def qconf_aattr(self, _object: str, _attribute: str, host: str, group: str) -> str:
        name = self.resolved(host)
        if group not in self.state["groups"]:
            self.fail(f'denied: host group "{group}" does not exist')
        if name not in self.state["groups"][group]:
            self.state["groups"][group].append(name)
        if name not in self.state["hosts"] and self.queues_of(name):
            self.state["hosts"][name] = {"alive": False, "cpus": 4, "memory": 8192, "states": {}}
        return f'elastiq@head modified "{group}" in host group list\n'

    def qconf_dattr(self, _object: str, _attribute: str, host: str, group: str) -> str:
        name = self.resolved(host)
        if group not in self.state["groups"]:
            self.fail(f'denied: host group "{group}" does not exist')
        if name in self.state["groups"][group]:
            self.state["groups"][group].remove(name)
        return f'elastiq@head modified "{group}" in host group list\n'

    def qconf_mattr(self, _object: str, _attribute: str, values: str, host: str) -> str:
        name = self.resolved(host)
        if name not in self.state["hosts"]:
            self.fail(f'denied: "{name}" is not an execution host')
        self.state["hosts"][name]["complex_values"] = values
        return f'elastiq@head modified "{name}" in exechost list\n'

    def qconf_Ahgrp(self, file: str) -> str:
        lines = dict(line.split(None, 1) for line in read(file).splitlines())
        group, host = lines["group_name"], lines["hostlist"]
        if group in self.state["groups"]:
            self.fail(f'host group "{group}" already exists')
        self.state["groups"][group] = [] if host == "NONE" else [self.resolved(host)]
        return f'elastiq@head added "{group}" to host group list\n'


if __name__ == "__main__":
    sys.exit(Command(sys.argv[1], sys.argv[2], sys.argv[3:]).run())
