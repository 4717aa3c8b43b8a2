"""`elastiqctl plan` and `explain` with HTCondor's commands as a small program and an EC2 API over HTTP."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterator

import pytest

from elastiq import client
from elastiq.cli import main
from elastiq.cli.copied import CopiedStore
from elastiq.paths import Paths
from elastiq.store import Store
from tests.daemon_lines import ROOT
from tests.ec2_server import KEYS, EC2Server, error, moto_reservations, moto_server
from tests.integration.fake_htcondor import FakePool
from tests.waiting import PATIENCE_S, DeadPort, until

CONFIG = """
[elastiq]
cluster_name = plans-{number}
check_queue_every_s = 0.3
check_vms_every_s = 0.3
waiting_jobs_time_s = {waiting_jobs_time_s}
idle_for_time_s = {idle_for_time_s}
batch_settle_s = 0
[quota]
max_vms = 3
[ec2]
api_url = {url}
region = us-east-1
aws_access_key_id = {aws_access_key_id}
aws_secret_access_key = {aws_secret_access_key}
image_id = ami-12c6146b
flavour = m5.small
cpus = 4
memory_mb = 16384
dialect = aws
{more}
"""


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


class Head:
    """A head node in a directory, with a pool of HTCondor and a cloud."""

    def __init__(self, folder: Path, url: str) -> None:
        self.paths = Paths(folder / "elastiq.conf", folder / "log", folder / "state", folder / "run")
        self.pool, self.url = FakePool(folder / "pool"), url
        self.configure()

    def configure(self, more: str = "", url: str = "", wait_s: float = 0, idle_s: float = 3600) -> None:
        self.paths.config.touch(mode=0o600)
        times = {"waiting_jobs_time_s": wait_s, "idle_for_time_s": idle_s}
        self.paths.config.write_text(
            CONFIG.format(url=url or self.url, number=os.getpid(), more=more, **times, **KEYS)
        )

    def places(self) -> list[str]:
        p = self.paths
        places = ("--config", p.config, "--statedir", p.statedir, "--rundir", p.rundir, "--logdir", p.logdir)
        return list(map(str, places))

    def ctl(self, *words: str) -> Done:
        """elastiqctl, in this process: it imports boto3 once."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main([*self.places(), *words])
        said = out.getvalue() + err.getvalue()
        assert "Traceback" not in said and KEYS["aws_secret_access_key"] not in said
        return Done(code, out.getvalue(), err.getvalue())

    def json(self, *words: str, code: int = 0) -> Any:
        done = self.ctl(*words, "--json")
        assert done.code == code, done.err
        return json.loads(done.out)

    @contextlib.contextmanager
    def daemon(self) -> Iterator[None]:
        argv = [sys.executable, "-m", "elastiq.service", *self.places(), "--background"]
        with subprocess.Popen(argv, cwd=ROOT) as process:
            try:
                until(lambda: self.answers() and self.status()["state"] != "starting")
                yield
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait(PATIENCE_S)

    def status(self) -> Any:
        return client.ask(self.paths.socket, "status")["status"]

    def answers(self) -> bool:
        try:
            return bool(self.status())
        except (client.NotRunning, client.NoAnswer):
            return False

    def pid(self) -> Any:
        return client.ask(self.paths.socket, "status")["pid"]

    def files(self) -> dict[str, tuple[int, str]]:
        """Everything in the directories of the daemon, byte for byte."""
        found = [path for top in (self.paths.statedir, self.paths.rundir, self.paths.logdir) for path in top.rglob("*")]
        return {
            str(path): (path.stat().st_mtime_ns, hashlib.sha256(path.read_bytes()).hexdigest())
            for path in found
            if path.is_file()
        }

    def commands(self) -> set[str]:
        """Which of HTCondor's commands ran."""
        log = self.pool.folder / "calls"
        return {json.loads(line)[0] for line in log.read_text().splitlines()}


@pytest.fixture
def cloud() -> Iterator[EC2Server]:
    server = moto_server()
    for reservations in moto_reservations():
        reservations.clear()
    yield server
    server.close()


@pytest.fixture
def head(tmp_path: Path, cloud: EC2Server, monkeypatch: pytest.MonkeyPatch) -> Head:
    head = Head(tmp_path, cloud.url)
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", f"{head.pool.bin}{os.pathsep}{os.environ['PATH']}")
    return head


# --------------------------------------------------------------------------- plan, and no daemon runs


