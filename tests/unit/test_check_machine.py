"""elastiqctl check on this machine: directories, files, the service, clocks, and what sections need."""

from __future__ import annotations

import ctypes
import os
import pwd
import socket
import sys
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Optional

import pytest

from elastiq.cli import check, machine_checks, service_user, systemd
from elastiq.interfaces import Check, SourceError
from elastiq.paths import Paths
from elastiq.settings import Settings


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    for name in ("log", "state", "run"):
        (tmp_path / name).mkdir(mode=0o750)
    config = tmp_path / "elastiq.conf"
    config.touch(mode=0o640)
    return Paths(config, tmp_path / "log", tmp_path / "state", tmp_path / "run")


@pytest.fixture(autouse=True)
def modes_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also for root, as whom these tests may run."""

    def access(path: Any, wanted: int) -> bool:
        return wanted & (os.stat(path).st_mode >> 6) == wanted

    monkeypatch.setattr(machine_checks.os, "access", access)


def looked(paths: Paths, subject: str, service: Optional[Any] = None, **settings: Any) -> list[Check]:
    looks = machine_checks.looks(paths, Settings("test", **settings), service)
    return list(looks[subject]())


def one(paths: Paths, subject: str, service: Optional[Any] = None, **settings: Any) -> Check:
    (found,) = looked(paths, subject, service, **settings)
    return found


# --------------------------------------------------------------------------- directories and files


def test_a_directory_has_to_be_writable_and_so_does_what_is_in_it(paths: Paths) -> None:
    assert one(paths, "state directory").level == "ok"
    (paths.statedir / "elastiq.db").touch(mode=0o640)
    assert one(paths, "state directory").level == "ok"
    (paths.statedir / "elastiq.db").chmod(0o440)
    found = one(paths, "state directory")
    assert found.level == "error" and "cannot write elastiq.db" in found.text and found.remedy.startswith("chown -R ")
    paths.statedir.chmod(0o550)
    found = one(paths, "state directory")
    assert found.level == "error" and f"cannot write in {paths.statedir}" in found.text
    assert found.remedy == f"chmod u+rwx {paths.statedir}", "it belongs to us already"
    paths.rundir.chmod(0o777)
    assert one(paths, "run directory").level == "warning"


def test_a_directory_that_is_not_there_yet_has_to_be_possible_to_make(paths: Paths, tmp_path: Path) -> None:
    paths.logdir.rmdir()
    found = one(paths, "log directory")
    assert found.level == "ok" and "made in" in found.text
    tmp_path.chmod(0o550)
    try:
        assert one(paths, "log directory").level == "error"
        service = SimpleNamespace(in_journal=False)
        assert one(paths, "log directory", service).level == "ok", "systemd makes it"
    finally:
        tmp_path.chmod(0o750)
    paths.logdir.write_text("a file")
    assert one(paths, "log directory").level == "error"
    assert not list(paths.statedir.iterdir()) and not list(paths.rundir.iterdir()), "nothing was written"


def test_a_service_that_logs_to_the_journal_needs_no_directory_for_it(paths: Paths) -> None:
    assert "log directory" not in machine_checks.looks(paths, None, SimpleNamespace(in_journal=True))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("blocks", "inodes", "level"),
    [(100_000, 1000, "ok"), (1000, 1000, "warning"), (0, 1000, "error"), (100_000, 0, "error")],
)
def test_a_disk_that_is_full_is_told_before_it_matters(
    paths: Paths, monkeypatch: pytest.MonkeyPatch, blocks: int, inodes: int, level: str
) -> None:
    disk = SimpleNamespace(f_bavail=blocks, f_frsize=4096, f_favail=inodes, f_files=10_000, f_flag=0)
    monkeypatch.setattr(machine_checks.os, "statvfs", lambda path: disk)
    assert one(paths, "state directory").level == level


def test_what_a_full_disk_stops_depends_on_what_is_there(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimpleNamespace(f_bavail=0, f_frsize=4096, f_favail=9, f_files=9, f_flag=0)
    monkeypatch.setattr(machine_checks.os, "statvfs", lambda path: disk)
    assert "nothing is launched" in one(paths, "state directory").remedy
    assert "records of the log are lost; nothing else stops" in one(paths, "log directory").remedy
    assert "cannot start" in one(paths, "run directory").remedy


def test_a_directory_of_a_read_only_file_system_is_not_to_be_given_away(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SimpleNamespace(f_bavail=100_000, f_frsize=4096, f_favail=9, f_files=9, f_flag=os.ST_RDONLY | os.ST_NOSUID)
    monkeypatch.setattr(machine_checks.os, "statvfs", lambda path: disk)
    found = one(paths, "state directory")
    assert found.level == "error" and "read-only" in found.text and "remount" in found.remedy
    assert "chown" not in found.remedy


def test_a_configuration_with_a_secret_that_all_may_read_is_not_ok(paths: Paths) -> None:
    paths.config.chmod(0o644)
    assert one(paths, "configuration file").level == "ok", "it may say nothing that is secret"
    (found,) = machine_checks.looks(paths, Settings("test"), None, True)["configuration file"]()
    assert (found.level, found.remedy) == ("warning", f"chmod o= {paths.config}") and "0644" in found.text
    paths.config.chmod(0o640)
    (found,) = machine_checks.looks(paths, Settings("test"), None, True)["configuration file"]()
    assert found.level == "ok"


def test_a_configuration_that_others_may_write_is_told(paths: Paths) -> None:
    assert one(paths, "configuration file").level == "ok"
    paths.config.chmod(0o660)
    found = one(paths, "configuration file")
    assert found.level == "warning" and "0660" in found.text and found.remedy == f"chmod go-w {paths.config}"


# --------------------------------------------------------------------------- the service


GOOD = {"LoadState": "loaded", "ActiveState": "active", "UnitFileState": "enabled", "NeedDaemonReload": "no"}


@pytest.mark.parametrize(
    ("said", "why", "level", "words"),
    [
        ({}, "", "ok", "active, enabled"),
        ({"ActiveState": "inactive"}, "", "ok", "inactive, enabled"),
        ({"UnitFileState": "disabled"}, "", "warning", "does not start at the next boot"),
        ({"NeedDaemonReload": "yes"}, "", "warning", "has changed"),
        ({"LoadState": "masked"}, "", "error", "masked"),
        ({"LoadState": "bad-setting"}, "", "error", "bad-setting"),
        ({"ActiveState": "failed"}, "the service failed (exit code 78)", "error", "exit code 78"),
    ],
)
def test_the_state_of_the_service_is_told(
    paths: Paths, monkeypatch: pytest.MonkeyPatch, said: Mapping[str, str], why: str, level: str, words: str
) -> None:
    monkeypatch.setattr(systemd, "show", lambda: {**GOOD, **said})
    found = one(paths, "service", SimpleNamespace(why_down=lambda: why, in_journal=True))
    assert found.level == level and words in found.text and (found.remedy or level == "ok")


def test_a_service_that_is_not_meant_is_not_called_absent(
    paths: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--config NEW` is another configuration than the service's."""
    monkeypatch.setattr(systemd, "BOOTED", tmp_path)
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(systemd, "show", lambda: GOOD)
    found = one(paths, "service")
    assert found.level == "ok" and "not looked at" in found.text and "not installed" not in found.text
    monkeypatch.setattr(systemd, "show", lambda: {**GOOD, "LoadState": "not-found"})
    assert "not installed as a service" in one(paths, "service").text


