"""HTCondor's bindings in their helper process: what becomes of a call when they, or the process, misbehave."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Iterator

import pytest

from elastiq import command
from elastiq.interfaces import Machine, Owner, Resources, SourceError, UnsupportedError
from elastiq.plugins.batch import htcondor_bindings
from elastiq.plugins.batch.htcondor import HTCondor
from tests.integration.fake_htcondor import FAKE_BINDINGS, FakePool
from tests.looks import by_subject
from tests.waiting import PATIENCE_S, once, until


@pytest.fixture
def pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakePool]:
    pool = FakePool(tmp_path / "pool")
    monkeypatch.setenv("PATH", str(pool.bin), prepend=":")
    monkeypatch.setenv("PYTHONPATH", str(FAKE_BINDINGS))
    command.stopping.clear()
    yield pool
    command.stopping.clear()


def plugin(timeout_s: float = 20.0, **values: Any) -> HTCondor:
    defaults = {option.name: option.default for option in HTCondor.OPTIONS}
    mine = {"command_timeout_s": timeout_s, "query_method": "bindings"}
    return HTCondor.from_config({**defaults, **mine, **values}, Owner("test", "0123456789abcdef0123"))


def helpers() -> set[int]:
    """The helper processes of this one."""
    found = set()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread or a child that has just ended
            for pid in map(int, (task / "children").read_text().split()):
                if b"htcondor_server.py" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    found.add(pid)
    return found


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except FileNotFoundError:
        return True


def test_both_methods_answer_the_same(pool: FakePool) -> None:
    pool.submit(3, Requirements='/Expr(TARGET.HasDocker && Foo == "\udce9")/')
    pool.submit(2, RequestCpus=4, WantX=7)
    pool.add_worker("w1", "10.0.0.1")
    pool.start_job("w1")
    pool.load()["jobs"][0]["schedd"] = "two"
    pool.state["schedds"] = ["head", "two"]
    pool.save()
    one, other = plugin(), plugin(query_method="commands")
    assert one.jobs() == other.jobs()
    assert one.workers() == other.workers()
    assert one.portrait("w1") == other.portrait("w1")
    assert one.jobs_recorded_on(["w1", "w2"]) == other.jobs_recorded_on(["w1", "w2"]) == {"w1": 1, "w2": 0}
    assert len(one.jobs_on("w1")) == 1 and one.jobs_on("w1") == other.jobs_on("w1")
    assert one.find_job("1.0") == other.find_job("1.0")


def test_the_pool_and_the_schedds_of_the_configuration_are_asked(pool: FakePool) -> None:
    plugin(pool="cm.example.org:9618", schedds=("head",)).jobs()
    (argv,) = pool.calls("condor_q")
    assert argv[:4] == ["-pool", "cm.example.org:9618", "-name", "head"]
    assert pool.calls("condor_status") == []


def test_a_hung_query_is_killed_at_its_deadline_and_the_next_is_answered(pool: FakePool) -> None:
    pool.add_worker("w1", "10.0.0.1")
    before, batch = helpers(), plugin(timeout_s=5.0)  # a start of the helper has to be quicker than that
    batch.workers()
    (helper,) = helpers() - before
    pool.once("workers", "hang")
    with pytest.raises(
        SourceError, match=r"^condor_status failed by the bindings: .*did not answer within 5 s, killed"
    ):
        batch.workers()
    assert gone(helper)
    assert [worker.name for worker in batch.workers().workers] == ["w1"]


def test_many_dead_schedds_cost_one_time_out_and_one_helper_is_kept(pool: FakePool) -> None:
    (pool.bin / "condor_q").write_text("#!/bin/sh\nexec sleep 300\n")
    before = helpers()
    began = time.monotonic()
    with pytest.raises(SourceError, match="did not answer"):
        plugin(timeout_s=1.5, schedds=tuple(f"s{number}" for number in range(8))).jobs()
    assert time.monotonic() - began < 8 * 1.5, "not one after the other"
    assert not helpers() - before


def test_a_helper_that_is_killed_in_the_middle_fails_its_call_and_the_next_is_answered(pool: FakePool) -> None:
    before, batch = helpers(), plugin()
    batch.workers()
    (helper,) = helpers() - before
    pool.once("workers", "hang")
    once(lambda: not pool.orders("workers"), lambda: os.kill(helper, signal.SIGKILL))
    with pytest.raises(SourceError, match=r"ended with signal 9"):
        batch.workers()
    assert batch.workers().workers == ()


@pytest.mark.parametrize(("how", "said"), [("fail", "SECMAN:2007"), ("garble", "not JSON")])
def test_what_the_bindings_complain_of_is_one_line(pool: FakePool, how: str, said: str) -> None:
    pool.once("workers", how)
    batch = plugin()
    with pytest.raises(SourceError, match=said) as caught:
        batch.workers()
    assert "\n" not in str(caught.value)
    assert batch.workers().workers == ()


def test_what_a_library_prints_is_no_answer(pool: FakePool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "classad2.py").write_text("import os\nprint('loading')\nos.write(1, b'[{}]\\n')\n")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{FAKE_BINDINGS}")
    pool.submit(3)
    assert sum(group.waiting for group in plugin().jobs().groups) == 3


def test_without_bindings_sizes_alone_decide_and_the_check_says_so(
    pool: FakePool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("htcondor2", "htcondor"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('no such library here')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(htcondor_bindings, "SYSTEM_PYTHON", "/nonexistent/python3")
    batch = plugin(query_method="commands")
    assert batch.can_match, "as far as the files tell"
    with pytest.raises(UnsupportedError, match=r"no such library here.*install python3-htcondor"):
        batch.match([], [Machine("ec2", "m5.large", Resources())])
    assert not batch.can_match
    assert batch.portrait("w1") == ""
    check = by_subject(batch.checks())["bindings"]
    assert check.level == "warning" and "by their sizes alone" in check.text and "python3-htcondor" in check.remedy
    assert by_subject(plugin().checks())["bindings"].level == "error"
    with pytest.raises(SourceError, match="no Python here has HTCondor's bindings"):
        plugin().jobs()


def test_the_helper_ends_with_the_batch_system_that_had_it(pool: FakePool) -> None:
    """As after a reload, and not only once garbage is collected."""
    before = helpers()
    gc.disable()
    try:
        batch = plugin()
        batch.workers()
        (helper,) = helpers() - before
        del batch
        until(lambda: gone(helper), "it lives on")
    finally:
        gc.enable()


def test_the_bindings_never_come_into_our_process() -> None:
    program = (
        "import sys\n"
        "from elastiq.interfaces import *\n"
        "from elastiq.plugins.batch.htcondor import HTCondor\n"
        "values = {option.name: option.default for option in HTCondor.OPTIONS}\n"
        "batch = HTCondor.from_config(values, Owner('test', '0123456789abcdef'))\n"
        "lazy = [name for name in sys.modules if name.endswith(('bindings', 'portraits', 'coprocess'))]\n"
        "said = batch.match([JobGroup('k', Resources(1), 1)], [Machine('ec2', 'm5', Resources(4))])\n"
        "loaded = {'htcondor', 'classad', 'htcondor2', 'classad2'} & set(sys.modules)\n"
        "print(batch.can_match, lazy, list(said.values()), loaded)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S)
    assert (done.stdout.strip(), done.stderr) == ("True [] [''] set()", "")


def test_the_helper_ends_with_the_one_who_asked_even_in_the_middle_of_a_call(pool: FakePool) -> None:
    program = (
        "from tests.integration.test_htcondor_bindings import plugin, helpers\n"
        "batch = plugin(timeout_s=5.0)\n"
        "batch.workers()\n"
        "print(*helpers(), flush=True)\n"
        f"open('{pool.folder}/next-workers', 'w').write('hang')\n"
        "batch.workers()\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        helper = int(parent.stdout.readline())
        until(lambda: pool.calls("condor_status")[1:] and not pool.orders("workers"))
        parent.kill()
    try:
        until(lambda: gone(helper))  # its own clock, soon after the deadline
    finally:
        os.killpg(helper, signal.SIGKILL)  # the fake command that hangs: real bindings have no child