def test_before_the_first_start_it_plans_by_one_look_and_leaves_no_trace(head: Head, cloud: EC2Server) -> None:
    head.pool.submit(6)
    head.pool.submit(1, RequestMemory=65536)
    made = head.json("plan")
    (launch,) = made["launch"]
    assert launch == {
        "offer": "ec2/m5.small", "pool": "ec2", "flavour": "m5.small", "network": "", "market": "", "count": 2,
        "reason": "6 waiting jobs of 1 cpu",
    }  # fmt: skip
    assert (made["drain"], made["terminate"], made["pid"], made["state_file"]) == ([], [], None, None)
    assert {group["explanation"] for group in made["groups"]} == {
        "launching 2 of ec2/m5.small",
        "nothing fits: asks 64 GB, the largest flavour has 16 GB",
    }
    assert all(source["known"] for source in made["sources"])
    assert {request["Action"][:8] for request in cloud.requests} == {"Describe"}
    assert head.commands() == {"condor_q", "condor_status"}
    assert not any(path.exists() for path in (head.paths.statedir, head.paths.rundir, head.paths.logdir))


def test_every_key_is_documented(head: Head) -> None:
    head.pool.submit(6)
    documented = (ROOT / "docs/status.md").read_text()
    made = head.json("plan")
    keys = {*made, *(key for part in ("launch", "groups", "pools", "sources") for one in made[part] for key in one)}
    assert {"launch", "count", "explanation", "detail", "settled"} <= keys
    assert [key for key in keys if f"`{key}`" not in documented] == []


def test_what_the_daemon_would_ask_further_is_asked_too(head: Head, cloud: EC2Server) -> None:
    """The sizes of the flavours, where the configuration does not say them."""
    text = head.paths.config.read_text().replace("cpus = 4\n", "").replace("memory_mb = 16384\n", "")
    head.paths.config.write_text(text.replace("m5.small", "m5.xlarge"))
    head.pool.submit(6)
    made = head.json("plan")
    assert [(one["flavour"], one["count"]) for one in made["launch"]] == [("m5.xlarge", 2)]  # of 4 cpus each
    assert cloud.asked("DescribeInstanceTypes") and made["no_launch"] == ""


def test_one_look_cannot_tell_how_long_jobs_have_waited_and_that_is_said(head: Head) -> None:
    head.configure(wait_s=900)
    head.pool.submit(1)
    done = head.ctl("plan")
    assert done.code == 0
    assert "waiting times: not known from one look: all jobs are taken to have waited" in done.out
    assert "\nlaunch 1 of ec2/m5.small: 1 waiting job of 1 cpu\n" in done.out


def test_what_a_dry_run_logs_is_what_was_planned_in_the_same_words(head: Head, cloud: EC2Server) -> None:
    head.configure("[debug]\ndry_run_boot_vms = yes\n")
    head.pool.submit(6)
    planned = head.json("plan")
    assert "dry_run_boot_vms is set: elastiq only logs it" in planned["notices"]
    log = head.paths.logdir / "elastiq.log"
    with head.daemon():
        until(lambda: log.exists() and "would launch" in log.read_text())
    assert f"plan: {planned['summary']}" in log.read_text()
    (launch,) = planned["launch"]
    assert f"dry run: would launch {launch['count']} of {launch['offer']}" in log.read_text()
    assert planned["groups"][0]["explanation"] == f"dry run: would launch {launch['count']} of {launch['offer']}"
    assert not cloud.asked("RunInstances")


def test_a_site_that_does_not_answer_is_unknown_and_the_rest_is_planned(head: Head, cloud: EC2Server) -> None:
    nobody = DeadPort()
    dead = f"127.0.0.1:{nobody.number}"
    head.configure(f"[ec2:other]\napi_url = http://{dead}/\nconnect_timeout_s = 0.5\n")
    head.pool.submit(4)
    made = head.json("plan", code=4)
    assert {source["name"].split("/")[0]: source["known"] for source in made["sources"]} == {
        "the queue": True, "the workers": True, f"site {cloud.url[7:]}": True, f"site {dead}": False,
    }  # fmt: skip
    assert [(one["pool"], one["count"]) for one in made["launch"]] == [("ec2", 1)]
    done = head.ctl("plan")
    assert done.code == 4
    (line,) = [line for line in done.out.splitlines() if line.startswith(f"site {dead}")]
    assert "unknown" in line


def test_a_queue_that_does_not_answer_leaves_nothing_to_plan_by(head: Head) -> None:
    head.pool.once("jobs", "fail")
    made = head.json("plan", code=4)
    assert made["launch"] == [] and "the queue could not be read" in made["summary"]


def test_a_view_that_is_not_settled_is_said_to_be_so(head: Head) -> None:
    head.pool.load()["collector"]["StatsLifetime"] = 5
    head.pool.save()
    head.paths.config.write_text(head.paths.config.read_text().replace("batch_settle_s = 0", "batch_settle_s = 600"))
    done = head.ctl("plan")
    assert done.code == 0
    assert "! nothing is ended now: the batch system has been up for only 5 s of batch_settle_s 600" in done.out