def test_a_machine_without_the_service_is_in_order(paths: Paths) -> None:
    found = one(paths, "service")
    assert found.level == "ok" and "elastiqctl start" in found.text


# --------------------------------------------------------------------------- time


@pytest.mark.parametrize(("state", "level"), [(0, "ok"), (5, "warning"), (-1, "unknown")])
def test_a_clock_that_nobody_keeps_right_is_told(
    paths: Paths, monkeypatch: pytest.MonkeyPatch, state: int, level: str
) -> None:
    asked = []

    def adjtimex(buffer: Any) -> int:
        asked.append(bytes(buffer)[:4])
        return state

    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: SimpleNamespace(adjtimex=adjtimex))
    if level == "unknown":
        with pytest.raises(SourceError):
            looked(paths, "clock")
    else:
        assert one(paths, "clock").level == level
    assert asked == [b"\0\0\0\0"], "it is read, not set"


def test_the_kernel_itself_can_be_asked_for_its_clock(paths: Paths) -> None:
    assert one(paths, "clock").level in ("ok", "warning")


def test_the_time_of_the_schedules_zones_is_shown(paths: Paths) -> None:
    from datetime import timezone

    from elastiq.schedule import Schedule

    assert "time zones" not in machine_checks.looks(paths, Settings("test"), None)
    schedule = Schedule("night", (), "UTC", timezone.utc, ())
    assert one(paths, "time zones", schedules=(schedule,)).text.endswith(" in UTC")


# --------------------------------------------------------------------------- what sections need


