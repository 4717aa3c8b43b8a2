"""Hooks: the two that are shipped, run as elastiq runs them, and those of a daemon at work."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, Iterator, Mapping

import pytest

from tests.daemon_lines import ROOT
from tests.integration.at_work import AtWork
from tests.waiting import PATIENCE_S, until

SHIPPED = ROOT / "packaging/hooks"
SHELLS = [shell for shell in ("dash", "bash", "busybox") if shutil.which(shell)]


# --------------------------------------------------------------------------- hosts-file


class HostsFile:
    def __init__(self, shell: str, folder: Path) -> None:
        self.shell = [shell, "sh"] if shell == "busybox" else [shell]
        self.file = folder / "hosts"

    def begin(self, event: str, instance: str, **facts: str) -> subprocess.Popen[str]:
        env = {"PATH": os.environ["PATH"], "ELASTIQ_EVENT": event, "ELASTIQ_INSTANCE_ID": instance, **facts}
        argv = [*self.shell, str(SHIPPED / "hosts-file"), str(self.file)]
        return subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def __call__(self, event: str, instance: str, **facts: str) -> tuple[int, str]:
        process = self.begin(event, instance, **facts)
        _, said = process.communicate(timeout=PATIENCE_S)
        return process.returncode, said

    def join(self, instance: str, address: str, worker: str) -> tuple[int, str]:
        return self("join", instance, ELASTIQ_ADDRESS=address, ELASTIQ_WORKER=worker)

    @property
    def lines(self) -> list[str]:
        return self.file.read_text().splitlines()


@pytest.fixture(params=SHELLS)
def hosts(request: pytest.FixtureRequest, tmp_path: Path) -> HostsFile:
    return HostsFile(request.param, tmp_path)


def test_the_hosts_file_has_the_workers_that_are_there_and_all_that_was_there_before(hosts: HostsFile) -> None:
    hosts.file.write_text("127.0.0.1 localhost\n10.0.0.9 by-hand  # elastiq\n")
    assert hosts.join("i-1", "10.0.0.1", "w1.example.org") == (0, "")
    assert hosts.join("i-12", "2001:db8::2", "w2") == (0, "")
    assert hosts.join("i-1", "10.0.0.3", "w1.example.org") == (0, "")  # again, with another address
    own = ["127.0.0.1 localhost", "10.0.0.9 by-hand  # elastiq"]
    assert hosts.lines == [*own, "2001:db8::2 w2  # elastiq i-12", "10.0.0.3 w1.example.org  # elastiq i-1"]
    assert hosts.file.stat().st_mode & 0o777 == 0o644
    assert hosts("end", "i-1") == (0, "")
    assert hosts("end", "i-1") == (0, "")
    assert hosts.lines == [*own, "2001:db8::2 w2  # elastiq i-12"]
    assert sorted(path.name for path in hosts.file.parent.iterdir()) == ["hosts", "hosts.lock"]


def test_many_at_once_lose_no_line(hosts: HostsFile) -> None:
    numbers = range(1, 21)
    facts = [{"ELASTIQ_ADDRESS": f"10.0.0.{n}", "ELASTIQ_WORKER": f"w{n}"} for n in numbers]
    running = [hosts.begin("join", f"i-{n}", **given) for n, given in zip(numbers, facts)]
    assert [process.communicate(timeout=PATIENCE_S)[1] for process in running] == [""] * len(running)
    assert sorted(hosts.lines) == sorted(f"10.0.0.{n} w{n}  # elastiq i-{n}" for n in numbers)


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"ELASTIQ_INSTANCE_ID": "i-1\nevil"}, "ELASTIQ_INSTANCE_ID: no instance id"),
        ({"ELASTIQ_INSTANCE_ID": ""}, "ELASTIQ_INSTANCE_ID: no instance id"),
        ({"ELASTIQ_ADDRESS": ""}, "ELASTIQ_ADDRESS: no address"),
        ({"ELASTIQ_ADDRESS": "10.0.0.1 evil"}, "ELASTIQ_ADDRESS: no address"),
        ({"ELASTIQ_WORKER": "w1 google.com"}, "ELASTIQ_WORKER: no host name"),
        ({"ELASTIQ_EVENT": "drain"}, "nothing to do for the event 'drain'"),
    ],
)
def test_facts_that_are_none_change_no_line(hosts: HostsFile, facts: dict[str, str], said: str) -> None:
    given = {"ELASTIQ_ADDRESS": "10.0.0.1", "ELASTIQ_WORKER": "w1", **facts}
    code, complaint = hosts(given.pop("ELASTIQ_EVENT", "join"), given.pop("ELASTIQ_INSTANCE_ID", "i-1"), **given)
    assert code == 1 and complaint.startswith(said) and not hosts.file.exists()


# --------------------------------------------------------------------------- chat-webhook


class Chat:
    """An incoming webhook over real HTTP."""

    def __init__(self) -> None:
        self.posted: list[dict[str, Any]] = []
        self.status = 200
        chat = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                assert self.headers["Content-Type"] == "application/json"
                chat.posted.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(chat.status)
                self.end_headers()
                self.wfile.write(b"ok")

            def log_message(self, *args: Any) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/services/T0/SECRETPART"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def chat() -> Iterator[Chat]:
    chat = Chat()
    yield chat
    chat.close()


def post(file: Path, facts: object) -> tuple[int, str]:
    text = facts if isinstance(facts, str) else json.dumps(facts)
    argv, env = [sys.executable, str(SHIPPED / "chat-webhook"), str(file)], {"LC_ALL": "C.UTF-8"}
    done = subprocess.run(argv, input=text, capture_output=True, text=True, timeout=PATIENCE_S, env=env)
    assert done.stdout == "" and "SECRETPART" not in done.stderr and "Traceback" not in done.stderr
    return done.returncode, done.stderr.strip()


def address_file(folder: Path, text: str, mode: int = 0o640) -> Path:
    file = folder / "url"
    file.write_text(text)
    file.chmod(mode)
    return file


FAILED = {"event": "failure", "cluster": "c", "node": "i-1", "pool": "ec2", "flavour": "m5.large", "reason": "lost"}


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        (FAILED, "elastiq, c: i-1 (ec2, m5.large) failed: lost"),
        ({**FAILED, "event": "join", "flavour": "", "reason": ""}, "elastiq, c: i-1 (ec2, any flavour) takes jobs"),
        ({**FAILED, "reason": "<!channel> a&b @all"},
         "elastiq, c: i-1 (ec2, m5.large) failed: &lt;!channel&gt; a&amp;b @\u200ball"),
        ({"event": "pause", "cluster": "c", "paused": ["launch"], "reason": "no launch: the bill"},
         "elastiq, c: paused: no launch: the bill"),
        ({"event": "pause", "cluster": "c", "paused": [], "reason": "launches and ends again"},
         "elastiq, c: goes on: launches and ends again"),
    ],
)  # fmt: skip
def test_the_chat_gets_one_line(chat: Chat, tmp_path: Path, facts: dict[str, Any], text: str) -> None:
    assert post(address_file(tmp_path, chat.url + "\n"), facts) == (0, "")
    assert chat.posted == [{"text": text}]


def test_a_chat_that_refuses_is_a_failure(chat: Chat, tmp_path: Path) -> None:
    chat.status = 404
    assert post(address_file(tmp_path, chat.url), FAILED) == (1, "the chat refused it: HTTP 404")


def test_a_chat_that_is_not_there_is_a_failure(chat: Chat, tmp_path: Path) -> None:
    chat.close()
    code, said = post(address_file(tmp_path, chat.url), FAILED)
    assert code == 1 and said.startswith("the chat cannot be reached: ")


@pytest.mark.parametrize(
    ("text", "mode", "said"),
    [
        ("https://chat.example.org/SECRETPART", 0o644, "holds a secret and is open to all users, run `chmod o= "),
        ("ftp://chat.example.org/SECRETPART", 0o640, "does not hold one address that begins with https://"),
        ("https://chat.example.org/SECRETPART b", 0o640, "does not hold one address that begins with https://"),
        ("", 0o640, "does not hold one address that begins with https://"),
    ],
)
def test_an_address_that_cannot_be_used_is_not_shown(tmp_path: Path, text: str, mode: int, said: str) -> None:
    code, complaint = post(address_file(tmp_path, text, mode), FAILED)
    assert code == 1 and complaint.startswith("not posted: ") and said in complaint


def test_what_is_no_json_is_a_failure(chat: Chat, tmp_path: Path) -> None:
    code, said = post(address_file(tmp_path, chat.url), "no json")
    assert code == 1 and said.startswith("not posted: ") and chat.posted == []


# --------------------------------------------------------------------------- a daemon

RECORD = """#!{python}
import json, os, sys
facts = json.load(sys.stdin)
facts["environment"] = dict(os.environ)
facts["arguments"] = sys.argv[1:]
with open({file!r}, "a") as out:
    out.write(json.dumps(facts) + "\\n")