def test_without_a_configuration_it_is_one_line_and_its_exit_code(head: Head) -> None:
    head.paths.config.unlink()
    done = head.ctl("plan")
    assert (done.code, done.out, len(done.err.splitlines())) == (78, "", 1)


def test_without_a_daemon_there_is_nothing_to_explain_and_plan_is_named(head: Head) -> None:
    done = head.ctl("explain")
    assert done.code == 3 and "not running" in done.err and "elastiqctl plan" in done.err


# --------------------------------------------------------------------------- the state file


def test_a_state_that_cannot_be_used_is_one_line(head: Head) -> None:
    file = head.paths.statedir / "elastiq.db"
    Store(str(_made(file))).close()
    for spoil, said in ((_newer, "install that version again"), (_garble, "cannot be read")):
        spoil(file)
        done = head.ctl("plan")
        assert (done.code, done.out, len(done.err.splitlines())) == (1, "", 1)
        assert str(file) in done.err and said in done.err


def _made(file: Path) -> Path:
    file.parent.mkdir()
    return file


def _newer(file: Path) -> None:
    with contextlib.closing(sqlite3.connect(file)) as db:
        db.execute("PRAGMA user_version = 99")


def _garble(file: Path) -> None:
    file.write_bytes(b"SQLite format 3\0" + b"x" * 4000)


def test_a_state_is_copied_as_it_is_also_one_of_a_daemon_that_was_killed(tmp_path: Path) -> None:
    file = tmp_path / "elastiq.db"
    store = Store(str(file))
    store.remember("fact", 1)
    assert CopiedStore(file).recall("fact") == 1  # beside the one that writes
    store.close()
    assert [path.name for path in tmp_path.iterdir()] == ["elastiq.db"]
    assert CopiedStore(file).recall("fact") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["elastiq.db"], "nothing is left beside it"
    subprocess.run([sys.executable, "-c", KILLED, str(file)], check=False)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert len(before) == 3 and before["elastiq.db-wal"], "what it wrote last is in the log alone"
    assert CopiedStore(file).recall("fact") == 2
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


KILLED = """
import os, sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("PRAGMA wal_autocheckpoint = 0")
db.execute("UPDATE records SET data = '2' WHERE key = 'fact'")
os._exit(0)
"""


def test_what_is_written_into_a_copy_stays_there(tmp_path: Path) -> None:
    file = tmp_path / "elastiq.db"
    Store(str(file)).close()
    before = file.read_bytes()
    copy = CopiedStore(file)
    copy.remember("fact", 1)
    file.unlink()
    copy.remember("fact", 2)
    assert copy.recall("fact") == 2 and not file.exists() and before


# --------------------------------------------------------------------------- beside a daemon


def test_beside_a_daemon_the_times_are_its_own_and_nothing_is_changed(head: Head, cloud: EC2Server) -> None:
    head.configure(wait_s=300)
    head.pool.add_worker("w9.example.com", "10.9.9.9")
    head.pool.start_job("w9.example.com", 4)
    head.pool.submit(6)
    head.pool.submit(1, RequestMemory=65536)
    with head.daemon():
        until(lambda: len(head.status()["queue"]["groups"]) == 2)
        before = head.files()
        made, told = head.json("plan"), head.json("explain")
        assert head.files() == before
        assert (made["waiting_times"], made["launch"], made["pid"]) == ("daemon", [], head.pid())
        assert made["state_file"] == str(head.paths.statedir / "elastiq.db")
        for group in (*made["groups"], *told["groups"]):
            assert group["explanation"].startswith("waits too briefly, until ")
        assert "waiting times: as elastiq (pid " in head.ctl("plan").out
        (worker,) = head.json("explain", "w9")["workers"]
        assert worker["explanation"].startswith("no machine of elastiq's, never ended")
        (pool,) = head.json("explain", "ec2")["pools"]
        assert "flavour m5.small: 4 cpus, 16 GB; no price" in pool["detail"]
        status = head.json("status")
        assert status["queue"]["groups"][0]["explanation"] and status["pools"][0]["detail"] == pool["detail"]
    assert {request["Action"][:8] for request in cloud.requests} == {"Describe"}
    # The daemon beside it asks where the schedd's queue is, to watch it.
    assert head.commands() == {"condor_q", "condor_status", "condor_config_val"}


