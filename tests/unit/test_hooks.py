"""The hooks: which event runs what, what it is told, and that nothing of it can hold up the daemon."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, Sequence

import pytest

from elastiq import command, hooks
from elastiq.hooks import Hooks
from elastiq.nodes import TRANSITIONS, Node, State
from tests.unit.config_files import load, problems, with_ec2
from tests.unit.fakes import Surroundings
from tests.unit.values import a_worker
from tests.waiting import PATIENCE_S, until

DONE = command.CommandResult(0, b"", b"")
ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs/hooks.md"


@pytest.fixture(autouse=True)
def commands_may_run() -> Iterator[None]:
    command.stopping.clear()
    yield
    command.stopping.clear()


class Bench:
    """Hooks whose commands are calls of ours."""

    def __init__(self, answer: Callable[[Mapping[str, str]], object] = lambda env: DONE, **settings: Any) -> None:
        self.around = Surroundings(**settings)
        self.core = self.around.core
        self.answer, self.runs = answer, list[tuple[tuple[str, ...], dict[str, Any], dict[str, str]]]()
        self.hooks = Hooks(self.core, self._run)
        self.core.listeners.append(self.hooks)
        self.configure()

    def configure(self, **values: Any) -> None:
        every = {f"on_{event}": "/bin/hook 'an argument'" for event in hooks.EVENTS}
        self.hooks.configure({**every, "timeout_s": 30.0, **values})

    def _run(
        self, argv: Sequence[str], timeout_s: float, stdin: bytes, env: Mapping[str, str]
    ) -> command.CommandResult:
        self.runs.append((tuple(argv), json.loads(stdin), dict(env)))
        result = self.answer(env)
        if isinstance(result, Exception):
            raise result
        assert isinstance(result, command.CommandResult)
        return result

    def add(self, state: State, number: int = 1, **more: Any) -> Node:
        node = Node(f"intent.{number}", "ec2", "site", state, instance_id=f"i-{number}", flavour="small", **more)
        return self.core.registry.add(node)

    def move(self, node: Node, *states: State) -> None:
        for state in states:
            self.core.registry.move(node, state, f"because {state.value}", self.core.wall())
        self.core.persist()

    def settle(self) -> list[str]:
        """Once all threads have ended, and what they post has happened: the events that were passed on."""
        until(lambda: not self.hooks._threads)
        self.around.run(1.0)
        return [env["ELASTIQ_EVENT"] for _, _, env in self.runs]


# --------------------------------------------------------------------------- what is an event


@pytest.mark.parametrize(
    ("before", "after", "events"),
    [
        ("requested", "pending", ["launch"]),
        ("requested", "idle", ["launch", "join"]),  # found when it had joined already
        ("requested", "gone", ["failure"]),  # refused
        ("requested", "failed", ["failure"]),
        ("pending", "booting", []),
        ("booting", "busy", ["join"]),
        ("booting", "failed", ["failure"]),
        ("idle", "busy", []),
        ("idle", "draining", ["drain"]),
        ("idle", "lost", ["failure"]),
        ("idle", "gone", ["end"]),
        ("draining", "idle", ["join"]),
        ("draining", "terminating", []),
        ("draining", "stopped", ["end"]),
        ("stopped", "pending", ["launch"]),
        ("stopped", "draining", ["drain"]),
        ("lost", "busy", ["join"]),
        ("failed", "gone", ["end"]),
        ("terminating", "gone", ["end"]),
        ("terminating", "idle", ["join"]),
    ],
)
def test_a_move_is_these_events(before: str, after: str, events: list[str]) -> None:
    assert hooks.happened(before, after) == events


def test_every_way_of_a_machine_into_service_and_out_of_it_is_an_event() -> None:
    for before, possible in TRANSITIONS.items():
        for after in possible:
            events = hooks.happened(before.value, after.value)
            comes = after in (State.IDLE, State.BUSY) and before not in (State.IDLE, State.BUSY)
            assert ("join" in events) is comes, (before, after)
            goes = after in (State.GONE, State.LOST, State.FAILED, State.STOPPED)
            assert bool({"end", "failure"} & set(events)) is goes, (before, after)


# --------------------------------------------------------------------------- what is told


def test_a_hook_is_told_the_facts_by_its_environment_and_by_json() -> None:
    bench = Bench()
    node = bench.add(State.BOOTING, addresses=frozenset({"10.0.0.7", "198.51.100.7", "2001:db8::7"}), market="spot")
    node.worker, node.seen = "w7.example.org", a_worker("w7.example.org", addresses=frozenset({"198.51.100.7"}))
    bench.move(node, State.IDLE)
    assert bench.settle() == ["join"]
    ((argv, facts, env),) = bench.runs
    assert argv == ("/bin/hook", "an argument")
    ours = {name: value for name, value in env.items() if name.startswith("ELASTIQ_")}
    assert ours.pop("ELASTIQ_TIME") == facts["time"]
    assert ours == {
        "ELASTIQ_EVENT": "join",
        "ELASTIQ_CLUSTER": "test",
        "ELASTIQ_NODE": "i-1",
        "ELASTIQ_ID": "intent.1",
        "ELASTIQ_INSTANCE_ID": "i-1",
        "ELASTIQ_POOL": "ec2",
        "ELASTIQ_FLAVOUR": "small",
        "ELASTIQ_MARKET": "spot",
        "ELASTIQ_SITE": "site",
        "ELASTIQ_WORKER": "w7.example.org",
        "ELASTIQ_ADDRESS": "198.51.100.7",
        "ELASTIQ_ADDRESSES": "198.51.100.7 10.0.0.7 2001:db8::7",
        "ELASTIQ_BEFORE": "booting",
        "ELASTIQ_AFTER": "idle",
        "ELASTIQ_REASON": "because idle",
    }
    assert {f"ELASTIQ_{key.upper()}" for key in facts} == {*ours, "ELASTIQ_TIME"}
    assert facts["addresses"] == ["198.51.100.7", "10.0.0.7", "2001:db8::7"]


def test_the_page_has_every_event_and_every_variable() -> None:
    page = DOCS.read_text(encoding="utf-8")
    assert re.findall(r"(?m)^\| `on_([a-z]+)` ", page) == list(hooks.EVENTS)
    bench = Bench()
    bench.move(bench.add(State.BOOTING), State.IDLE)
    bench.core.paused = {"launch": "paused"}
    bench.core.say("pause", "paused")
    bench.settle()
    given = {name for _, _, env in bench.runs for name in env if name.startswith("ELASTIQ_")}
    table = page[: page.index("With `on_pause` there are no facts")]
    assert set(re.findall(r"ELASTIQ_[A-Z_]+", table)) == given
    assert f"{hooks.WAITING_AT_MOST:,}" in page and f"{hooks.LONGEST_FACT:,}" in page
    passed_on = page[page.index("Of the daemon's own environment") : page.index("and nothing else")]
    assert tuple(re.findall(r"`([A-Z_]+)`", passed_on)) == hooks.PASSED_ON


def test_of_a_machine_that_is_gone_its_addresses_are_still_told() -> None:
    bench = Bench()
    node = bench.add(State.TERMINATING, addresses=frozenset({"10.0.0.7"}))
    node.worker = "w7"
    bench.hooks.known.update(bench.core.registry.nodes)
    bench.move(node, State.GONE)
    assert bench.settle() == ["end"]
    assert (bench.runs[0][2]["ELASTIQ_ADDRESS"], bench.runs[0][2]["ELASTIQ_WORKER"]) == ("10.0.0.7", "w7")
    assert bench.hooks.known == {}


def test_a_machine_that_an_earlier_run_was_ending_is_known_from_the_start() -> None:
    around = Surroundings()
    node = Node("n.1", "ec2", "site", State.TERMINATING, instance_id="i-1", addresses=frozenset({"10.0.0.7"}))
    around.core.registry.add(node)
    assert Hooks(around.core).known == {"n.1": node}


def test_nothing_else_of_the_environment_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_SECRET_ACCESS_KEY", "https_proxy", "CREDENTIALS_DIRECTORY", "NOTIFY_SOCKET", "LD_PRELOAD"):
        monkeypatch.setenv(name, "hidden")
    bench = Bench()
    bench.move(bench.add(State.BOOTING), State.IDLE)
    bench.settle()
    ((_, _, env),) = bench.runs
    assert "hidden" not in env.values()
    assert {name for name in env if not name.startswith("ELASTIQ_")} <= set(hooks.PASSED_ON)
    assert env["PATH"] == os.environ["PATH"]


def test_what_a_cloud_answers_cannot_break_the_environment() -> None:
    given = hooks.environment({"reason": "a\0b\nc\x1b[31md" + "x" * 10_000})
    assert given["ELASTIQ_REASON"].startswith("a b c [31mdxxx")
    assert len(given["ELASTIQ_REASON"]) == hooks.LONGEST_FACT
    odd = hooks.environment({"reason": "\ud800 zu groß 日本"})["ELASTIQ_REASON"]
    assert os.fsencode(odd).decode("utf-8") == "  zu groß 日本"


def test_words_of_any_language_arrive_in_any_locale() -> None:
    told = r"environment({'a': '\xdf\u65e5'})['ELASTIQ_A']"
    code = f"import os; from elastiq.hooks import environment; print(os.fsencode({told}).hex())"
    for locale in ("C", "POSIX", "C.UTF-8"):
        env = {**os.environ, "LC_ALL": locale, "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", "PYTHONPATH": str(ROOT)}
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60)
        assert bytes.fromhex(done.stdout.strip()).decode("utf-8") == "ß日", (locale, done.stderr)


def test_a_launch_that_is_refused_is_told_once_and_not_for_each_machine() -> None:
    bench = Bench()
    for number in range(1, 4):
        node = bench.add(State.REQUESTED, number)
        bench.core.registry.move(node, State.GONE, "no capacity", 0.0)
    bench.core.persist()
    another = bench.core.registry.add(Node("later.0", "ec2", "site"))
    bench.move(another, State.GONE)
    assert bench.settle() == ["failure", "failure"]
    assert sorted(env["ELASTIQ_ID"] for _, _, env in bench.runs) == ["intent.1", "later.0"]


@pytest.mark.parametrize(
    ("before", "after", "paused", "reason"),
    [
        ({}, {"launch": "because of the bill"}, ["launch"], "no launch: because of the bill"),
        ({}, {"launch": "a", "terminate": "b"}, ["launch", "terminate"], "no launch: a; no terminate: b"),
        ({}, {"launch": "a", "terminate": "a"}, ["launch", "terminate"], "no launch and no terminate: a"),
        ({"launch": "paused"}, {}, [], "launches and ends again"),
    ],
)
def test_a_pause_and_its_end_are_told(
    before: dict[str, str], after: dict[str, str], paused: list[str], reason: str
) -> None:
    bench = Bench()
    bench.core.paused = before
    bench.core.say("pause", "")
    bench.settle()
    bench.runs.clear()
    bench.core.paused = after
    bench.core.say("pause", "")
    bench.core.say("plan", "another event")
    assert bench.settle() == ["pause"]
    ((_, facts, env),) = bench.runs
    assert (facts["paused"], env["ELASTIQ_PAUSED"], facts["reason"]) == (paused, " ".join(paused), reason)


def test_a_kill_switch_that_a_reload_brings_is_a_pause() -> None:
    bench = Bench()
    object.__setattr__(bench.core.settings, "terminate", False)
    bench.configure()
    assert bench.settle() == ["pause"]
    assert bench.runs[0][1]["paused"] == ["terminate"]


# --------------------------------------------------------------------------- how it is run


def test_what_happens_to_one_machine_is_told_in_its_order_and_machines_do_not_wait_for_each_other() -> None:
    let_go = threading.Event()

    def answer(env: Mapping[str, str]) -> command.CommandResult:
        if env["ELASTIQ_NODE"] == "i-1" and env["ELASTIQ_EVENT"] == "join":
            assert let_go.wait(PATIENCE_S)
        return DONE

    bench = Bench(answer)
    slow, quick = bench.add(State.BOOTING, 1), bench.add(State.BOOTING, 2)
    bench.move(slow, State.IDLE, State.DRAINING)
    bench.move(quick, State.IDLE, State.DRAINING)
    until(lambda: len(bench.runs) == 3)
    assert [env["ELASTIQ_EVENT"] for _, _, env in bench.runs if env["ELASTIQ_NODE"] == "i-2"] == ["join", "drain"]
    let_go.set()
    bench.settle()
    assert [env["ELASTIQ_EVENT"] for _, _, env in bench.runs if env["ELASTIQ_NODE"] == "i-1"] == ["join", "drain"]


def test_only_so_many_run_and_wait_and_what_is_dropped_is_counted_and_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(hooks, "WAITING_AT_MOST", 5)
    let_go, at_once, most = threading.Event(), 0, 0
    lock = threading.Lock()

    def answer(env: Mapping[str, str]) -> command.CommandResult:
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        assert let_go.wait(PATIENCE_S)
        with lock:
            at_once -= 1
        return DONE

    bench = Bench(answer)
    nodes = [bench.add(State.BOOTING, number) for number in range(1, 21)]
    for node in nodes[: hooks.AT_ONCE]:
        bench.move(node, State.IDLE)
    until(lambda: len(bench.runs) == hooks.AT_ONCE)
    for node in nodes[hooks.AT_ONCE :]:
        bench.move(node, State.IDLE)
    dropped = len(nodes) - hooks.AT_ONCE - 5
    assert bench.core.counters["hooks_dropped"] == dropped
    assert "further ones are dropped" in bench.core.notices["hooks"]
    assert [record.getMessage() for record in caplog.records].count(f"hooks: {bench.core.notices['hooks']}") == 1
    let_go.set()
    bench.settle()
    assert len(bench.runs) == len(nodes) - dropped
    assert most == hooks.AT_ONCE
    assert "hooks" not in bench.core.notices


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (command.CommandResult(3, b"", b"no such zone\n"), "exit code 3: no such zone"),
        (command.CommandResult(-9, b"out", b""), "signal 9 (Killed): it said nothing"),
        (command.CommandTimeout(["/bin/hook", "an argument"], "did not end within 30 s, killed"),
         "did not end within 30 s, killed"),
        (command.CommandNotFound(["/bin/hook"], "cannot be executed: No such file or directory"),
         "cannot be executed: No such file or directory"),
        (OSError(24, "Too many open files"), "OSError: [Errno 24] Too many open files"),
    ],
)  # fmt: skip
def test_a_failure_is_counted_and_one_line_and_no_more(
    answer: object, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(lambda env: answer)
    bench.move(bench.add(State.BOOTING), State.IDLE)
    bench.settle()
    assert bench.core.counters["hook_failures"] == 1
    (record,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert record.getMessage() == f"hook on_join (hook) for i-1 failed: {said}"
    assert bench.core.notices["hook on_join"] == record.getMessage()
    assert bench.core.faults == {}

    bench.answer = lambda env: DONE
    bench.move(bench.add(State.BOOTING, 2), State.IDLE)
    bench.settle()
    assert "hook on_join" not in bench.core.notices
    assert (bench.core.counters["hooks_run"], bench.core.counters["hook_failures"]) == (2, 1)


def test_of_a_long_complaint_the_end_is_kept() -> None:
    assert hooks.last_words(b"first\n" * 1000 + b"the cause\n") == hooks.last_words(b"first\n" * 999 + b"the cause")
    line = hooks.last_words(b"first\n" * 1000 + b"\xffthe\x1b cause\n")
    assert line.startswith("...") and line.endswith("\ufffdthe cause") and len(line) == 300


@pytest.mark.parametrize("key", ["dry_run_boot_vms", "dry_run_shutdown_vms"])
def test_in_a_dry_run_it_is_only_said(key: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    bench = Bench(**{key: True})
    bench.move(bench.add(State.BOOTING), State.IDLE)
    assert bench.settle() == []
    assert "dry run: would run hook on_join (hook) for i-1" in [record.getMessage() for record in caplog.records]


def test_in_virtual_time_no_command_is_run(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(command, "run", lambda *_, **__: pytest.fail("a command was run"))
    around = Surroundings()
    simulated = Hooks(around.core)
    around.core.listeners.append(simulated)
    simulated.configure({"on_join": "/bin/false", "timeout_s": 30.0})
    node = around.core.registry.add(Node("n.1", "ec2", "site", State.BOOTING, instance_id="i-1"))
    around.core.registry.move(node, State.IDLE, "", 0.0)
    around.core.persist()
    assert not simulated._threads
    assert any("would run hook on_join" in record.getMessage() for record in caplog.records)


def test_an_event_without_a_key_runs_nothing() -> None:
    bench = Bench()
    bench.configure(on_join=None)
    bench.move(bench.add(State.BOOTING), State.IDLE, State.DRAINING)
    assert bench.settle() == ["drain"]


def test_at_the_end_what_waits_is_dropped_and_what_runs_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    def answer(env: Mapping[str, str]) -> object:
        until(command.stopping.is_set)
        return command.CommandInterrupted(["/bin/hook"], "ended, commands are being stopped")

    bench = Bench(answer)
    node = bench.add(State.BOOTING)
    bench.move(node, State.IDLE, State.DRAINING, State.TERMINATING, State.GONE)
    until(lambda: bench.runs)
    command.kill_all()
    bench.hooks.close()
    assert not bench.hooks._threads
    assert len(bench.runs) == 1
    said = [record.getMessage() for record in caplog.records]
    assert "hooks: 2 events were not passed on, elastiq ends or has no [hooks] any more" in said
    assert "hook on_join (hook) for i-1: ended, commands are being stopped" in said


# --------------------------------------------------------------------------- the section


def test_the_section_is_followed_as_it_comes_changes_and_goes(tmp_path: Path) -> None:
    around = Surroundings()

    class Daemon:
        core = around.core

    daemon: Any = Daemon()
    hooks.follow(daemon, {"on_join": "/bin/true", "timeout_s": 30.0})
    (first,) = around.core.listeners
    hooks.follow(daemon, {"on_join": "/bin/false", "timeout_s": 30.0})
    assert around.core.listeners == [first]
    assert isinstance(first, Hooks) and first.values["on_join"] == "/bin/false"
    hooks.follow(daemon, None)
    hooks.follow(daemon, None)
    assert around.core.listeners == []


def test_commands_are_read_from_their_section(tmp_path: Path) -> None:
    loaded = load(tmp_path, with_ec2("[hooks]\non_join = /bin/sh -c 'exit 0'\non_end = sh\ntimeout_s = 5\n"))
    values = loaded.settings.extras["hooks"]
    assert (values["on_join"], values["on_end"], values["timeout_s"]) == ("/bin/sh -c 'exit 0'", "sh", 5.0)
    assert values["on_drain"] is None


def test_the_example_names_every_key(tmp_path: Path) -> None:
    text = (ROOT / "elastiq.conf.example").read_text("utf-8")
    whole = text[text.index("# Hooks: ") :].partition("\n\n")[0]
    above, _, below = whole.partition("#   [hooks]\n")
    assert re.findall(r"(?m)^#   ([a-z_]+)  ", above) == [option.name for option in hooks.OPTIONS]
    shipped = re.sub(r"/usr/share/elastiq/hooks/", f"{ROOT}/packaging/hooks/", re.sub(r"(?m)^#   ", "", below))
    values = load(tmp_path, with_ec2(f"[hooks]\n{shipped}\n")).settings.extras["hooks"]
    assert values["timeout_s"] == next(option.default for option in hooks.OPTIONS if option.name == "timeout_s")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("on_join = /nonexistent/hook a", "`/nonexistent/hook` is no program that can be executed here,"
         " check its path, and its mode (chmod a+x)"),
        ("on_join = {plain}", "`{plain}` is no program that can be executed here,"
         " check its path, and its mode (chmod a+x)"),
        ("on_join = /bin", "`/bin` is no program that can be executed here,"
         " check its path, and its mode (chmod a+x)"),
        ("on_join = no-such-program-anywhere", "`no-such-program-anywhere` is no program that can be executed here,"
         " check its path, and its mode (chmod a+x)"),
        ("on_join = hooks/hook", "`hooks/hook` is no whole path, begin it with /"),
        ("on_join = /bin/sh -c 'exit", "cannot be split into words (no closing quotation), close the quotation"),
        ("on_join = ''", "names no program, write its path"),
        ("timeout_s = 0", "must be above 0"),
    ],
)  # fmt: skip
def test_a_command_that_cannot_be_run_is_a_problem_of_its_line(tmp_path: Path, line: str, said: str) -> None:
    plain = tmp_path / "plain"
    plain.write_text("#!/bin/sh\n")
    plain.chmod(0o644)
    line, said = line.format(plain=plain), said.format(plain=plain)
    key = line.partition(" ")[0]
    assert problems(tmp_path, with_ec2(f"[hooks]\n{line}\n")) == [f"6: [hooks] {key}: {said}"]