"""


class Bench(AtWork):
    """A daemon with hooks that record what they are told."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.told = folder / "told"
        self.record = self.script("record", RECORD.format(python=sys.executable, file=str(self.told)))

    def script(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text)
        path.chmod(0o755)
        return path

    def hooks(self, lines: str, more: str = "") -> None:
        self.write(f"[hooks]\n{lines}\n{more}")

    @property
    def events(self) -> list[Mapping[str, Any]]:
        text = self.told.read_text() if self.told.exists() else ""
        return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]  # one may be half written


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.close()


def test_the_life_of_a_machine_is_told_in_order_with_its_facts_and_no_secret(bench: Bench) -> None:
    keys = ("on_launch", "on_join", "on_drain", "on_end", "on_failure")
    bench.hooks("\n".join(f"{key} = {bench.record} {key} 'two words'" for key in keys))
    bench.start()
    bench.pool.submit(1)
    bench.join()
    until(lambda: len(bench.events) == 4)
    assert [one["event"] for one in bench.events] == ["launch", "join", "drain", "end"]
    assert [one["arguments"] for one in bench.events] == [[f"on_{one['event']}", "two words"] for one in bench.events]
    assert len({one["instance_id"] for one in bench.events}) == len({one["address"] for one in bench.events}) == 1
    assert [one["worker"] for one in bench.events] == ["", "w1", "w1", "w1"]
    for one in bench.events:
        environment = one["environment"]
        assert environment["ELASTIQ_INSTANCE_ID"] == one["instance_id"]
        assert "hidden" not in environment.values() and "verysecretkey" not in json.dumps(one)
    assert bench.stop() == 0