def test_what_a_section_needs_and_is_not_installed_is_an_error(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "optional parts" not in machine_checks.looks(paths, Settings("test"), None)
    given: dict[str, Any] = {"log_format": "json", "extras": {"metrics": {"listen": "127.0.0.1:9797"}}}
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    assert one(paths, "optional parts", **given).level == "ok"
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr("sys.prefix", sys.base_prefix)
    found = looked(paths, "optional parts", **given)
    assert [check.level for check in found] == ["error", "error"]
    assert all("python3-" in check.remedy for check in found)
    monkeypatch.setattr("sys.prefix", "/home/me/venv")
    found = looked(paths, "optional parts", **given)
    assert any("/home/me/venv/bin/pip install prometheus-client" in check.remedy for check in found)


def test_an_address_that_somebody_else_listens_on_is_an_error(paths: Paths) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        listen = f"127.0.0.1:{other.getsockname()[1]}"
        extras = {"web": {"listen": listen}}
        found = one(paths, "[web] listen", extras=extras)
        assert found.level == "error" and listen in found.text
    assert one(paths, "[web] listen", extras=extras).level == "ok"


# --------------------------------------------------------------------------- as whom


@pytest.mark.parametrize(
    ("uid", "service", "others", "meant"),
    [(0, None, "a service", True), (0, None, None, False), (0, "it", None, True), (4711, None, "a service", False)],
)
def test_root_tries_another_configuration_for_the_service_as_its_user(
    monkeypatch: pytest.MonkeyPatch, uid: int, service: Optional[str], others: Optional[str], meant: bool
) -> None:
    """With its environment and credentials. Another user means a daemon of his own."""
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    monkeypatch.setattr(systemd, "found", lambda args: None if args.config else others)
    args = Namespace(config="/srv/NEW", statedir=None, rundir=None, logdir=None, service=service)
    assert check._is_for_service(args) is meant


def test_what_the_unit_sets_is_read_as_systemd_quotes_it() -> None:
    text = "_CONDOR_SEC_TOKEN_DIRECTORY=/var/lib/elastiq/tokens.d 'A=two words' \"B=x\" 2=no"
    found = service_user._environment(text)
    assert found == {"_CONDOR_SEC_TOKEN_DIRECTORY": "/var/lib/elastiq/tokens.d", "A": "two words", "B": "x"}


def test_the_credentials_of_a_unit_are_those_of_its_text_and_its_drop_ins() -> None:
    unit = "# /lib/x.service\n[Service]\nLoadCredential=elastiq-aws\nEnvironment=A=b\n"
    assert service_user.loaded(unit) == {"elastiq-aws": "elastiq-aws"}
    drop_in = "[Service]\nLoadCredential=\nLoadCredential=keys:/etc/my keys\n"
    assert service_user.loaded(unit + drop_in) == {"keys": "/etc/my keys"}


def test_somebody_who_is_not_root_is_told_that_another_user_counts(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    found = service_user.become(paths, "root", False)
    assert found.level == "warning" and "4711" in found.text and "sudo elastiqctl check" in found.remedy
    with pytest.raises(LookupError, match="there is no user nobody-of-this-name"):
        service_user.become(paths, "nobody-of-this-name", False)


def test_who_may_not_see_whose_the_state_is_is_not_taken_for_its_owner(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stat(path: Path, **_: Any) -> Any:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "stat", stat)
    found = service_user.become(paths, None, False)
    assert found.level == "warning" and "no permission to see whose" in found.text
    assert str(paths.statedir) in found.text and "sudo elastiqctl check" in found.remedy


def test_the_owner_of_the_state_is_who_runs_it_where_there_is_no_service(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For check and start alike: to the cloud, another user is another head node."""
    other, stat_ = pwd.getpwnam("daemon"), Path.stat

    def stat(path: Path, **more: Any) -> Any:
        found = stat_(path, **more)
        return SimpleNamespace(st_uid=other.pw_uid if path == paths.statedir else 0, st_mode=found.st_mode)

    monkeypatch.setattr(Path, "stat", stat)
    assert service_user.owner(paths.statedir) == "daemon"
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(service_user, "_can_run_this", lambda user: True)
    assert service_user.of_start(paths) == other
    (paths.statedir / "elastiq.db").touch()
    assert service_user.owner(paths.statedir) == "root" and service_user.of_start(paths) is None, "root ran it"
    (paths.statedir / "elastiq.db").unlink()
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    assert service_user.of_start(paths) is None, "only root can become another"


def test_who_starts_it_for_another_makes_the_directories_that_only_root_can_make(
    paths: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user, given, did = pwd.getpwnam("daemon"), list[int](), list[str]()
    monkeypatch.setattr(os, "fchown", lambda fd, uid, gid: given.append(uid))
    monkeypatch.setattr(service_user, "_drop_to", lambda *_: did.append("dropped"))
    monkeypatch.setattr(service_user, "_begin_anew", lambda *_: did.append("begun"))
    service_user.begin_as(user, (paths.rundir, tmp_path / "new"))
    assert given == [user.pw_uid] and did == ["dropped", "begun"], "one that is there stays whose it is"
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o750


def test_a_directory_that_root_makes_at_the_start_need_not_be_there(paths: Paths, tmp_path: Path) -> None:
    paths.rundir.rmdir()
    tmp_path.chmod(0o550)
    try:
        assert one(paths, "run directory").level == "error"
        (found,) = machine_checks.looks(paths, None, None, by_root=True)["run directory"]()
        assert found.level == "ok" and "elastiqctl start" in found.text
    finally:
        tmp_path.chmod(0o750)


def test_root_becomes_nobody_who_cannot_run_this_elastiq(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **more: Any) -> Any:
        raise PermissionError(13, "Permission denied", "/srv/python3")

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr("subprocess.run", refuse)
    monkeypatch.setattr(service_user, "_drop_to", lambda *_: pytest.fail("it is too late then"))
    with pytest.raises(LookupError, match="daemon, as whom elastiq is to run, cannot read this elastiq"):
        service_user.become(paths, "daemon", False)
