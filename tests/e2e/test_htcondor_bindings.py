"""HTCondor's bindings on a real pool: the same answers as the commands', matching, and a helper that is harmed."""

from __future__ import annotations

import base64
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any, Iterator

import pytest

from elastiq.interfaces import JobGroup, Jobs, Machine, Resources, SourceError, Workers
from elastiq.plugins.batch.htcondor_own_ads import VARYING
from elastiq.plugins.batch.htcondor_portraits import PASSING, job_ad, would_be
from tests.e2e.cluster import IDLE, RUNNING, Cluster, wait_for
from tests.e2e.conftest import StartDaemon
from tests.e2e.rig import htcondor, network, places, user
from tests.e2e.test_htcondor_plugin import MACHINE, machine

__all__ = ["machine"]  # a fixture

SERVER = places.REPOSITORY / "plugins/batch/htcondor_server.py"
# Plugins that live on, and so their helpers: an expression a line, and for each its answer or its error.
PROGRAM = """
import base64, pickle, sys, time
from elastiq.interfaces import *
from elastiq.plugins.batch.htcondor import HTCondor
values = {option.name: option.default for option in HTCondor.OPTIONS}
owner = Owner("e2e", "0123456789abcdef0123")
commands, bindings, hasty = (
    HTCondor.from_config({**values, "query_method": method, "command_timeout_s": seconds}, owner)
    for method, seconds in (("commands", 30.0), ("bindings", 30.0), ("bindings", 2.0))
)
for line in sys.stdin:
    began = time.monotonic()
    try:
        answer = eval(pickle.loads(base64.b64decode(line)))
    except SourceError as error:
        answer = error
    print(base64.b64encode(pickle.dumps((answer, time.monotonic() - began))).decode(), flush=True)
"""


class Head:
    """The plugin as the daemon's user has it, asked by both methods; ``took_s`` is of the last call."""

    def __init__(self) -> None:
        argv = user.as_daemon([sys.executable, "-c", PROGRAM], user.environment(Path("/nonexistent")))
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.took_s = 0.0

    def ask(self, expression: str) -> Any:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(base64.b64encode(pickle.dumps(expression)) + b"\n")
        self.process.stdin.flush()
        answer, self.took_s = pickle.loads(base64.b64decode(self.process.stdout.readline()))
        if isinstance(answer, SourceError):
            raise answer
        return answer

    def both(self, call: str) -> tuple[Any, Any]:
        return self.ask(f"commands.{call}"), self.ask(f"bindings.{call}")

    def helpers(self) -> set[int]:
        """The helper processes that run for it now."""
        found = set()
        for path in Path("/proc").glob("[0-9]*"):
            try:
                if b"htcondor_server.py" in (path / "cmdline").read_bytes():
                    found |= {int(path.name)} if self.process.pid in parents(path) else set()
            except (FileNotFoundError, ProcessLookupError):
                continue
        return found


def parents(process: Path) -> list[int]:
    parent = int((process / "status").read_text().partition("PPid:")[2].split()[0])
    return [parent, *parents(Path(f"/proc/{parent}"))] if parent > 1 else []


@pytest.fixture
def head(cluster: Cluster) -> Iterator[Head]:
    head = Head()
    yield head
    head.process.kill()
    head.process.communicate()


def waiting(jobs: Jobs) -> dict[int, JobGroup]:
    """The groups that wait, by the cluster of one of their jobs."""
    return {int(group.sample_job.partition(".")[0]): group for group in jobs.groups if group.waiting}


def no_sample(jobs: Jobs) -> set[JobGroup]:
    return {replace(group, sample_job="") for group in jobs.groups}


def test_both_methods_say_the_same_of_queue_and_workers(cluster: Cluster, machine: str, head: Head) -> None:
    cluster.run_on(MACHINE, 120)
    cluster.submit(3, 60, "hold = true")
    cluster.submit(20, 60, "max_idle = 5", "request_cpus = 99")
    own = cluster.submit(
        2, 60, "requirements = Memory > MY.WantMemory && HasDocker", "My.WantMemory = 64 * RequestCpus"
    )
    gpus = cluster.submit(2, 60, "request_gpus = 1", "require_gpus = Capability > 7")
    wait_for(lambda: len(cluster.jobs(IDLE)) == 9, 20, "the factory makes its first jobs")
    one, other = head.both("jobs()")
    # the negotiator may mark a job in between, and then another one is the sample
    assert no_sample(one) == no_sample(other) and one.missing == other.missing == ()
    assert len(waiting(one)) == 3 and sum(group.running or 0 for group in one.groups) == 1
    assert any(line.startswith("wantmemory = ") for line in waiting(one)[own].ad)
    assert any(line.startswith("requiregpus = ") for line in waiting(one)[gpus].ad)
    assert head.both(f"jobs_recorded_on([{MACHINE!r}, 'other'])") == ({MACHINE: 1, "other": 0},) * 2
    for call in (f"find_job('{own}.1')", f"portrait({MACHINE!r})"):  # two reads, and things change in between
        wait_for(lambda call=call: len(set(head.both(call))) == 1, 10, f"the same answer to {call}")

    def same_workers() -> bool:  # they are two reads, of ads that are sent every 5 s
        first, second = head.both("workers()")
        assert isinstance(first, Workers)
        return bool(first.workers and (first.workers, first.missing) == (second.workers, second.missing))

    wait_for(same_workers, 10, "the same workers")


