"""What `elastiqctl explain` picks out of a status, and what it and `plan` say of names, times and doubts."""

from __future__ import annotations

import contextlib
import io
import json
import os
import threading
import time
from argparse import Namespace
from functools import partial
from pathlib import Path
from typing import Any, Mapping, Optional, Sequence

import pytest

from elastiq import identity
from elastiq.cli import commands, explain, once, plan
from elastiq.daemon import Daemon
from elastiq.errors import SourceError, UnsupportedError
from elastiq.interfaces import Instances, JobGroup, Jobs, Machine, Resources
from elastiq.paths import Paths
from elastiq.telling import local
from tests.unit.fakes import FakeBatch, FakeCloud, Surroundings
from tests.unit.values import a_pool, some_settings

BUSY: dict[str, Any] = {
    "id": "i-1", "node": "launch.0", "state": "busy", "worker": "w1.example.com", "pool": "ec2", "flavour": "m1",
    "since": 0.0, "explanation": "busy: runs 1 job",
}  # fmt: skip
IDLE = {**BUSY, "id": "i-2", "node": "launch.1", "state": "idle", "worker": "w2", "explanation": "may go at 12:00"}
BOOTING = {**BUSY, "id": "i-3", "node": "launch.2", "state": "booting", "worker": None, "explanation": "booting"}
GROUP: dict[str, Any] = {
    "key": "abc", "sample_job": "12.0", "waiting": 3, "matchable": True, "cpus": 4, "memory_mb": None, "gpus": None,
    "explanation": "free room on w2 (i-2)",
}  # fmt: skip
STATUS: dict[str, Any] = {
    "version": "2.0",
    "queue": {"groups": [GROUP], "age_s": 7.0},
    "nodes": [BUSY, IDLE, BOOTING],
    "pools": [{"name": "ec2", "site": "aws", "detail": ["0 machines count"]}],
    "strangers": [{"worker": "desk.example.com", "explanation": "no machine of elastiq's"}],
    "no_launch": "",
    "no_end": "the workers were not read yet",
    "no_drain": "",
}


class Batch(FakeBatch):
    """Knows the jobs 12.0 and 12.1, of which the second is held, and 13.0, which came just now."""

    def find_job(self, job: str) -> tuple[str, str]:
        known = {"12.0": ("abc", "is idle"), "12.1": ("", "is held"), "13.0": ("new", "is idle")}
        if job not in known:
            raise SourceError(f"no queue holds job {job}")
        key, stands = known[job]
        return key, f"job {job} {stands}"


class Dumb(FakeBatch):
    def find_job(self, job: str) -> tuple[str, str]:
        raise UnsupportedError("this batch system cannot look up a single job")


def said(what: Optional[str], capsys: pytest.CaptureFixture[str], batch: type[FakeBatch] = Batch) -> str:
    assert explain.run(STATUS, what, False, batch) == 0
    return capsys.readouterr().out


def test_without_a_name_all_that_waits_and_is_not_busy_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(None, capsys)
    assert "! nothing is ended now: the workers were not read yet" in text
    assert "free room on w2 (i-2)" in text and "may go at 12:00" in text and "booting" in text
    assert "i-1" not in text