def test_the_life_of_a_machine_is_explained_at_each_of_its_steps(head: Head, cloud: EC2Server) -> None:
    head.configure(idle_s=3600)
    head.pool.submit(1)
    with head.daemon():
        until(lambda: [node["state"] for node in head.status()["nodes"]] == ["booting"])
        (node,) = head.json("explain")["nodes"]
        assert node["explanation"].startswith("booting: joins until ")
        assert node["explanation"].endswith("for 1 waiting job of 1 cpu")
        assert f"booting {node['id']} will serve it by " in head.ctl("explain").out
        head.pool.load()["jobs"].clear()
        head.pool.save()
        until(lambda: head.status()["queue"]["groups"] == [])
        head.pool.add_worker("w1.example.com", node["addresses"][0])
        until(lambda: [one["state"] for one in head.status()["nodes"]] == ["idle"])
        for name in (node["id"], node["node"], "w1.example.com", "W1"):
            assert re.search(r"idle for \d+ s of idle_for_time_s 3600: may go at ", head.ctl("explain", name).out)
        made = head.json("plan")
        assert (made["drain"], made["terminate"]) == ([], [])
    head.configure(idle_s=0)
    made = head.json("plan")
    assert made["pid"] is None and made["nodes"][0]["id"] == node["id"]
    (drain,) = made["drain"]
    assert drain == {
        "node": node["id"], "worker": "w1.example.com", "pool": "ec2", "flavour": "m5.small", "reason": drain["reason"],
    }  # fmt: skip
    assert re.fullmatch(r"idle for \d+ s", drain["reason"])
    assert f"drain {node['id']} (w1.example.com, ec2/m5.small): idle for " in head.ctl("plan").out
    assert not head.pool.calls("condor_drain") and not cloud.asked("TerminateInstances")
    shutil.rmtree(head.paths.statedir)
    lost = head.json("plan")
    assert [one["id"] for one in lost["nodes"]] == [node["id"]]
    assert "the state was lost" in lost["no_launch"] and lost["state_file"] is None


def test_a_drain_that_was_begun_is_seen_to_its_end_in_the_plan(head: Head, cloud: EC2Server) -> None:
    """As after a crash between a drain and the end of its machine."""
    head.configure(idle_s=0)
    head.pool.submit(1)
    cloud.script("TerminateInstances", *[error("InternalError", status=500)] * 50)
    with head.daemon():
        until(lambda: [node["state"] for node in head.status()["nodes"]] == ["booting"])
        node = head.status()["nodes"][0]
        head.pool.load()["jobs"].clear()
        head.pool.save()
        until(lambda: head.status()["queue"]["groups"] == [])
        head.pool.add_worker("w1", node["addresses"][0])
        until(lambda: [one["state"] for one in head.status()["nodes"]] == ["terminating"])
    file = head.paths.statedir / "elastiq.db"
    with contextlib.closing(sqlite3.connect(file)) as db, db:
        db.execute("UPDATE records SET data = replace(data, 'terminating', 'draining') WHERE kind = 'node'")
    cloud.forget()
    made = head.json("plan")
    assert [(one["node"], one["worker"]) for one in made["terminate"]] == [(node["id"], "w1")]
    assert {request["Action"][:8] for request in cloud.requests} == {"Describe"}


def test_a_job_is_asked_for_in_the_batch_system_and_joined_with_what_the_daemon_saw(head: Head) -> None:
    head.configure(wait_s=300)
    head.pool.submit(2)
    head.pool.submit(1, RequestMemory=65536)
    head.pool.submit(1, status=5, HoldReason="disk full")
    with head.daemon():
        until(lambda: len(head.status()["queue"]["groups"]) == 2)
        found = head.json("explain", "2.0")
        (group,) = found["groups"]
        assert group["memory_mb"] == 65536 and "2.0" in found["standing"] and "idle" in found["standing"]
        shown = head.ctl("explain", "1.1").out
        assert shown.startswith("job 1.1") and "waits too briefly, until " in shown
        held = head.json("explain", "3.0")
        assert held["groups"] == [] and "held" in held["standing"] and "disk full" in held["standing"]
        gone = head.ctl("explain", "17.0")
        assert (gone.code, gone.out, len(gone.err.splitlines())) == (1, "", 1) and "17.0" in gone.err


# --------------------------------------------------------------------------- what nothing is called


def test_a_name_that_nothing_has_is_one_line_with_the_nearest_one(head: Head) -> None:
    head.pool.add_worker("w9.example.com", "10.9.9.9")
    with head.daemon():
        until(lambda: head.status()["strangers"])
        for name, hint in (("w9.exmple.com", "did you mean w9.example.com?"), ("zzz", "`elastiqctl status` lists")):
            done = head.ctl("explain", name)
            assert (done.code, done.out, len(done.err.splitlines())) == (1, "", 1)
            assert name in done.err and hint in done.err


@pytest.mark.parametrize("verb", ["plan", "explain"])
def test_the_help_has_examples_and_exit_codes(head: Head, verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main([verb, "--help"])
    said = capsys.readouterr().out
    assert left.value.code == 0 and "examples:" in said and "exit codes:" in said