def test_a_job_is_matched_as_the_negotiator_does_it(cluster: Cluster, machine: str, head: Head) -> None:
    cluster.run_on(MACHINE, 120)
    mine = {
        "": cluster.submit(1, 60, "request_cpus = 3"),
        "HasDocker": cluster.submit(1, 60, "requirements = HasDocker"),
        "Memory > 9000": cluster.submit(1, 60, f'requirements = Memory > 9000 && Machine != "{MACHINE}"'),
        "OpSysAndVer": cluster.submit(1, 60, 'requirements = regexp("^Ubuntu\\d+", OpSysAndVer) || Arch == "ARM"'),
    }
    wait_for(lambda: {job["ClusterId"] for job in cluster.jobs(RUNNING)} >= {mine[""]}, 20, "the job that matches runs")
    assert {job["ClusterId"] for job in cluster.jobs(IDLE)} == {*mine.values()} - {mine[""]}
    cluster.submit(1, 60, "request_cpus = 3")  # waits: of the same group as the one that runs
    portrait = wait_for(lambda: head.ask(f"commands.portrait({MACHINE!r})"), 10, "its ad shows that it ran a job")
    made_up = Resources(cpus=4, memory_mb=8192, disk_mb=50_000)
    machines = [Machine("ec2", "a", Resources(), portrait), Machine("ec2", "b", made_up)]
    groups = list(head.ask("commands.jobs()").groups)
    said = head.ask(f"commands.match(*pickle.loads({pickle.dumps((groups, machines))!r}))")
    by_cluster = waiting(Jobs(tuple(groups)))
    for what, cluster_id in mine.items():
        key = next(group.key for number, group in by_cluster.items() if number == cluster_id) if what else None
        for one in machines:
            reason = said[key, one] if key else ""
            assert what in reason and bool(reason) == bool(what), (what, reason)
    plain = next(group for group in groups if group.request.cpus == 3)
    assert [said[plain.key, one] for one in machines] == ["", ""], "the portrait is of an empty machine"
    assert "had no HasDocker" in said[by_cluster[mine["HasDocker"]].key, machines[0]]
    assert "Memory = 8192" in said[by_cluster[mine["Memory > 9000"]].key, machines[0]]
    assert 'OpSysAndVer = "Debian13"' in said[by_cluster[mine["OpSysAndVer"]].key, machines[0]]


def test_a_job_whose_requirements_no_machine_meets_costs_nothing_and_is_told_why(
    cluster: Cluster, daemon: StartDaemon
) -> None:
    elastiq = daemon(htcondor={"query_method": "bindings"}, elastiq={"idle_for_time_s": 2})
    impossible = cluster.submit(1, 1, "requirements = HasDocker")

    def reason() -> str:
        told = [group["reason"] for group in elastiq.status().get("queue", {}).get("groups", ()) if group["waiting"]]
        return str(told[0]) if told else ""

    wait_for(lambda: "no worker of this pool is known to have HasDocker" in reason(), 30, "it is told")
    cluster.submit(1, 1, "request_cpus = 2", 'requirements = Machine != "ip-172-31-200-9.ec2.internal"')
    wait_for(lambda: [job["ClusterId"] for job in cluster.jobs()] == [impossible], 60, "the other one ran")
    wait_for(lambda: "the last worker of this pool had no HasDocker" in reason(), 30, "by now it is known better")
    wait_for(lambda: not cluster.ec2.alive(), 60, "the machine is ended")
    assert len(cluster.launch_calls()) == 1 and len(cluster.ec2.instances()) == 1
    assert elastiq.stop() == 0


@pytest.mark.parametrize(
    ("how", "said"), [(signal.SIGKILL, "ended with signal 9"), (signal.SIGSTOP, "did not answer within 2 s")]
)
def test_a_helper_that_is_harmed_in_a_call_costs_that_call(
    cluster: Cluster, head: Head, how: signal.Signals, said: str
) -> None:
    head.ask("hasty.workers()")
    (helper,) = head.helpers()
    collector = htcondor.collector_pid()
    os.kill(collector, signal.SIGSTOP)  # so that there is a middle of the call
    try:
        threading.Timer(0.5, os.kill, (helper, how)).start()
        with pytest.raises(SourceError, match=said):
            head.ask("hasty.workers()")
        assert head.took_s < 4
    finally:
        os.kill(collector, signal.SIGCONT)
    wait_for(lambda: helper not in head.helpers(), 5, "the helper is gone")
    assert head.ask("hasty.workers()").missing == ()


