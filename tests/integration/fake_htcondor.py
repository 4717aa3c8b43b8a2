"""HTCondor's commands as one small program over a file: they print what the real ones (23.9) print.

Imported, it is the bench (`FakePool`); executed under the name of a command, it is that command.
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
from typing import Any, Optional

TOOLS = ("condor_q", "condor_status", "condor_drain", "condor_ping", "condor_advertise", "condor_config_val")
FAKE_BINDINGS = Path(__file__).with_name("fake_bindings")  # over these commands; to be found by PYTHONPATH
MEMORY_BY_DEFAULT = "/Expr(ifthenelse(MemoryUsage isnt undefined,MemoryUsage,(ImageSize + 1023) / 1024))/"
REQUIREMENTS = '/Expr((TARGET.Arch == "X86_64") && (TARGET.Disk >= RequestDisk) && (TARGET.HasFileTransfer))/'


class FakePool:
    """The state of a pool in ``folder``, and the commands that show it in ``folder/bin``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        self.bin.mkdir(parents=True)
        self.log.parent.mkdir()
        for tool in TOOLS:
            path = self.bin / tool
            path.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S {__file__} {folder} {tool} "$@"\n')
            path.chmod(path.stat().st_mode | stat.S_IXUSR)
        self.state: dict[str, Any] = {
            "schedds": ["head"],
            "dead": [],
            "jobs": [],
            "workers": {},
            "collector": {"StatsLifetime": 5000, "StatsLastUpdateTime": 100_000, "LastHeardFrom": 100_000},
            "may_drain": True,
            "may_advertise": True,
            "knows_reason": True,
            "updates_ads": True,
            "schedd_ad": {},
            "configuration": {"NEGOTIATOR_PRE_JOB_RANK": "-DaemonStartTime"},
        }
        self.save()

    @classmethod
    def opened(cls, folder: Path) -> FakePool:
        """One that was made before."""
        pool = cls.__new__(cls)
        pool.folder, pool.bin, pool.state = folder, folder / "bin", read_state(folder)
        return pool

    @property
    def log(self) -> Path:
        """Where the schedd writes each change of its queue; elastiq may not read it."""
        return self.folder / "spool/job_queue.log"

    def save(self) -> None:
        write_state(self.folder, self.state)
        with open(self.log, "a", opener=lambda path, flags: os.open(path, flags, 0o200)) as log:
            log.write("105\n106\n")  # a transaction

    def load(self) -> dict[str, Any]:
        self.state = read_state(self.folder)
        return self.state

    def once(self, kind: str, what: str) -> None:
        """Let the next call of this kind misbehave: fail, garble, cut, hang, flood, silent, slip, ..."""
        (self.folder / f"next-{kind}").write_text(what)

    def orders(self, kind: str) -> bool:
        """Whether the call that is to misbehave has yet to come."""
        return (self.folder / f"next-{kind}").exists()

    def calls(self, tool: str) -> list[list[str]]:
        """The arguments of every call of a command so far."""
        log = self.folder / "calls"
        lines = log.read_text().splitlines() if log.exists() else []
        return [argv[1:] for argv in map(json.loads, lines) if argv[0] == tool]

    def submit(
        self, count: int = 1, status: int = 1, host: str = "", schedd: str = "head", owner: str = "somebody", **ad: Any
    ) -> None:
        """Put jobs of a user (not of the one who asks) into a queue. ``host``: one slot, or several with commas."""
        state = self.load()
        cluster = 1 + max((job["ad"]["ClusterId"] for job in state["jobs"]), default=0)
        for proc in range(count):
            job: dict[str, Any] = {"ClusterId": cluster, "ProcId": proc}
            job |= {"JobStatus": status, "JobUniverse": 5, "RequestCpus": 1, "RequestMemory": MEMORY_BY_DEFAULT}
            job.update({"RequestDisk": "/Expr(DiskUsage)/", "Requirements": REQUIREMENTS, **ad})
            state["jobs"].append({"schedd": schedd, "owner": owner, "host": host, "ad": job})
        self.save()

    def add_worker(self, name: str, address: str, cpus: float = 4, memory_mb: float = 8192) -> None:
        self.load()["workers"][name.lower()] = worker(name, address, cpus, memory_mb)
        self.save()

    def start_job(self, worker: str, cpus: float = 1) -> None:
        self.start_across([worker], cpus)

    def start_across(self, workers: list[str], cpus: float = 1) -> None:
        """Let one job run on each of these."""
        known = self.load()["workers"]
        hosts = ",".join(f"slot1_1@{known[worker]['machine']}" for worker in workers)
        several: dict[str, Any] = (
            {"JobUniverse": 11, "MaxHosts": len(workers), "AllRemoteHosts": hosts} if len(workers) > 1 else {}
        )
        self.submit(status=2, host=hosts, RequestCpus=cpus, **several)
        for of in (self.state["workers"][worker] for worker in workers):
            of["slots"].append(cpus)
            of["starts"] += 1
        self.save()

    def end_job(self, worker: str) -> None:
        """Let one of the jobs there be done."""
        of = self.load()["workers"][worker]
        of["slots"].pop()
        ended = next(job for job in self.state["jobs"] if job["host"] == f"slot1_1@{of['machine']}")
        self.state["jobs"].remove(ended)
        self.save()