@pytest.mark.parametrize("name", ["i-1", "launch.0", "w1.example.com", "w1", "W1.Example.com"])
def test_a_node_goes_by_its_ids_and_by_its_worker_s_name(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = said(name, capsys)
    assert "busy: runs 1 job" in text and "i-2" not in text


def test_a_pool_and_a_worker_that_is_no_node_go_by_their_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert said("ec2", capsys) == "pool ec2 at aws\n  0 machines count\n"
    assert said("desk", capsys) == "desk.example.com: no machine of elastiq's\n"


def test_a_job_is_told_with_its_group(capsys: pytest.CaptureFixture[str]) -> None:
    text = said("12.0", capsys)
    assert text.startswith("job 12.0 is idle\n") and "free room on w2 (i-2)" in text
    assert said("12.1", capsys) == "job 12.1 is held\n"


def test_a_job_that_came_since_the_queue_was_read_is_said_to_be_new(capsys: pytest.CaptureFixture[str]) -> None:
    assert said("13.0", capsys) == (
        "job 13.0 is idle; jobs like it were not there when the queue was read 7 s ago: the next read shows them\n"
    )


def test_where_no_job_can_be_looked_up_the_examples_of_the_groups_can(capsys: pytest.CaptureFixture[str]) -> None:
    assert said("12.0", capsys, Dumb).startswith("job 12.0 waits\n")
    assert explain.run(STATUS, "12.7", False, Dumb) == 1
    assert capsys.readouterr().err == "elastiqctl: this batch system cannot look up a single job\n"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("i-22", "did you mean i-2?"),
        ("ec3", "did you mean ec2?"),
        ("desk.exampel.com", "did you mean desk.example.com?"),
        ("nobody", "`elastiqctl status` lists nodes and pools; nor a job: no queue holds job nobody"),
    ],
)
def test_a_name_that_nothing_has_is_one_line(name: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert explain.run(STATUS, name, False, Batch) == 1
    assert capsys.readouterr().err == f"elastiqctl: no node, worker or pool is called {name}: {hint}\n"


def test_a_job_may_be_called_as_its_batch_system_likes(capsys: pytest.CaptureFixture[str]) -> None:
    class Tasks(Batch):
        def find_job(self, job: str) -> tuple[str, str]:
            return super().find_job({"eaa9b731-02": "12.0"}.get(job, job))

    assert explain.run(STATUS, "eaa9b731-02", False, Tasks) == 0
    assert capsys.readouterr().err == ""


def test_a_job_that_no_queue_holds_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert explain.run(STATUS, "99.0", False, Batch) == 1
    assert capsys.readouterr() == ("", "elastiqctl: no queue holds job 99.0\n")


def test_a_program_gets_the_entries_of_the_status(capsys: pytest.CaptureFixture[str]) -> None:
    assert explain.run(STATUS, "i-2", True, Batch) == 0
    assert json.loads(capsys.readouterr().out) == {"nodes": [IDLE]}
    assert explain.run(STATUS, "12.0", True, Batch) == 0
    assert json.loads(capsys.readouterr().out) == {"job": "12.0", "standing": "job 12.0 is idle", "groups": [GROUP]}


# --------------------------------------------------------------------------- times


def test_a_time_is_told_as_exactly_as_it_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Rome")
    time.tzset()
    try:
        now = 1_700_000_000.0  # 23:13:20 there
        assert local(now + 20, now) == "23:13:40"
        assert local(now + 3600, now) == "00:13"
        assert local(now + 90_000, now) == "2023-11-16 00:13"
    finally:
        monkeypatch.undo()
        time.tzset()


# --------------------------------------------------------------------------- who plans


def test_the_plan_is_that_of_the_user_whose_the_state_is(tmp_path: Path) -> None:
    """Root asks, and the daemon runs as another user: the machines are that user's."""
    settings = some_settings()
    (tmp_path / "elastiq.db").touch()
    if os.geteuid() == 0:
        os.chown(tmp_path / "elastiq.db", 4711, 4711)
    whose = (tmp_path / "elastiq.db").stat().st_uid
    assert once.owner_of(settings, tmp_path) == identity.owner("test", tmp_path, uid=whose)
    assert once.owner_of(settings, tmp_path / "none") == identity.owner("test", tmp_path)


def test_a_machine_without_an_id_gets_none_by_a_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "_MACHINE_ID", {})
    with pytest.raises(identity.IdentityError, match="when it first starts"):
        once.owner_of(some_settings(), tmp_path)
    assert list(tmp_path.iterdir()) == []
    owner = identity.owner("test", tmp_path)  # the daemon's first start
    assert once.owner_of(some_settings(), tmp_path) == owner


# --------------------------------------------------------------------------- why it may not happen


def test_doubts_about_a_plan_are_told() -> None:
    settings = some_settings(dry_run_boot_vms=True, dry_run_shutdown_vms=True)
    mine = {"cluster": "test", "head": "abc"}
    notices = partial(plan._notices, settings, mine)
    assert list(notices(None)) == [
        "dry_run_boot_vms is set: elastiq only logs it", "dry_run_shutdown_vms is set: elastiq only logs it"
    ]  # fmt: skip
    other = {"cluster": "test", "head": "def", "no_launch": "the store cannot be written"}
    assert list(notices(other))[:2] == [
        "the elastiq that runs is of head def, this plan is for abc: it knows nothing of what is planned here",
        "the elastiq that runs launches nothing now: the store cannot be written",
    ]


# --------------------------------------------------------------------------- what the running daemon knows


def test_how_long_groups_have_waited_is_taken_from_the_daemon_that_saw_it() -> None:
    groups = [
        {"key": "old", "waiting": 5, "waited": 3, "waiting_s": 100.0},
        {"key": "new", "waiting": 2, "waited": 0, "waiting_s": 10.0},
    ]
    history = once._waited({"queue": {"groups": groups}}, 1000.0, 40.0)
    seen = [JobGroup("old", Resources(), 6), JobGroup("new", Resources(), 2), JobGroup("newer", Resources(), 1)]
    history.observe(1000.0, Jobs(tuple(seen)))
    assert [history.waited(key) for key in ("old", "new", "newer")] == [3, 0, 0]
    assert [history.waiting_s(key, 1000.0) for key in ("old", "new", "newer")] == [100.0, 10.0, 0.0]