def test_a_silent_collector_costs_a_deadline_and_one_that_came_back_is_asked(cluster: Cluster, head: Head) -> None:
    head.ask("hasty.workers()")
    collector = htcondor.collector_pid()
    os.kill(collector, signal.SIGSTOP)
    try:
        with pytest.raises(SourceError, match="did not answer within 2 s"):
            head.ask("hasty.workers()")
        assert head.took_s < 4
    finally:
        os.kill(collector, signal.SIGCONT)
    head.ask("hasty.workers()")
    htcondor.switch_collector(False)
    try:
        for call in ("hasty.workers()", "hasty.jobs()"):
            with pytest.raises(SourceError, match="failed by the bindings: Failed communication with collector"):
                head.ask(call)
    finally:
        htcondor.switch_collector(True)
    assert head.ask("hasty.workers()").workers == ()
    wait_for(lambda: "head.rig" in head.ask("hasty._known_schedds()"), 20, "the schedd reports again")
    assert head.ask("hasty.jobs()").complete


def test_the_helper_ends_when_the_head_is_killed(head: Head) -> None:
    head.ask("bindings.workers()")
    (helper,) = head.helpers()
    head.process.kill()
    wait_for(lambda: not Path(f"/proc/{helper}").exists(), 5, "the helper goes")


@pytest.fixture(params=["htcondor2 23.", "htcondor 23."])
def older(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Any]:
    """Ask the modules that the rig's Debian has, newer and older ones."""
    place = places.root() / "tmp/older"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    shutil.copy(SERVER, place)
    if request.param.startswith("htcondor "):
        (place / "hide").mkdir()
        (place / "hide/htcondor2.py").write_text("raise ImportError\n")
    environment = ["env", "CONDOR_CONFIG=/pool/head/condor_config", "PYTHONPATH=/tmp/older/hide"]
    argv = [*environment, "/usr/bin/python3", "-W", "ignore", f"/tmp/older/{SERVER.name}"]
    pipe = subprocess.PIPE
    process = subprocess.Popen(network.in_root(places.HUB, argv), stdin=pipe, stdout=pipe, text=True)
    stdin, stdout = process.stdin, process.stdout
    assert stdin is not None and stdout is not None

    def ask(**request: Any) -> Any:
        stdin.write(json.dumps({"timeout_s": 30, **request}) + "\n")
        stdin.flush()
        return json.loads(stdout.readline())

    assert ask(do="version")["version"].startswith(request.param)
    yield ask
    stdin.close()
    assert process.wait(60) == 0, "it ends with its input"
    shutil.rmtree(place)


def test_the_modules_of_the_distribution_answer_the_same(
    cluster: Cluster, machine: str, head: Head, older: Any
) -> None:
    cluster.run_on(MACHINE, 0)  # before that a worker shows nothing of itself
    wait_for(lambda: head.ask(f"commands.portrait({MACHINE!r})") and cluster.all_jobs_ran(), 20, "it ran a job")
    cluster.submit(3, 60, "requirements = HasDocker", "request_cpus = 2")
    attributes = ["JobStatus", "JobUniverse", "RequestCpus", "Requirements"]
    query = {"pool": "", "name": "head.rig", "group_by": True, "attributes": attributes, "constraint": "JobStatus == 1"}
    said = older(do="condor_q", **query)
    args = ("-name", "head.rig", "-group-by", "-attributes", ",".join(attributes), "-constraint", "JobStatus == 1")
    (row,) = head.ask(f"bindings._ask('condor_q', *{args!r})")
    assert [{name.lower(): value for name, value in ad.items()} for ad in said] == [row]
    assert "error" in older(do="condor_q", **{**query, "name": "nobody"})
    status = {"pool": "", "kind": "Any", "attributes": ["MyType", "Machine"], "constraint": 'MyType == "Machine"'}
    assert {ad["Machine"] for ad in older(do="condor_status", **status)} == {MACHINE}
    (group,) = head.ask("commands.jobs()").groups
    portrait = head.ask(f"commands.portrait({MACHINE!r})")
    plain = JobGroup("plain", Resources(cpus=4, memory_mb=8192), 1)
    drawn = [
        Machine("ec2", "a", Resources(), portrait),
        Machine("ec2", "b", Resources(4), worker_ad=("START = false",)),
    ]
    sides = {"jobs": [*map(job_ad, (group, plain))], "machines": [*map(would_be, drawn)]}
    told = older(do="match", **sides, passing=PASSING.pattern, varying=VARYING.pattern)
    ours = head.ask(f"bindings.match(*pickle.loads({pickle.dumps(([group, plain], drawn))!r}))")
    keys = [group.key, plain.key]
    refused = {(keys[job], drawn[place]): told["reasons"][why] for job, place, why in told["pairs"]}
    assert refused == {pair: why for pair, why in ours.items() if why}
    assert set(refused) == {(group.key, drawn[0]), (group.key, drawn[1]), (plain.key, drawn[1])}
