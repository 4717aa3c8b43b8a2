"""The control socket: who may do what, and that no client can hold up another or the loop."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Iterator

import pytest

from elastiq import client, serving
from elastiq.control import ControlServer
from elastiq.protocol import Refused
from tests.waiting import PATIENCE_S, until

STATUS = {"version": "1", "cluster": "alice", "state": "active"}


class FakeDaemon:
    """Answers at once, but for the verb "hang": that it does when ``hanging`` gets a result."""

    def __init__(self) -> None:
        self.hanging: Future[Any] = Future()
        self.asked: list[tuple[str, Any]] = []
        self.statuses = 0

    def status(self) -> dict[str, Any]:
        self.statuses += 1
        return STATUS

    def command(self, verb: str, args: Any) -> Future[Any]:
        self.asked.append((verb, args))
        future: Future[Any] = Future()
        if verb == "unheard":
            raise Refused("unknown-verb", "never heard of it")
        if verb == "fault":
            future.set_exception(RuntimeError("secret=s3cr3t"))
        elif verb != "hang":
            future.set_result({"done": verb})
        return self.hanging if verb == "hang" else future


class Served:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.daemon = FakeDaemon()
        self.server = ControlServer(path, self.daemon.status, self.daemon.command)

    def connect(self) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.settimeout(PATIENCE_S)
        sock.connect(str(self.path))
        return sock

    def say(self, line: bytes) -> Any:
        with self.connect() as sock:
            sock.sendall(line)
            return json.loads(sock.makefile("rb").readline())


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    served = Served(tmp_path / "elastiq.sock")
    yield served
    served.server.close()


def test_status_is_answered_with_the_published_snapshot_and_the_pid(served: Served) -> None:
    answer = served.say(b'{"v":1,"verb":"status"}\n')
    assert answer == {"v": 1, "ok": True, "pid": os.getpid(), "status": STATUS}
    assert client.ask(served.path, "status")["status"] == STATUS


def test_several_requests_travel_over_one_connection(served: Served) -> None:
    with served.connect() as sock, sock.makefile("rb") as answers:
        sock.sendall(b'{"v":1,"verb":"status"}\n{"v":1,"verb":"adopt","args":{"ids":["i-1"]}}\n')
        assert json.loads(answers.readline())["status"] == STATUS
        assert json.loads(answers.readline())["result"] == {"done": "adopt"}
    assert served.daemon.asked == [("adopt", {"ids": ["i-1"]})]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"\n", "malformed"),
        (b"status\n", "malformed"),
        (b"[]\n", "malformed"),
        (b'{"v":1}\n', "malformed"),
        (b'{"v":1,"verb":7}\n', "malformed"),
        (b'{"v":1,"verb":"status","args":[]}\n', "malformed"),
        (b"\xff\xfe\n", "malformed"),
        (b"[" * 60_000 + b"\n", "malformed"),
        (b"x" * (serving.MAX_REQUEST + 1), "malformed"),
        (b'{"verb":"status"}\n', "version"),
        (b'{"v":2,"verb":"status"}\n', "version"),
        (b'{"v":1,"verb":"unheard"}\n', "unknown-verb"),
    ],
)
def test_a_request_that_is_none_is_answered_with_a_code(served: Served, line: bytes, code: str) -> None:
    answer = served.say(line)
    assert (answer["v"], answer["ok"], answer["code"]) == (1, False, code)
    assert "\n" not in answer["error"] and answer["error"]


def test_a_fault_in_a_command_is_answered_without_its_text(served: Served) -> None:
    answer = served.say(b'{"v":1,"verb":"fault"}\n')
    assert answer["code"] == "fault" and "s3cr3t" not in json.dumps(answer)


def test_a_refusal_reaches_the_caller_of_the_client(served: Served) -> None:
    with pytest.raises(Refused, match="never heard") as refused:
        client.ask(served.path, "unheard")
    assert refused.value.code == "unknown-verb"


def test_the_socket_is_for_its_user_and_group_only(served: Served) -> None:
    assert served.path.stat().st_mode & 0o777 == 0o660


AS_NOBODY = """
import os, socket, sys
os.setgroups([int(sys.argv[2])]); os.setgid(65534); os.setuid(65534)
sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
try:
    sock.connect(sys.argv[1])
except PermissionError:
    sys.exit("no permission")
sock.sendall(sys.argv[3].encode() + b"\\n")
print(sock.makefile().readline(), end="")
"""


def ask_as_nobody(path: Path, group: int, line: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-c", AS_NOBODY, str(path), str(group), line]
    return subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


@pytest.fixture
def open_served() -> Iterator[Served]:
    """Where other users get to: pytest's own directories are closed to them."""
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        served = Served(Path(name) / "elastiq.sock")
        yield served
        served.server.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be another user")