def test_a_hook_that_hangs_fails_or_floods_holds_nothing_up_and_is_told(bench: Bench) -> None:
    slow = bench.script("slow", f"#!/bin/sh\necho $$ >{bench.folder}/pid\nsleep 600 & wait\n")
    bad = bench.script("bad", "#!/bin/sh\nyes first | head -1000 >&2\necho the cause >&2\nexit 3\n")
    flood = bench.script("flood", "#!/bin/sh\nexec cat /dev/zero\n")
    bench.hooks(f"on_launch = {slow}\non_join = {bad}\non_drain = {flood}\non_end = {bench.record}\ntimeout_s = 4")
    bench.start()
    bench.pool.submit(1)
    bench.join()
    until(lambda: [one["event"] for one in bench.events] == ["end"])
    assert "hook on_launch (slow) for i-" in bench.text and "failed: did not end within 4 s, killed" in bench.text
    assert "failed: exit code 3: ...first" in bench.text and "the cause" in bench.text
    assert "failed: wrote more than 16,000,000 bytes, killed" in bench.text
    assert "this is a bug" not in bench.text
    gone = int((bench.folder / "pid").read_text())
    until(lambda: not Path(f"/proc/{gone}").exists())


def test_running_hooks_are_ended_with_the_daemon(bench: Bench) -> None:
    bench.script("hold", f"#!/bin/sh\ntrap '' TERM INT HUP\necho $$ >>{bench.folder}/pids\nsleep 600 & wait; wait\n")
    bench.hooks(f"on_launch = {bench.folder}/hold\non_join = {bench.record}\ntimeout_s = 500")
    bench.start()
    bench.pool.submit(1)
    bench.join()
    until(lambda: (bench.folder / "pids").exists() and (bench.folder / "pids").read_text())
    until(lambda: " -> idle: " in bench.text)
    assert bench.events == []  # that of the join waits for its turn
    assert bench.stop() == 0
    pid = int((bench.folder / "pids").read_text())
    until(lambda: not Path(f"/proc/{pid}").exists())  # it is dead: whose child it was then has to notice
    assert "for i-" in bench.text and "ended, commands are being stopped" in bench.text
    assert "hooks: 1 events were not passed on" in bench.text or "hooks: 2 events were not passed on" in bench.text


def test_a_reload_changes_the_hooks_and_tells_of_a_kill_switch(bench: Bench) -> None:
    bench.hooks("")
    bench.start()
    bench.status()  # it answers: from before, a signal would end it
    bench.hooks(f"on_pause = {bench.record}")
    assert bench.process is not None
    bench.process.send_signal(signal.SIGHUP)
    until(lambda: bench.text.count("configuration reloaded") == 1)
    text = bench.config.read_text()
    bench.config.write_text(text.replace("[elastiq]", "[elastiq]\nlaunch = no"))
    bench.process.send_signal(signal.SIGHUP)
    until(lambda: len(bench.events) == 1)
    bench.config.write_text(text)
    bench.process.send_signal(signal.SIGHUP)
    until(lambda: len(bench.events) == 2)
    assert [(one["event"], one["paused"]) for one in bench.events] == [("pause", ["launch"]), ("pause", [])]
    bench.config.write_text(text.replace("on_pause = /", "on_pause = /nonexistent/"))
    bench.process.send_signal(signal.SIGHUP)
    until(lambda: "is no program that can be executed here" in bench.text)
    assert "refused, the old settings stay" in bench.text


def test_in_a_dry_run_no_hook_is_run(bench: Bench) -> None:
    bench.hooks(f"on_launch = {bench.record}", "[debug]\ndry_run_shutdown_vms = yes\n")
    bench.start()
    bench.pool.submit(1)
    until(lambda: "dry run: would run hook on_launch (record) for i-" in bench.text)
    assert bench.events == []
    assert bench.stop() == 0