def test_what_is_held_back_is_taken_over_with_the_time_that_is_left() -> None:
    surroundings = Surroundings()
    daemon = Daemon(surroundings.core)
    core, now = surroundings.core, surroundings.now()
    block = {"scope": "pool ec2", "until": core.wall() + 50.0, "wait_s": 60.0, "reason": "the account's limit"}
    once._take_over(daemon, {"nodes": [], "blocks": [block], "queue": {"groups": []}})
    offer = surroundings.settings.pools[0].offers()[0]
    assert core.health.blocked(offer, "aws", now + 45) == (
        "pool ec2 is held back for another 5 s: the account's limit"
    )
    assert not core.health.blocked(offer, "aws", now + 51)


# --------------------------------------------------------------------------- what does not answer


class Hanging(FakeCloud):
    """Never answers, and says nothing of it."""

    call_deadline_s = 0.1

    def __init__(self, leave: threading.Event) -> None:
        super().__init__()
        self._leave = leave

    def instances(self, known: frozenset[str]) -> Instances:
        self._leave.wait(600)
        return Instances(())


def test_a_site_that_hangs_is_given_up_and_delays_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    leave, batch = threading.Event(), FakeBatch()
    batch.script.answers["jobs"] = Jobs((JobGroup("g", Resources(cpus=1), 3),))
    settings = some_settings(pools=(a_pool("far", site="far"), a_pool("near", site="near")))
    monkeypatch.setattr(once, "plugins", lambda *_: (batch, {"far": Hanging(leave), "near": FakeCloud()}))
    monkeypatch.setattr("elastiq.core.MARGIN_S", 0.1)
    monkeypatch.setattr(once, "PATIENCE_S", 0.05)
    paths = Paths.of(None, *(str(tmp_path / name) for name in ("log", "state", "run")))
    try:
        made = plan.look(settings, paths, None, None)
    finally:
        leave.set()
    errors = {source["name"]: source["error"] for source in made["sources"]}
    assert errors == {"the queue": "", "the workers": "", "site far": "no answer within 0.2 s", "site near": ""}
    assert [(one["pool"], one["count"]) for one in made["launch"]] == [("near", 1)]
    assert not plan.known(made)
    assert capsys.readouterr().err == "elastiqctl: no answer yet from: cloud far\n"
    assert list(tmp_path.iterdir()) == []


class Matching(FakeBatch):
    """Runs its jobs on machines of the pool `near` alone."""

    can_match = True

    def match(
        self, groups: Sequence[JobGroup], machines: Sequence[Machine]
    ) -> Mapping[tuple[str, Machine], str]:
        why = {"near": "", "far": "its START refuses them"}
        return {(group.key, machine): why[machine.pool] for group in groups for machine in machines}


def test_what_the_batch_system_says_of_would_be_workers_is_asked_in_the_same_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = Matching()
    batch.script.answers["jobs"] = Jobs((JobGroup("g", Resources(cpus=1), 3), JobGroup("h", Resources(cpus=64), 1)))
    settings = some_settings(
        pools=(a_pool("far", site="far"), a_pool("near", site="near")), waiting_jobs_time_s=900.0
    )
    monkeypatch.setattr(once, "plugins", lambda *_: (batch, {"far": FakeCloud(), "near": FakeCloud()}))
    made = plan.look(settings, Paths.of(None, *(str(tmp_path / name) for name in ("log", "state", "run"))), None, None)
    assert [(one["pool"], one["count"]) for one in made["launch"]] == [("near", 1)]
    assert {group["explanation"] for group in made["groups"]} == {
        "launching 1 of near/medium", "nothing fits: asks 64 cpus, the largest flavour has 4 cpus"
    }  # fmt: skip
    assert "it cannot run 1 waiting job of 64 cpus and 3 waiting jobs of 1 cpu" in made["pools"][0]["detail"]


def test_an_elastiq_of_another_version_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    old = {"status": {"version": "1.9", "queue": {"groups": []}, "nodes": [], "pools": []}, "pid": 1}
    monkeypatch.setattr(commands, "ask", lambda *_: old)
    errors = io.StringIO()
    with contextlib.redirect_stderr(errors):
        code = commands.explain(Paths.of(str(tmp_path / "conf")), Namespace(what=None, json=False))
    assert code == 1
    assert errors.getvalue() == "elastiqctl: elastiq 1.9 runs, another version than this elastiqctl: restart it\n"
