"""What a person does with elastiqctl to a daemon that has machines: moto is the cloud, HTCondor's commands are
scripts over a pool that remembers."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Iterator, Mapping

import pytest

from elastiq.cli import main
from tests.ec2_server import KEYS, EC2Server, moto_reservations, moto_server
from tests.integration.fake_htcondor import FakePool
from tests.integration.test_elastiqctl import CLUSTER, ROOT, Head, _take_terminal
from tests.waiting import PATIENCE_S, until

CONFIG = """
[elastiq]
cluster_name = {cluster}
check_queue_every_s = 0.2
check_vms_every_s = 0.2
waiting_jobs_time_s = 0
batch_settle_s = 0
[quota]
max_vms = 3
[ec2]
api_url = {url}
region = us-east-1
aws_access_key_id = {aws_access_key_id}
aws_secret_access_key = {aws_secret_access_key}
image_id = ami-12c6146b
flavour = m5.large
cpus = 4
memory_mb = 8000
"""


class Cluster(Head):
    """A head node with a cloud and a pool."""

    def __init__(self, path: Path, ec2: EC2Server) -> None:
        self.ec2, self.pool = ec2, FakePool(path / "pool")
        super().__init__(path)

    def configure(self, more: str = "", port: Any = None) -> None:
        config = CONFIG.format(url=self.ec2.url, cluster=f"{CLUSTER}-acts", **KEYS)
        self.paths.config.write_text(config + more)
        self.paths.config.chmod(0o600)

    def environment(self, **more: str) -> dict[str, str]:
        return super().environment(**{"PATH": f"{self.pool.bin}{os.pathsep}{os.environ['PATH']}", **more})

    def ctl(self, *words: str) -> subprocess.CompletedProcess[str]:
        """In this process, but for what starts the daemon."""
        if words[0] in ("start", "stop", "restart"):
            return super().ctl(*words)
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main([*self.arguments(), *words])
        return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())

    def nodes(self, *states: str) -> list[Mapping[str, Any]]:
        return [node for node in self.status()["nodes"] if not states or node["state"] in states]

    def running(self) -> list[Any]:
        """The instances that moto runs."""
        return [
            one
            for region in moto_reservations()
            for reservation in region.values()
            for one in reservation.instances
            if one._state.name in ("pending", "running")
        ]

    def joins(self, jobs: int = 0) -> str:
        """A worker on the one machine that boots; its instance id."""
        (machine,) = until(lambda: self.nodes("booting"))
        (one,) = [one for one in self.running() if one.id == machine["id"]]
        self.pool.add_worker("w1", one.private_ip, cpus=4, memory_mb=8000)
        for _ in range(jobs):
            self.pool.start_job("w1")
        until(lambda: [node for node in self.nodes("busy" if jobs else "idle") if node["jobs"] == jobs])
        return str(one.id)

    def wants(self, jobs: int) -> None:
        """So many jobs wait until there is a machine for them."""
        self.pool.submit(jobs)
        until(lambda: self.nodes("booting"))
        self.jobs_end()

    def jobs_end(self) -> None:
        state = self.pool.load()
        state["jobs"].clear()
        for worker in state["workers"].values():
            worker["slots"] = []
        self.pool.save()

    def done(self, *words: str) -> dict[str, Any]:
        """What a command prints with --json."""
        done = self.ctl(*words, "--json")
        assert done.returncode == 0, done
        return dict(json.loads(done.stdout))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    for reservations in moto_reservations():
        reservations.clear()
    ec2 = moto_server()
    cluster = Cluster(tmp_path, ec2)
    assert cluster.ctl("start").returncode == 0
    yield cluster
    cluster.kill()
    ec2.close()


def words_of(history: Mapping[str, Any], node: str = "") -> list[str]:
    return [line["what"] for line in history["history"] if node in ("", line["node"])]


def test_pause_and_scale_hold_over_a_restart_and_are_shown(cluster: Cluster) -> None:
    paused = cluster.ctl("pause", "--launch", "--reason", "no money")
    assert paused.stdout == (
        "no machine is launched (paused: no money): what would be done is logged, until elastiqctl resume\n"
    )
    refused = cluster.ctl("scale", "4")
    assert (refused.returncode, refused.stderr) == (
        1,
        "elastiqctl: 4 is above the cluster's max_vms, which is 3: nothing was changed\n",
    )
    assert cluster.done("scale", "2") == {"scaled": {"": 2}}
    until(lambda: "paused: no money: would launch 2 of ec2/m5.large" in cluster.log())
    assert cluster.ctl("restart").returncode == 0
    shown = until(lambda: (text := cluster.ctl("status").stdout) and "paused (pid" in text and text)
    assert "! switches: no launch (paused: no money), until elastiqctl resume" in shown
    assert "! scale: the cluster is held at 2 or more machines, until elastiqctl scale auto" in shown
    assert cluster.running() == []
    assert cluster.ctl("resume").stdout == "elastiq launches and ends as it is configured\n"
    until(lambda: len(cluster.nodes("pending", "booting")) == 2)
    assert cluster.done("scale", "auto") == {"scaled": {}}
    assert words_of(cluster.done("history"))[:4] == ["pause", "scale", "resume", "launch"]


def test_a_machine_with_jobs_is_drained_returned_and_ends_with_its_last_job(cluster: Cluster) -> None:
    cluster.wants(2)
    node = cluster.joins(jobs=2)
    told = cluster.ctl("drain", "w1", "--reason", "disk fails").stdout
    assert (
        told
        == f"{node} is being drained, and ends once its 2 jobs have ended: see elastiqctl status"
        f" (undone by: elastiqctl undrain {node})\n"
    )
    (shown,) = until(lambda: cluster.nodes("draining"))
    assert (shown["id"], shown["ordered"], shown["jobs"]) == (node, "elastiqctl drain: disk fails", 2)
    assert "disk fails" in cluster.ctl("status").stdout
    until(lambda: cluster.pool.load()["workers"]["w1"]["drain"])
    assert cluster.ctl("undrain", node).stdout == f"{node} takes jobs again\n"
    until(lambda: cluster.pool.load()["workers"]["w1"]["drain"] is None and cluster.nodes("busy"))
    assert cluster.done("drain", node)["can_drain"] is True
    cluster.ctl("restart")
    until(lambda: cluster.pool.load()["workers"]["w1"]["drain"] and cluster.nodes("draining"))
    assert len(cluster.running()) == 1
    cluster.jobs_end()
    until(lambda: node not in [one.id for one in cluster.running()])
    assert words_of(cluster.done("history", "--node", node))[1:4] == ["drain", "undrain", "drain"]


def test_a_machine_with_jobs_ends_only_by_force_which_names_them(cluster: Cluster) -> None:
    cluster.wants(1)
    node = cluster.joins(jobs=2)
    names = ["1.0 (somebody)", "2.0 (somebody)"]
    refused = cluster.ctl("terminate", node, "--yes")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert f"{node} runs jobs (2 jobs: {', '.join(names)}); elastiqctl drain {node} ends it" in refused.stderr
    asked = cluster.ctl("terminate", node, "--force")
    assert asked.returncode == 1 and "without a terminal to ask, it needs --yes" in asked.stderr
    assert [line.strip() for line in asked.stdout.splitlines()[1:]] == names
    assert _typed(cluster, "n\n", "terminate", node, "--force") == 1
    assert [one.id for one in cluster.running()] == [node] and cluster.nodes("busy")
    assert cluster.pool.load()["workers"]["w1"]["drain"] is None
    assert _typed(cluster, "y\n", "terminate", node, "--force") == 0
    until(lambda: node not in [one.id for one in cluster.running()])
    assert f"{node}: elastiqctl terminate --force: kills {', '.join(names)}" in cluster.log()
    assert "terminate" in words_of(cluster.done("history", "--node", node))


def _typed(cluster: Cluster, answer: str, *words: str) -> int:
    """The exit code after a person has typed that."""
    terminal, its_end = pty.openpty()
    with cluster.popen(*words, stdin=its_end, start_new_session=True, preexec_fn=_take_terminal) as process:
        os.close(its_end)
        assert process.stdout is not None
        shown = ""
        while "[y/N]" not in shown:
            shown += os.read(process.stdout.fileno(), 1000).decode()
        assert "--force kills 2 jobs:" in shown
        os.write(terminal, answer.encode())
        _, err = process.communicate(timeout=PATIENCE_S)
    os.close(terminal)
    assert "Traceback" not in err
    return process.returncode


def test_an_idle_machine_is_ended_after_a_drain_and_what_boots_after_a_further_look(cluster: Cluster) -> None:
    cluster.done("scale", "1")
    booting = until(lambda: cluster.nodes("booting"))[0]["id"]
    cluster.done("scale", "0")
    assert cluster.done("terminate", booting, "--yes")["state"] in ("terminating", "gone")
    until(lambda: booting not in [one.id for one in cluster.running()])
    cluster.done("scale", "1")
    until(lambda: cluster.nodes("booting"))
    node = cluster.joins()
    cluster.done("scale", "0")
    assert cluster.ctl("terminate", "w1", "--yes").stdout == f"{node}: its end was asked for\n"
    assert cluster.pool.calls("condor_drain")
    until(lambda: cluster.running() == [])
    ends = [line["reason"] for line in cluster.done("history")["history"] if line["what"] in ("terminating", "gone")]
    assert set(ends) == {"elastiqctl terminate"}


REFUSED = {
    ("drain", "i-1"): "there is no node or worker `i-1` of this elastiq",
    ("undrain", "w9"): "there is no node or worker `w9` of this elastiq",
    ("terminate", "i-1", "--yes"): "there is no node or worker `i-1` of this elastiq",
    ("scale", "1", "--pool", "gpu"): "there is no pool `gpu`; there are ec2",
}


def test_what_cannot_be_is_refused_with_one_line(cluster: Cluster) -> None:
    for words, said in REFUSED.items():
        done = cluster.ctl(*words)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(f"elastiqctl: {said}") and done.stderr.count("\n") == 1


def test_reload_says_what_is_wrong_and_the_service_s_commands_speak_json(cluster: Cluster) -> None:
    assert cluster.ctl("reload").stdout == "the configuration was read again\n"
    cluster.configure("[quota:x]\n")
    wrong = cluster.ctl("reload")
    assert wrong.returncode == 78 and wrong.stderr.count("\n") == 1
    cluster.configure()
    assert cluster.done("reload") == {}
    conf = cluster.done("conf")
    assert conf["config"] == str(cluster.paths.config) and KEYS["aws_secret_access_key"] not in json.dumps(conf)
    assert any("max_vms" in line for line in conf["keys"]) and conf["sites"][0]["site"]
    pid = cluster.done("start")["pid"]
    assert cluster.done("restart")["pid"] not in (None, pid)
    lines = cluster.ctl("log", "-n", "3", "--no-follow", "--json").stdout.splitlines()
    assert len(lines) == 3 and all(set(json.loads(line)) == {"line"} for line in lines)
    ended = cluster.done("stop")
    assert (ended["running"], ended["pid"], ended["exit_code"]) == (False, None, 0)
    assert re.match(r"elastiq stopped \(pid \d+\)", ended["said"][0])
    assert cluster.done("history")["schema"] == 1, "without a running daemon, too"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be another user")
def test_the_group_sees_the_history_by_the_socket_and_commands_nothing(cluster: Cluster) -> None:
    import tempfile

    cluster.done("pause")
    with tempfile.TemporaryDirectory() as name:
        # pytest's own directories are closed to others, and so is the state
        os.chmod(name, 0o755)
        cluster.ctl("stop")
        paths = cluster.paths
        state, run = Path(name) / "state", Path(name) / "run"
        paths.statedir.rename(state)
        object.__setattr__(paths, "statedir", state)
        object.__setattr__(paths, "rundir", run)
        assert cluster.ctl("start").returncode == 0
        os.chown(run, 0, 4711)
        os.chown(run / "elastiq.sock", 0, 4711)
        argv = [sys.executable, "-c", AS_ONE_OF_THE_GROUP, "--statedir", str(state), "--rundir", str(run)]
        env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
        options: dict[str, Any] = {"capture_output": True, "text": True, "timeout": PATIENCE_S, "cwd": "/", "env": env}
        seen = subprocess.run([*argv, "history", "--json"], check=False, **options)
        denied = subprocess.run([*argv, "resume"], check=False, **options)
        cluster.kill()
    assert seen.returncode == 0 and words_of(json.loads(seen.stdout)) == ["pause"], seen
    assert (denied.returncode, denied.stdout, denied.stderr.count("\n")) == (4, "", 1)
    assert denied.stderr == "elastiqctl: `resume` is only for root and for the user that elastiq runs as\n"


AS_ONE_OF_THE_GROUP = """
import os, sys
from elastiq.cli import acting, history, main, parser, systemd
os.setgroups([4711]); os.setgid(65534); os.setuid(65534)
sys.exit(main(sys.argv[1:]))
"""