def worker(name: str, address: str, cpus: float, memory_mb: float) -> dict[str, Any]:
    """An idle one; it stands in the state by its name in small letters."""
    return {
        "machine": name,
        "address": address,
        "cpus": cpus,
        "memory": memory_mb,
        "slots": [],
        "ad": {},
        "top_ad": {},  # of the slot that the others are cut from
        "slot_ad": {},  # of those
        "static": False,
        "drain": None,
        "shown_drain": None,
        "starts": 0,
        "retirement": 10**7,
    }


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
        if tool in ("condor_drain", "condor_advertise"):  # what changes the state does so one at a time
            self.lock = open(folder / "lock", "w")
            fcntl.flock(self.lock, fcntl.LOCK_EX)
        self.state = read_state(folder)
        self.constraint = self.value("-constraint")
        self.cut = False
        with open(folder / "calls", "a") as log:
            log.write(json.dumps([tool, *args]) + "\n")

    def value(self, option: str) -> str:
        return self.args[self.args.index(option) + 1] if option in self.args else ""

    def kind(self) -> str:
        if self.tool == "condor_q":
            if "ClusterId ==" in self.constraint:
                return "find_job"
            return "jobs" if "-group-by" in self.args else "jobs_recorded_on"
        if self.tool == "condor_status":
            if "-schedd" in self.args:
                return "schedds"
            return "lookup" if "Machine ==" in self.constraint else "workers"
        if self.tool == "condor_drain":
            return "undrain" if "-cancel" in self.args else "drain"
        return self.tool

    def run(self) -> int:
        self.misbehave()
        answer = {
            "condor_q": self.condor_q,
            "condor_status": self.condor_status,
            "condor_drain": self.condor_drain,
            "condor_ping": lambda: 0 if self.state["may_drain"] else 1,
            "condor_advertise": self.condor_advertise,
            "condor_config_val": self.condor_config_val,
        }[self.tool]()
        return answer

    def misbehave(self) -> None:
        order = self.folder / f"next-{self.kind()}"
        taken = self.folder / f"taken-{os.getpid()}"
        try:
            order.rename(taken)
        except FileNotFoundError:
            return
        what = taken.read_text()
        if what == "hang":
            time.sleep(300)
        if what == "flood":
            while True:
                os.write(1, b"[{}]" * 100_000)
        if what == "silent":
            sys.exit(0)
        if what == "slip":  # a job starts while the drain is on its way
            FakePool.opened(self.folder).start_job(self.args[-1].rpartition("@")[2].lower())
            self.state = read_state(self.folder)
            return
        if what == "cut":
            self.cut = True
            return
        if what == "garble":
            sys.exit(print("<html><body>Please log in</body></html>"))
        if what == "fail-with-rows":
            print('[{"JobCount": 5, "JobStatus": 1, "JobUniverse": 5}]')
        if what in ("fail", "fail-with-rows"):
            print("\n-- Failed to fetch ads from: <10.0.0.1:9618> : head\nSECMAN:2007:Failed to end", file=sys.stderr)
            sys.exit(1)
        raise AssertionError(what)

    def show(self, rows: list[dict[str, Any]]) -> int:
        """As HTCondor prints a list: nothing at all if there is nothing; bytes above 0x7f as they are."""
        wanted = {name.lower() for name in self.value("-attributes").split(",")}
        if wanted != {""}:
            told = {*wanted, "jobcount", "jobids"}
            rows = [{name: value for name, value in row.items() if name.lower() in told} for row in rows]
        if any(rows):
            text = json.dumps([row for row in rows if row], ensure_ascii=False).replace("/Expr(", "\\/Expr(")
            text = text[: len(text) // 2] if self.cut else text
            sys.stdout.buffer.write(text.replace(")/", ")\\/").encode("utf-8", errors="surrogateescape"))
        return 0

    def condor_q(self) -> int:
        schedd = self.value("-name") or "head"
        if schedd in self.state["dead"] or schedd not in self.state["schedds"]:
            print(f"\n-- Failed to fetch ads from: <10.0.0.9:9618> : {schedd}\nCEDAR:6001:Failed", file=sys.stderr)
            return 1
        everyone = "-allusers" in self.args
        jobs = [j for j in self.state["jobs"] if j["schedd"] == schedd and (everyone or j["owner"] == "me")]
        if "ClusterId ==" in self.constraint:
            return self.show(self.jobs_by_number(jobs))
        states = {int(found) for found in re.findall(r"JobStatus == (\d+)", self.constraint)}
        jobs = [j for j in jobs if j["ad"]["JobStatus"] in states]
        if "-group-by" not in self.args:
            hosts = re.search(r'regexp\("(.*?)", strcat', self.constraint)
            if hosts is not None:
                jobs = [j for j in jobs if re.search(hosts.group(1), j["host"], re.IGNORECASE)]
            named = ("ClusterId", "ProcId", "AllRemoteHosts")
            known = [{key: j["ad"][key] for key in named if key in j["ad"]} for j in jobs]
            whose = [{"Owner": j["owner"], "RemoteHost": j["host"].partition(",")[0]} for j in jobs]
            return self.show([{**one, **his} for one, his in zip(known, whose)])
        universes = {int(found) for found in re.findall(r"JobUniverse == (\d+)", self.constraint)}
        groups: dict[str, dict[str, Any]] = {}
        for job in (j for j in jobs if j["ad"]["JobUniverse"] in universes):
            shape = {name: value for name, value in job["ad"].items() if name not in ("ClusterId", "ProcId")}
            one = groups.setdefault(json.dumps(shape, sort_keys=True), {**shape, "JobCount": 0})
            one["JobCount"] += 1
            one.setdefault("JobIds", "{ClusterId}.{ProcId}".format(**job["ad"]))
        return self.show(list(groups.values()))

    def jobs_by_number(self, jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
        found = [{**job["ad"], **({"RemoteHost": job["host"]} if job["host"] else {})} for job in jobs]
        for name, value in re.findall(r"(ClusterId|ProcId) == (\d+)", self.constraint):
            found = [ad for ad in found if ad.get(name) == int(value)]
        for name, text in re.findall(r'(\w+) == "(.*?)"', self.constraint):
            found = [ad for ad in found if ad.get(name) == text]
        return found

    def condor_config_val(self) -> int:
        if self.args[0] == "-subsystem":
            print(f"{self.folder}/spool/job_queue.log\n{self.folder}/spool")
            return 0
        if self.args[-2] != "-negotiator" or self.state["configuration"] is None:
            return self.refuse("Can't send end of message\nNot defined: " + self.args[-1])
        print(self.state["configuration"].get(self.args[-1], "Not defined"), "\n")
        return 0

    def condor_status(self) -> int:
        if "-schedd" in self.args:
            schedd = {"MyType": "Scheduler", **self.state["schedd_ad"]}
            return self.show([{**schedd, "Name": name} for name in self.state["schedds"]])
        rows = [{"MyType": "Collector", **self.state["collector"]}] if "Collector" in self.constraint else []
        rows += [{"MyType": "Scheduler", "Name": name} for name in self.state["schedds"] if "Sched" in self.constraint]
        only = re.search(r'Machine == "(.*?)"', self.constraint)
        for name, worker in self.state["workers"].items():
            if only is None or only.group(1).lower() == name:
                rows += self.slots(worker["machine"], worker)
        return self.show(rows)

    def slots(self, name: str, worker: dict[str, Any]) -> list[dict[str, Any]]:
        drain = worker["shown_drain"]
        common = {"MyType": "Machine", "Machine": name, "JobStarts": worker["starts"], **worker.get("ad", {})}
        common["MyAddress"] = f"<{worker['address']}:9618?addrs={worker['address']}-9618&alias={name}>"
        if drain is not None:
            common.update({"Draining": True, "DrainReason": drain} if drain else {"Draining": True})
        rows = [{**common, "Name": f"slot1@{name}", "SlotType": "Partitionable", "TotalSlotCpus": worker["cpus"]}]
        rows[0].update({"State": "Unclaimed" if drain is None else "Drained", "Activity": "Idle"})
        rows[0].update({"Cpus": worker["cpus"] - sum(worker["slots"]), "Memory": worker["memory"]})
        rows[0]["TotalSlotMemory"] = worker["memory"]
        if worker["static"]:
            return self.static_slots(name, worker, rows[0])
        if drain is not None and worker["slots"]:
            rows[0]["Activity"] = "Retiring"
        for number, cpus in enumerate(worker["slots"], 1):
            rows.append({**common, "Name": f"slot1_{number}@{name}", "SlotType": "Dynamic", "Cpus": cpus})
            rows[-1].update({"State": "Claimed", "Activity": "Busy" if drain is None else "Retiring"})
            rows[-1].update(worker["slot_ad"])
        rows[0].update(worker["top_ad"])
        return rows

    def static_slots(self, name: str, worker: dict[str, Any], like: dict[str, Any]) -> list[dict[str, Any]]:
        """One for each cpu; the first of them run the jobs."""
        rows, one = [], {**like, "SlotType": "Static", "TotalSlotCpus": 1, "Cpus": 1}
        for number in range(1, int(worker["cpus"]) + 1):
            busy = {"State": "Claimed", "Activity": "Busy"} if number <= len(worker["slots"]) else {}
            rows.append({**one, "Name": f"slot{number}@{name}", **busy})
        return rows

    def condor_drain(self) -> int:
        name = self.args[-1].rpartition("@")[2].lower()
        worker = self.state["workers"].get(name)
        if worker is None:
            return self.refuse(f"ERROR: Can't find address for startd {name}")
        sent = "Attempt to send DRAIN_JOBS to startd <10.0.0.1:9618> failed\n"
        if not self.state["may_drain"]:
            user = 'SECMAN: FAILED: Received "DENIED" from server for user elastiq@pool using method IDTOKENS.\n'
            return self.refuse(f"{user}{sent}Failed to start DRAIN_JOBS command to slot1@{name}")
        failure = f"{sent}Received failure from slot1@{name} in response to DRAIN_JOBS request: error code"
        if "-cancel" in self.args:
            self.drain_to(worker, None)
            return 0
        if "-reason" in self.args and not self.state["knows_reason"]:
            print("ERROR: unexpected argument: -reason", file=sys.stderr)
            return 2
        check = self.value("-check")
        if worker["slots"] and "RetirementTimeRemaining" in check:
            least = re.search(r"RetirementTimeRemaining >= (\d+)", check)
            if least is None or worker["retirement"] < int(least.group(1)):
                return self.refuse(f"{failure} 10003: Draining check expression is false on slot1_1@{name}.")
        elif worker["slots"] and 'State =?= "Unclaimed"' in check:
            return self.refuse(f"{failure} 10003: Draining check expression is false on slot1_1@{name}.")
        elif worker["slots"]:
            worker["slots"] = []  # a graceful drain without a check evicts
        if worker["drain"] is not None:
            return self.refuse(f"{failure} 10001: Draining already in progress.")
        self.drain_to(worker, self.value("-reason"))
        print(f"Sent request to drain the startd <10.0.0.1:9618> with slot1@{name}.")
        return 0

    def drain_to(self, worker: dict[str, Any], reason: Optional[str]) -> None:
        worker["drain"] = reason
        if self.state["updates_ads"]:
            worker["shown_drain"] = reason
        write_state(self.folder, self.state)

    def condor_advertise(self) -> int:
        found = re.search(r'Machine == "(.*?)"', sys.stdin.read())
        if not self.state["may_advertise"] or found is None:
            return self.refuse("failed to send classad to <10.0.0.1:9618>")
        self.state["workers"].pop(found.group(1).lower(), None)
        write_state(self.folder, self.state)
        return 0

    def refuse(self, text: str) -> int:
        print(text, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(Command(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]).run())
