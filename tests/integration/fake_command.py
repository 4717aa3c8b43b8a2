"""Executables of [command] over a file: one program, by the key that it is called with first.

Imported, it is the bench (`FakeQueue`); executed, it is each of the executables.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import os
import sys
import time
from pathlib import Path
from typing import Any, Optional

SLOTS = ("cpus", "memory_mb")


class FakeQueue:
    """The state in ``folder``, and the program that shows it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.program = folder, folder / "the queue"  # a path may have blanks
        folder.mkdir(parents=True)
        self.program.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S {__file__} "{folder}" "$@"\n')
        self.program.chmod(0o755)
        self.state: dict[str, Any] = {
            "jobs": [],
            "submitted": 0,
            "workers": {},
            "records": {},  # of registered machines: pool, flavour, addresses
            "only_known": False,
            "may_drain": True,
            "missing": [],
        }
        self.save()

    def save(self) -> None:
        write_state(self.folder, self.state)

    def load(self) -> dict[str, Any]:
        self.state = read_state(self.folder)
        return self.state

    def once(self, key: str, what: str) -> None:
        """Let the next call by this key misbehave: fail, hang, flood, blank, cut, start-job (on its
        worker, first), or with what it is to print."""
        (self.folder / f"next-{key}").write_text(what)

    def calls(self, key: str = "") -> list[dict[str, Any]]:
        """Every call so far, by the key: its arguments and its environment."""
        log = self.folder / "calls"
        calls = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
        return [call for call in calls if key in ("", call["key"])]

    def submit(self, times: int = 1, **row: Any) -> None:
        state = self.load()
        for _ in range(times):
            state["submitted"] += 1
            state["jobs"].append({"id": str(state["submitted"]), **row})
        self.save()

    def add_worker(self, name: str, address: str, **sizes: Optional[float]) -> None:
        self.load()["workers"][name] = {"addresses": [address], "starts": 0, **sizes}
        self.save()

    def start_job(self, worker: str, **row: Any) -> None:
        self.submit(state="running", workers=[worker], **row)
        self.started(worker)

    def started(self, worker: str) -> None:
        self.state["workers"][worker]["starts"] += 1
        self.save()

    def end_job(self, worker: str) -> None:
        jobs = self.load()["jobs"]
        jobs.remove(next(row for row in jobs if worker in row.get("workers", ())))
        self.save()


def read_state(folder: Path) -> dict[str, Any]:
    state: dict[str, Any] = json.loads((folder / "state.json").read_text())
    return state


def write_state(folder: Path, state: dict[str, Any]) -> None:
    new = folder / f"state.{os.getpid()}"
    new.write_text(json.dumps(state))
    new.replace(folder / "state.json")


# --------------------------------------------------------------------------- the executables


class Call:
    def __init__(self, folder: Path, key: str, args: list[str]) -> None:
        self.folder, self.key, self.args = folder, key, args
        self.lock = open(folder / "lock", "w")
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        self.state = read_state(folder)
        with open(folder / "calls", "a") as log:
            log.write(json.dumps({"key": key, "args": args, "environment": dict(os.environ)}) + "\n")

    def run(self) -> int:
        self.misbehave()
        return self.answer()

    def answer(self) -> int:
        if self.key in ("jobs", "recorded", "find_job"):
            rows = self.state["jobs"]
            if self.key == "find_job":
                rows = [row for row in rows if row["id"] == self.args[0]]
            return self.show(version=1, jobs=rows, lists_running=True, missing=self.state["missing"])
        if self.key == "workers":
            return self.show(
                workers=[self.worker(*one) for one in self.state["workers"].items() if not one[1].get("lost")]
            )
        status = getattr(self, self.key)(*self.args)
        write_state(self.folder, self.state)
        return int(status)

    def misbehave(self) -> None:
        order = self.folder / f"next-{self.key}"
        if not order.exists():
            return
        what = order.read_text()
        order.unlink()
        if what == "hang":
            time.sleep(300)
        while what == "flood":
            os.write(1, b'{"jobs": [], "junk": "' * 10_000)
        if what == "start-job":
            worker = self.args[0]
            self.state["jobs"].append({"id": "slipped-in", "state": "running", "workers": [worker], "cpus": 1})
            return
        if what == "cut":
            with contextlib.redirect_stdout(io.StringIO()) as whole:
                self.answer()
            what = whole.getvalue()[: len(whole.getvalue()) // 2]
        if what == "fail":
            print('{"jobs": []}')
            sys.exit("cannot reach the server")
        sys.exit(print("" if what == "blank" else what, end=""))

    def show(self, **document: Any) -> int:
        print(json.dumps(document))
        return 0

    def running(self, worker: str) -> list[dict[str, Any]]:
        return [row for row in self.state["jobs"] if worker in row.get("workers", ())]

    def worker(self, name: str, kept: dict[str, Any]) -> dict[str, Any]:
        jobs, drained_by = self.running(name), kept.get("drained_by")
        row = {"name": name, "addresses": kept["addresses"], "jobs": len(jobs), "job_starts": kept["starts"]}
        if "detail" in kept:
            row["detail"] = kept["detail"]
        row.update({size: kept[size] for size in SLOTS})
        row["free"] = {size: kept[size] - sum(job.get(size) or 0 for job in jobs) for size in SLOTS}
        if "state" in kept:
            return {**row, "state": kept["state"]}
        if drained_by:
            return {**row, "state": "draining" if jobs else "drained", "drained_by": drained_by}
        return {**row, "state": "busy" if jobs else "idle"}

    def drain(self, worker: str, mode: str) -> int:
        kept = self.state["workers"].get(worker, {})
        if not self.state["may_drain"] or kept.get("drained_by", "elastiq").partition(" ")[0] != "elastiq" or not kept:
            print(f"not allowed, or no worker {worker}, or drained by an administrator", file=sys.stderr)
            return 201
        if mode == "if_idle" and self.running(worker):
            return 200
        kept["drained_by"] = os.environ["ELASTIQ_REASON"]
        return 0

    def undrain(self, worker: str) -> int:
        self.state["workers"][worker].pop("drained_by", None)
        return 0

    def remove(self, worker: str) -> int:
        if self.state["workers"].get(worker, {}).get("lost"):
            del self.state["workers"][worker]
        return 0

    def register(self, instance: str, *addresses: str) -> int:
        self.state["records"][instance] = [os.environ["ELASTIQ_POOL"], os.environ["ELASTIQ_FLAVOUR"], *addresses]
        return 0

    def unregister(self, instance: str, *addresses: str) -> int:
        self.state["records"].pop(instance, None)
        return 0


if __name__ == "__main__":
    sys.exit(Call(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]).run())