def test_the_group_may_read_but_not_command(open_served: Served) -> None:
    os.chown(open_served.path, 0, 4711)
    answer = json.loads(ask_as_nobody(open_served.path, 4711, '{"v":1,"verb":"status"}').stdout)
    assert answer["status"] == STATUS
    answer = json.loads(ask_as_nobody(open_served.path, 4711, '{"v":1,"verb":"adopt"}').stdout)
    assert answer["code"] == "denied" and "root" in answer["error"]
    assert open_served.daemon.asked == []
    assert json.loads(ask_as_nobody(open_served.path, 4711, '{"v":1,"verb":"history"}').stdout).get("code") != "denied"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be another user")
def test_others_may_not_even_read(open_served: Served) -> None:
    done = ask_as_nobody(open_served.path, 65534, '{"v":1,"verb":"status"}')
    assert done.stderr.strip() == "no permission"
    assert open_served.daemon.statuses == 0


def test_silent_clients_and_those_that_dribble_do_not_keep_others_out(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "REQUEST_S", 3600.0)  # their time is not what makes room
    silent = [served.connect() for _ in range(3 * serving.CLIENTS)]
    for sock in silent:
        try:
            sock.sendall(b'{"v":')
        except OSError:
            pass  # dropped already
    assert client.ask(served.path, "status", timeout_s=PATIENCE_S)["status"] == STATUS
    for sock in silent:
        sock.close()


def test_a_client_that_never_finishes_its_request_is_dropped(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "REQUEST_S", 0.3)
    with served.connect() as sock:
        began = time.monotonic()
        dropped = False
        while not dropped and time.monotonic() - began < PATIENCE_S:
            try:
                sock.sendall(b" ")
                sock.settimeout(0.05)
                dropped = sock.recv(1) == b""
            except socket.timeout:
                pass
            except OSError:
                dropped = True
        assert dropped, "one byte at a time must not extend the time"


def test_a_client_that_takes_no_answer_is_dropped(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "REQUEST_S", 0.3)
    monkeypatch.setitem(STATUS, "version", "x" * 3_000_000)
    with served.connect() as sock:
        sock.sendall(b'{"v":1,"verb":"status"}\n')
        until(lambda: not served.server.idle)


def test_a_command_that_hangs_holds_up_nobody(served: Served) -> None:
    answers: list[Any] = []
    hanging = threading.Thread(target=lambda: answers.append(served.say(b'{"v":1,"verb":"hang"}\n')))
    hanging.start()
    until(lambda: served.daemon.asked)
    assert served.say(b'{"v":1,"verb":"status"}\n')["ok"]
    assert not answers
    served.daemon.hanging.set_result({"done": "at last"})
    hanging.join(PATIENCE_S)
    assert answers[0]["result"] == {"done": "at last"}


def test_a_command_that_is_not_done_in_time_is_answered_so(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "COMMAND_S", 0.2)
    assert served.say(b'{"v":1,"verb":"hang"}\n')["code"] == "timeout"


def test_a_socket_that_a_killed_daemon_left_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "elastiq.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as left:
        left.bind(str(path))
    with pytest.raises(client.NotRunning):
        client.ask(path, "status")
    served = Served(path)
    assert client.ask(path, "status")["ok"]
    served.server.close()
    assert not path.exists()


def test_a_file_in_the_place_of_the_socket_is_not_removed(tmp_path: Path) -> None:
    path = tmp_path / "elastiq.sock"
    path.write_text("precious")
    with pytest.raises(FileExistsError):
        Served(path)
    assert path.read_text() == "precious"


def test_a_path_too_long_for_a_socket_address_works_all_the_same(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    deep.mkdir(parents=True)
    path = deep / "elastiq.sock"
    served = Served.__new__(Served)
    daemon = FakeDaemon()
    served.server = ControlServer(path, daemon.status, daemon.command)
    assert client.ask(path, "status")["status"] == STATUS
    served.server.close()
    assert not path.exists()


def test_no_daemon_no_directory_and_no_permission_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(client.NotRunning):
        client.ask(tmp_path / "elastiq.sock", "status")
    with pytest.raises(client.NotRunning):
        client.ask(tmp_path / ("x" * 120) / "elastiq.sock", "status")


@pytest.mark.parametrize("said", [b"", b"220 ready\n", b"[]\n", b'{"v":9,"ok":true}\n'])
def test_an_answer_that_is_not_elastiq_s_is_no_answer(tmp_path: Path, said: bytes) -> None:
    path = tmp_path / "elastiq.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            peer, _ = listener.accept()
            with peer:
                peer.recv(1000)
                peer.sendall(said)

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(client.NoAnswer):
            client.ask(path, "status", timeout_s=PATIENCE_S)
        thread.join()


def test_a_daemon_that_stays_silent_is_given_up_in_time(tmp_path: Path) -> None:
    path = tmp_path / "elastiq.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen()
        with pytest.raises(client.NoAnswer):
            client.ask(path, "status", timeout_s=0.3)
