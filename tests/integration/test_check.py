"""`elastiqctl check` as a whole, with HTCondor's commands as a small program and an EC2 API over HTTP."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Optional
from unittest.mock import Mock

import boto3
import pytest

from elastiq import client, config
from elastiq.cli import check, service_user
from elastiq.interfaces import Check
from tests.ec2_server import KEYS, EC2Server, Rule, error, moto_reservations, moto_server
from tests.integration.test_plan_explain import Head
from tests.waiting import free_port, until


class Checked(Head):
    """Its flavour is one of the cloud's catalogue."""

    def configure(self, more: str = "", url: str = "", wait_s: float = 0, idle_s: float = 3600) -> None:
        super().configure(more, url, wait_s, idle_s)
        self.paths.config.write_text(self.paths.config.read_text().replace("m5.small", "m5.large"))


@pytest.fixture(scope="module")
def cloud() -> Iterator[EC2Server]:
    server = moto_server()
    yield server
    server.close()


@pytest.fixture
def head(cloud: EC2Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Head:
    for reservations in moto_reservations():
        reservations.clear()
    made = Checked(tmp_path, cloud.url)
    monkeypatch.setenv("PATH", f"{made.pool.bin}:/usr/bin:/bin")
    made.configure()
    cloud.forget()
    return made


def checks(head: Head, *words: str, code: int = 0, subject: str = "", source: str = "") -> dict[tuple[str, str], Any]:
    """The worst of each source and subject."""
    made = head.json("check", *words, code=code)
    assert sum(made["counts"].values()) == len(made["checks"]) and made["schema"] == 1
    order = list(made["counts"])
    found = sorted(made["checks"], key=lambda one: order.index(one["level"]))
    assert made["level"] == found[-1]["level"]
    return {(one["source"], one["subject"]): one for one in found}


def of(found: dict[tuple[str, str], Any], subject: str, source: Optional[str] = None) -> Any:
    (one,) = [one for (its, name), one in found.items() if name == subject and source in (None, its)]
    return one


def free_address() -> str:
    return f"127.0.0.1:{free_port()}"


def acts(cloud: EC2Server) -> list[dict[str, str]]:
    return [one for one in cloud.requests if not one["Action"].startswith("Describe")]


def test_a_head_node_in_order_passes_and_nothing_at_all_is_done(head: Head, cloud: EC2Server) -> None:
    head.pool.submit(3)
    head.pool.add_worker("w1", "10.0.0.1")
    state, configuration = head.pool.load(), head.paths.config.read_bytes()
    found = checks(head)
    assert {one["level"] for one in found.values()} <= {"ok", "warning"}
    assert of(found, "pool ec2: dry run of a launch")["level"] == "ok"
    assert {one.get("DryRun") for one in acts(cloud)} == {"true"}
    assert {one["Action"] for one in acts(cloud)} == {"RunInstances", "TerminateInstances", "CreateTags"}
    assert not any(True for reservations in moto_reservations() for _ in reservations)
    assert head.commands() <= {"condor_q", "condor_status", "condor_ping", "condor_config_val"}
    assert head.pool.load() == state and head.paths.config.read_bytes() == configuration
    assert head.files() == {} and not head.paths.statedir.exists()


def test_what_is_wrong_is_an_error_with_what_to_do(head: Head, cloud: EC2Server) -> None:
    cloud.script("DescribeImages", error("InvalidAMIID.NotFound", "The image id '[ami-12c6146b]' does not exist"))
    found = checks(head, code=1)
    image = of(found, "pool ec2: image")
    assert (image["level"], image["remedy"]) == ("error", "check image_id") and "InvalidAMIID" in image["text"]
    cloud.script("DescribeImages", error("InvalidAMIID.NotFound", "The image id '[ami-12c6146b]' does not exist"))
    done = head.ctl("check")
    assert done.code == 1 and "-> check image_id" in done.out and "\033" not in done.out


def test_warnings_are_errors_only_where_that_is_wanted(head: Head) -> None:
    assert of(checks(head), "workers and instances")["level"] == "warning"  # no worker yet
    assert head.ctl("check").code == 0
    assert head.ctl("check", "--strict").code == 1


def test_an_error_in_the_configuration_has_its_own_code_and_this_machine_is_looked_at_all_the_same(head: Head) -> None:
    head.configure("min_vms = many\nno_such_key = 1\n")
    made = head.json("check", code=78)
    wrong = [one for one in made["checks"] if one["source"] == "configuration"]
    assert [one["level"] for one in wrong] == ["error", "error"] and "min_vms" in wrong[0]["text"] + wrong[1]["text"]
    assert {one["source"] for one in made["checks"]} == {"configuration", "this machine"}
    head.paths.config.unlink()
    assert head.ctl("check").code == 78


def test_user_data_that_is_too_big_is_an_error_in_the_configuration(head: Head) -> None:
    (head.paths.config.parent / "data").write_bytes(b"#!/bin/sh\n" + b"x" * 16_384)
    head.configure("user_data_file = data\n")
    made = head.json("check", code=78)
    assert any("the limit is 16384" in one["text"] for one in made["checks"])


def test_unknown_is_not_ok_and_hides_nothing(head: Head, cloud: EC2Server) -> None:
    head.configure("read_timeout_s = 4\n")
    cloud.script("DescribeInstances", *[Rule(delay_s=6.0, passes=True)] * 12)
    found = checks(head, "--timeout", "8", code=4)
    site = of(found, "endpoint and credentials")["source"]
    late = of(found, "endpoint and credentials")
    assert late["level"] == "unknown" and "no answer within 8 s" in late["text"]
    assert of(found, "pool ec2: user data")["level"] == "ok"
    assert of(found, "drain")["level"] == of(found, "collector")["level"] == "ok"
    assert of(found, "clock", site)["level"] == "unknown"
    assert acts(cloud) == []


def test_commands_that_hang_leave_the_sites_checks_alone(head: Head) -> None:
    slow = head.pool.bin / "condor_q"
    slow.write_text("#!/bin/sh\nexec sleep 300\n")
    found = checks(head, "--timeout", "8", code=4)
    assert of(found, "queue")["level"] == "unknown" and "no answer within 8 s" in of(found, "queue")["text"]
    assert of(found, "drain")["level"] == "ok" and of(found, "endpoint and credentials")["level"] == "ok"


def test_a_batch_system_that_does_not_answer_is_an_error(head: Head) -> None:
    for name in ("condor_status", "condor_q"):
        (head.pool.bin / name).write_text("#!/bin/sh\necho 'CEDAR:6001: Failed to connect' >&2\nexit 1\n")
    found = checks(head, code=1)
    assert of(found, "collector")["level"] == of(found, "queue")["level"] == "error"
    assert "CEDAR:6001" in of(found, "collector")["text"] and of(found, "collector")["remedy"]
    assert of(found, "workers and instances")["level"] == "unknown"


def test_a_user_who_may_not_drain_is_told_and_nothing_is_drained(head: Head) -> None:
    head.pool.load()["may_drain"] = False
    head.pool.save()
    found = checks(head, code=1)
    assert of(found, "drain")["level"] == "error" and "ADMINISTRATOR" in of(found, "drain")["remedy"]
    assert head.pool.calls("condor_drain") == []


def test_of_two_sites_one_that_is_dead_does_not_hide_the_other(head: Head, cloud: EC2Server) -> None:
    other = EC2Server()
    try:
        other.script("DescribeInstances", *[error("AuthFailure", "not you", 401)] * 9)
        head.configure(f"[ec2:far]\napi_url = {other.url}\n")
        found = checks(head, code=1)
    finally:
        other.close()
    levels = {source: one["level"] for (source, name), one in found.items() if name == "endpoint and credentials"}
    assert sorted(levels.values()) == ["error", "ok"]
    dead = next(source for source, level in levels.items() if level == "error")
    assert of(found, "pool far: dry run of a launch", dead)["level"] == "unknown"
    assert of(found, "pool ec2: dry run of a launch")["level"] == "ok"
    assert acts(other) == []


def test_workers_that_show_which_instance_they_are_are_told_from_those_that_do_not(
    head: Head, cloud: EC2Server
) -> None:
    head.pool.add_worker("w1", "10.7.7.7")
    found = checks(head)
    assert "w1: no instance has its id or address" in of(found, "workers and instances")["text"]
    head.configure()
    head.paths.config.write_text(head.paths.config.read_text().replace("[quota]", "static_workers = w1\n[quota]"))
    assert "shows no worker yet" in of(checks(head), "workers and instances")["text"]


def test_a_running_daemon_is_seen_and_left_in_peace(head: Head) -> None:
    assert of(checks(head), "what runs")["text"] == "no elastiq runs yet"
    with head.daemon():
        pid = head.pid()
        found = checks(head)
        assert of(found, "what runs")["level"] == "ok" and f"(pid {pid})" in of(found, "what runs")["text"]
        assert of(found, "state directory")["level"] == "ok"
        elsewhere = Head.places(head)
        elsewhere[elsewhere.index("--statedir") + 1] += "-2"
        elsewhere[elsewhere.index("--rundir") + 1] += "-2"
        head.places = lambda: elsewhere  # type: ignore[method-assign]
        assert of(checks(head, code=1), "what runs")["text"].startswith("another elastiq of this user and cluster")


def test_a_port_that_the_running_elastiq_does_not_serve_is_told_with_its_own_reason(head: Head) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = f"127.0.0.1:{other.getsockname()[1]}"
        head.configure(f"[web]\nlisten = {taken}\n[metrics]\nlisten = {taken}\n")
        with head.daemon():
            found = checks(head, code=1)
            for section in ("web", "metrics"):
                one = of(found, f"[{section}] listen")
                assert one["level"] == "error" and one["text"] in head.status()["notices"] and taken in one["text"]
            head.configure(f"[web]\nlisten = {free_address()}\n")
            client.ask(head.paths.socket, "reload")
            assert of(checks(head), "[web] listen")["level"] == "ok"
            head.configure(f"[web]\nlisten = {free_address()}\n")  # which it does not know of yet
            one = of(checks(head), "[web] listen")
            assert one["level"] == "warning" and one["remedy"] == "elastiqctl reload"
            head.configure("[web]\nlisten = 0.0.0.0:8642\n")
            client.ask(head.paths.socket, "reload")
            assert "until allow_remote = yes" in of(checks(head, code=1), "[web] listen")["text"]


def test_a_secret_is_in_no_output(head: Head, cloud: EC2Server) -> None:
    refused = error("SignatureDoesNotMatch", f"signed with {KEYS['aws_secret_access_key']}", 403)
    cloud.script("DescribeInstances", *10 * [refused])  # whichever of the checks asks first
    done = head.ctl("check")  # which looks for the secret
    assert "SignatureDoesNotMatch" in done.out and done.code == 1


@pytest.mark.parametrize("words", [("--timeout", "0"), ("--timeout", "soon"), ("--timeout", "nan"), ("extra",)])
def test_wrong_words_are_a_usage_error(head: Head, words: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as left:
        head.ctl("check", *words)
    assert left.value.code == 2


def test_a_user_who_does_not_exist_is_an_error(head: Head) -> None:
    found = checks(head, "--user", "nobody-of-this-name", code=1)
    assert "there is no user nobody-of-this-name" in of(found, "user")["text"]


def test_who_is_not_elastiqs_user_is_told_to_be_root_and_nothing_else(
    head: Head, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What such a user cannot read or write is no fault, and must not be given to him."""
    said = Check("user", "warning", "looked at as grp, while elastiq runs as elastiq", service_user.AS_ROOT)
    monkeypatch.setattr(service_user, "become", lambda *_: said)
    user = os.getuid() or 4711  # root's start would make the directories
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    found = checks(head, code=4)
    for subject in ("state directory", "run directory"):
        one = of(found, subject)
        assert (one["level"], one["remedy"]) == ("unknown", service_user.AS_ROOT) and "cannot" in one["text"]
    assert not [one for one in found.values() if "chown" in one["remedy"]]
    head.configure("user_data_file = /nonexistent/for-elastiq-alone\n")
    one = of(checks(head, code=4), "file")
    assert (one["level"], one["remedy"]) == ("unknown", service_user.AS_ROOT) and "cannot be read" in one["text"]
    head.configure("no_such_key = 1\n")
    one = of(checks(head, code=78), "file")
    assert one["level"] == "error" and "no_such_key" in one["text"], "that is wrong whoever reads it"


def test_a_configuration_that_only_root_can_read_is_not_called_wrong(
    head: Head, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`elastiqctl --config NEW check` of a file in root's home becomes the service's user, who cannot look there."""
    said, access = Check("user", "ok", "looked at as elastiq, as whom elastiq runs"), os.access

    def become(*_: Any) -> Check:
        denied = config.ConfigError([f"{head.paths.config}: cannot be read ({os.strerror(13)}), check it"])
        monkeypatch.setattr(config, "load", Mock(side_effect=denied))
        monkeypatch.setattr(os, "access", lambda path, mode: path != head.paths.config and access(path, mode))
        return said

    monkeypatch.setattr(service_user, "become", become)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    one = of(checks(head, code=78), "file")
    assert one["remedy"] == check.ELSEWHERE and "as whom elastiq runs" in one["text"]


def test_neither_a_check_nor_a_plan_writes_the_tags_that_an_instance_of_ours_lacks(
    head: Head, cloud: EC2Server
) -> None:
    head.configure("dialect = generic\n")
    head.paths.config.write_text(head.paths.config.read_text().replace("dialect = aws\n", ""))
    prefix = f"elastiq-{head.json('plan')['head']}-"
    client: Any = boto3.Session(**KEYS).client("ec2", region_name="us-east-1", endpoint_url=cloud.url)
    client.run_instances(ImageId="ami-12c6146b", MinCount=1, MaxCount=1, ClientToken=f"{prefix}i1")
    cloud.forget()
    assert "1 of this head node" in of(checks(head), "instances of this cluster")["text"], "known by its token"
    assert len(head.json("plan")["nodes"]) == 1
    assert acts(cloud) == []
    with head.daemon():
        until(lambda: cloud.asked("CreateTags"))


def test_a_person_who_starts_it_for_the_first_time_is_told_of_the_check(
    head: Head, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elastiq.cli.process.start", lambda paths: 0)
    assert "elastiqctl check" not in head.ctl("start").out, "no terminal"
    terminal = SimpleNamespace(stdout=SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("elastiq.cli.commands.sys", terminal)
    assert "elastiqctl check" in head.ctl("start").out
    head.paths.statedir.mkdir()
    assert "elastiqctl check" not in head.ctl("start").out, "not the first time"
