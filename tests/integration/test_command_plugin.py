"""Real executables behind [command]: how they are called, and what is made of those that misbehave."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from elastiq import config
from elastiq.inifile import ConfigError
from elastiq.interfaces import BatchSystem, DrainMode, DrainOutcome, Instance, InstanceState, Owner, SourceError
from elastiq.plugins.batch.command import MAX_OUTPUT, PASSED_ON, Command
from tests.integration.fake_command import FakeQueue
from tests.looks import found
from tests.waiting import PATIENCE_S

OWNER = Owner("physics", "0123456789abcdef0123")
FEW = ("jobs", "workers")


@pytest.fixture
def queue(tmp_path: Path) -> FakeQueue:
    return FakeQueue(tmp_path / "queue")


def plugin(program: Path, *keys: str, timeout_s: float = 20.0) -> BatchSystem:
    """With these executables, or with all."""
    values: dict[str, Any] = dict.fromkeys(option.name for option in Command.OPTIONS)
    values.update({key: str(program) for key in keys or values}, command_timeout_s=timeout_s)
    return Command.from_config(values, OWNER)


def script(folder: Path, text: str) -> Path:
    path = folder / "script"
    path.write_text(text)
    path.chmod(0o755)
    return path


def complaint(call: Any, *args: Any) -> str:
    with pytest.raises(SourceError) as caught:
        call(*args)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --------------------------------------------------------------------------- how they are called


def test_an_executable_gets_its_key_its_arguments_and_who_asks(queue: FakeQueue) -> None:
    batch = plugin(queue.program)
    queue.add_worker("Node-1", "10.0.0.1", cpus=4, memory_mb=8000)
    batch.workers()
    batch.drain("node-1", DrainMode.IF_IDLE)
    batch.undrain("node-1")
    batch.jobs_recorded_on(["node-1", "gone"])
    batch.register(Instance("i-1", InstanceState.RUNNING, frozenset({"10.0.0.2", "10.0.0.3"}), flavour="f", pool="p"))
    calls = {call["key"]: call["args"] for call in queue.calls()}
    assert calls == {
        "workers": [],
        "drain": ["Node-1", "if_idle"],
        "undrain": ["Node-1"],
        "recorded": ["Node-1", "gone"],
        "register": ["i-1", "10.0.0.2", "10.0.0.3"],
    }
    told = {name: value for name, value in queue.calls("register")[0]["environment"].items() if "ELASTIQ" in name}
    assert told == {
        "ELASTIQ_CLUSTER": "physics",
        "ELASTIQ_MARK": "0123456789abcdef",
        "ELASTIQ_REASON": "elastiq 0123456789abcdef of physics",
        "ELASTIQ_POOL": "p",
        "ELASTIQ_FLAVOUR": "f",
    }


def test_an_executable_gets_no_more_of_the_daemons_environment_than_it_needs(
    queue: FakeQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "verysecret")
    monkeypatch.setenv("https_proxy", "http://user:password@proxy")
    plugin(queue.program).jobs()
    (call,) = queue.calls("jobs")
    ours = {name for name in call["environment"] if name.startswith("ELASTIQ_")}
    assert call["environment"].keys() - ours <= {*PASSED_ON, "PWD", "SHLVL", "_", "LC_CTYPE"}


def test_the_first_act_after_a_restart_asks_how_the_worker_is_spelt(queue: FakeQueue) -> None:
    queue.add_worker("Node-1", "10.0.0.1", cpus=4, memory_mb=8000)
    assert plugin(queue.program).drain("node-1", DrainMode.IF_IDLE).outcome is DrainOutcome.DRAINED


@pytest.mark.parametrize("name", ["", "-f", "a\nb", "a\0b"])
def test_what_could_be_an_option_or_no_argument_is_not_passed_on(queue: FakeQueue, name: str) -> None:
    batch = plugin(queue.program)
    for call in (batch.undrain, batch.forget, batch.jobs_on, batch.find_job):
        assert "cannot be an argument of" in complaint(call, name)
    assert {call["key"] for call in queue.calls()} <= {"workers"}


# --------------------------------------------------------------------------- what is made of what they do


@pytest.mark.parametrize(
    ("does", "said"),
    [
        ("fail", "failed with exit code 1: cannot reach the server"),
        ("blank", 'jobs printed nothing; of none, print {"jobs": []}'),
        ("cut", "jobs printed no JSON ("),
        ('{"jobs": [{"cpus": "4"}]}', 'jobs printed jobs[0].cpus: "4", expected a number above 0'),
        ("flood", f"wrote more than {MAX_OUTPUT:,} bytes, killed (`jobs` in [command])"),
    ],
)
def test_a_fault_is_told_with_the_executable_and_is_unknown(queue: FakeQueue, does: str, said: str) -> None:
    queue.submit(3)
    queue.once("jobs", does)
    told = complaint(plugin(queue.program).jobs)
    assert said in told and str(queue.program) in told
    assert sum(group.waiting for group in plugin(queue.program).jobs().groups) == 3


def test_an_executable_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    hangs = script(tmp_path, f"#!/bin/sh\nsleep 300 &\necho $! >{tmp_path}/child\nsleep 300\n")
    began = time.monotonic()
    assert "did not end within 3 s, killed (`jobs` in [command])" in complaint(plugin(hangs, *FEW, timeout_s=3.0).jobs)
    assert time.monotonic() - began < PATIENCE_S, "not at its own end"
    child = Path("/proc") / (tmp_path / "child").read_text().strip() / "stat"
    assert not child.exists() or child.read_text().rpartition(")")[2].split()[0] == "Z"


@pytest.mark.parametrize(
    ("text", "mode", "said"),
    [
        ("#!/bin/sh\n", 0o644, "cannot be executed: Permission denied"),
        ("jobs\n", 0o755, "could not be started: Exec format error"),
        ("#!/no/such/interpreter\n", 0o755, "cannot be executed: No such file or directory"),
    ],
)
def test_what_is_no_program_is_told(tmp_path: Path, text: str, mode: int, said: str) -> None:
    path = script(tmp_path, text)
    path.chmod(mode)
    batch = plugin(path, *FEW)
    assert said in complaint(batch.jobs)
    assert {check.level for check in found({"executables": batch.checks()["executables"]})} <= {"error", "ok"}
    assert "error" in {check.level for check in found(batch.checks())}


@pytest.mark.parametrize(
    ("first_line", "said"),
    [
        (b"#!/no/such\n", "cannot start: its interpreter `/no/such` does not exist"),
        (b"#! /bin/sh\r\n", r"its interpreter `/bin/sh\r` does not exist (line ends of Windows?)"),
        (b"#!/bin/sh -eu\r\n", "the line ends of Windows"),
        (b"#!/usr/bin/env no-such-python -I\n", "its interpreter `no-such-python` does not exist"),
        (b"#!/usr/bin/env -S sh\r\n", r"its interpreter `sh\r` does not exist (line ends of Windows?)"),
        (b"#!/bin/sh -eu\n", ""),
        (b"#!/usr/bin/env -S LC_ALL=C sh\n", ""),
    ],
)
def test_what_keeps_a_script_from_starting_is_told_as_that(tmp_path: Path, first_line: bytes, said: str) -> None:
    path = script(tmp_path, "")
    path.write_bytes(first_line)
    checks = list(plugin(path, *FEW).checks()["executables"]())
    assert {check.level for check in checks} == {"error" if said else "ok"}
    assert all(said in check.text and "\r" not in check.text for check in checks)


def test_a_directory_is_no_executable(tmp_path: Path) -> None:
    check, _ = plugin(tmp_path, *FEW).checks()["executables"]()
    assert check.level == "error" and check.text.endswith(f"{tmp_path} is a directory")


@pytest.mark.parametrize(
    ("code", "mode", "outcome"),
    [
        (0, "if_idle", DrainOutcome.DRAINED),
        (0, "peaceful", DrainOutcome.DRAINED),
        (200, "if_idle", DrainOutcome.BUSY),
        (200, "peaceful", None),
        (201, "if_idle", DrainOutcome.REFUSED),
        (201, "peaceful", DrainOutcome.REFUSED),
        (1, "if_idle", None),
        (2, "if_idle", None),
        (127, "if_idle", None),
        (255, "peaceful", None),
    ],
)
def test_the_exit_code_of_a_drain_is_its_outcome(tmp_path: Path, code: int, mode: str, outcome: Any) -> None:
    drains = script(tmp_path, f'#!/bin/sh\n[ "$1" = drain ] && exit {code}\necho \'{{"workers": []}}\'\n')
    batch = plugin(drains, *FEW, "drain", "undrain")
    if outcome is None:
        assert f"failed with exit code {code}" in complaint(batch.drain, "w1", DrainMode(mode))
    else:
        answer = batch.drain("w1", DrainMode(mode))
        assert answer.outcome is outcome and (outcome is DrainOutcome.DRAINED or answer.detail)


# --------------------------------------------------------------------------- without the optional ones


def test_running_jobs_are_those_that_jobs_lists_where_it_lists_all(queue: FakeQueue) -> None:
    batch = plugin(queue.program, *FEW)
    queue.add_worker("w1", "10.0.0.1", cpus=4, memory_mb=8000)
    queue.start_job("w1", cpus=1)
    assert batch.jobs_recorded_on(["w1", "w2"]) == {"w1": 1, "w2": 0}
    assert batch.jobs_on("w1") == ("1",)
    assert not queue.calls("recorded")


def test_running_jobs_are_unknown_where_nothing_tells_them(queue: FakeQueue) -> None:
    batch = plugin(queue.program, *FEW)
    queue.once("jobs", '{"jobs": []}')
    assert "set `recorded` in [command], or let `jobs` say lists_running" in complaint(batch.jobs_recorded_on, ["w1"])
    queue.once("jobs", '{"jobs": [], "lists_running": true, "missing": ["server2"]}')
    assert "incomplete: server2" in complaint(batch.jobs_recorded_on, ["w1"])


@pytest.mark.parametrize("keys", [FEW, (*FEW, "find_job")])
def test_one_job_is_found_with_how_it_stands(queue: FakeQueue, keys: tuple[str, ...]) -> None:
    batch = plugin(queue.program, *keys)
    queue.submit(1, cpus=2)
    queue.submit(1, state="held", detail="held by alice")
    queue.submit(1, state="running", workers=["w1"])
    queue.submit(1, not_eligible="waits for a licence")
    (key,) = [group.key for group in batch.jobs().groups if group.request.cpus == 2]
    assert batch.find_job("1") == (key, "waiting")
    assert batch.find_job("2") == ("", "held: held by alice")
    assert batch.find_job("3") == ("", "running on w1")
    assert batch.find_job("4") == ("", "waiting: waits for a licence")
    assert "lists no job 5" in complaint(batch.find_job, "5")


def test_what_is_not_configured_is_not_called(queue: FakeQueue) -> None:
    batch = plugin(queue.program, *FEW)
    assert not (batch.can_drain or batch.keeps_records)
    assert batch.drain("w1", DrainMode.IF_IDLE).outcome is DrainOutcome.REFUSED
    batch.undrain("w1")
    batch.forget("w1")
    batch.register(Instance("i-1", InstanceState.RUNNING))
    batch.unregister(Instance("i-1", InstanceState.RUNNING))
    assert {call["key"] for call in queue.calls()} <= {"workers"}


# --------------------------------------------------------------------------- checks and configuration


def levels(batch: BatchSystem) -> dict[str, str]:
    return {check.subject: check.level for check in found(batch.checks())}


def test_checks_run_what_reads_and_tell_what_it_said_and_how_long_it_took(queue: FakeQueue) -> None:
    queue.add_worker("w1", "10.0.0.1", cpus=4, memory_mb=8000)
    queue.start_job("w1", cpus=1)
    queue.submit(2, cpus=1)
    batch = plugin(queue.program)
    texts = {check.subject: check.text for check in found(batch.checks())}
    assert set(levels(batch).values()) == {"ok"}
    assert texts["jobs"].startswith("valid: 2 waiting, in 1 group, 1 running, in ") and texts["jobs"].endswith(" s")
    assert texts["workers"].startswith("valid: 1 worker, in ")
    assert texts["recorded jobs"].startswith("valid: 1 on 1 worker, in ")
    assert {call["key"] for call in queue.calls()} == {"jobs", "workers", "recorded"}


def test_checks_find_what_would_go_wrong_later(queue: FakeQueue, tmp_path: Path) -> None:
    queue.program.chmod(0o757)
    batch = plugin(queue.program, *FEW)
    assert levels(batch)["executables"] == levels(batch)["drain"] == "warning"
    queue.once("workers", '{"workers": [{"name": "w1", "state": "idle"}]}')
    assert levels(batch)["workers"] == "warning"  # which machine is it?
    queue.once("jobs", '{"jobs": [{}, {"state": "running"}]}')
    (check,) = batch.checks()["jobs"]()
    assert "valid: 1 waiting, in 1 group, those that run not counted: it does not say lists_running, in" in check.text
    queue.once("jobs", '{"jobs": [], "missing": ["server2"]}')
    assert levels(batch)["jobs"] == "warning"
    slow = script(tmp_path, "#!/bin/sh\nsleep 0.6\necho '{\"jobs\": []}'\n")
    (check,) = plugin(slow, *FEW, timeout_s=1.0).checks()["jobs"]()
    assert check.level == "warning" and "of the 1 s that it has" in check.text


def test_the_configuration_takes_paths_relative_to_its_file_and_wants_those_that_go_together(tmp_path: Path) -> None:
    head = (
        "[elastiq]\ncluster_name = c\nbatch_plugin = command\n[ec2]\nregion = r\nimage_id = i\nflavour = f\n[command]\n"
    )
    path = tmp_path / "elastiq.conf"
    path.write_text(f"{head}jobs = my queue\nworkers = /bin/w\n")
    loaded = config.load(path)
    assert loaded.settings.batch_options["jobs"] == str(tmp_path / "my queue")
    assert [text.partition("[command] ")[2][:17] for text in loaded.warnings] == ["drain: is not set"]
    path.write_text(f"{head}jobs = j\nworkers = w\ndrain = d\nregister = r\n")
    with pytest.raises(ConfigError) as caught:
        config.load(path)
    assert [problem.partition("[command] ")[2] for problem in caught.value.problems] == [
        "drain: is of no use without undrain, set both or neither",
        "register: is of no use without unregister, set both or neither",
    ]
