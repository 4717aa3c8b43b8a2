"""The HTCondor plugin over fake commands that misbehave as the real ones were seen to."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, Callable

import pytest

from elastiq import command
from elastiq.interfaces import DrainMode, DrainOutcome, Owner, SourceError, Worker, Workers, WorkerState
from elastiq.observations import SettleJudge
from elastiq.plugins.batch import htcondor
from elastiq.plugins.batch.htcondor import HTCondor
from tests.integration.fake_htcondor import FakePool
from tests.looks import by_subject, levels
from tests.waiting import PATIENCE_S

HEAD = "0123456789abcdef0123"


@pytest.fixture
def pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakePool:
    pool = FakePool(tmp_path / "pool")
    monkeypatch.setenv("PATH", str(pool.bin), prepend=":")
    command.stopping.clear()
    return pool


def plugin(head: str = HEAD, **values: Any) -> HTCondor:
    defaults = {option.name: option.default for option in HTCondor.OPTIONS}
    return HTCondor.from_config({**defaults, "command_timeout_s": 20.0, **values}, Owner("test", head))


def change(pool: FakePool, **state: Any) -> None:
    pool.load().update(state)
    pool.save()


def waiting(batch: HTCondor) -> int:
    return sum(group.waiting for group in batch.jobs().groups)


def the(batch: HTCondor, name: str) -> Worker:
    (found,) = [worker for worker in batch.workers().workers if worker.name == name]
    return found


CALLS: dict[str, Callable[[HTCondor], Any]] = {
    "jobs": lambda batch: batch.jobs(),
    "schedds": lambda batch: batch.jobs(),
    "workers": lambda batch: batch.workers(),
    "jobs_recorded_on": lambda batch: batch.jobs_recorded_on(["w1"]),
    "lookup": lambda batch: batch.drain("w1", DrainMode.IF_IDLE),
    "drain": lambda batch: batch.drain("w1", DrainMode.IF_IDLE),
    "undrain": lambda batch: batch.undrain("w1"),
    "condor_advertise": lambda batch: batch.forget("w1"),
}


# --------------------------------------------------------------------------- failed, hung, flooded, garbled


@pytest.mark.parametrize("what", ["fail", "fail-with-rows"])
@pytest.mark.parametrize("call", CALLS)
def test_an_exit_code_that_is_not_zero_is_unknown_whatever_was_printed(pool: FakePool, call: str, what: str) -> None:
    pool.add_worker("w1", "10.0.0.1")
    pool.once(call, what)
    with pytest.raises(SourceError, match=r"Failed to (fetch|end)") as caught:
        CALLS[call](plugin())
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("call", ["jobs", "workers", "drain", "undrain"])
def test_a_command_that_hangs_is_unknown_after_its_deadline(pool: FakePool, call: str) -> None:
    pool.add_worker("w1", "10.0.0.1")
    pool.once(call, "hang")
    began = time.monotonic()
    with pytest.raises(SourceError, match="did not end within 2 s"):
        CALLS[call](plugin(command_timeout_s=2.0))
    assert time.monotonic() - began < PATIENCE_S, "not at the command's own end"


@pytest.mark.parametrize("call", ["jobs", "workers"])
def test_a_command_that_floods_is_unknown(pool: FakePool, call: str) -> None:
    pool.once(call, "flood")
    with pytest.raises(SourceError, match="wrote more than"):
        CALLS[call](plugin())


@pytest.mark.parametrize("call", ["jobs", "schedds", "workers", "jobs_recorded_on", "lookup"])
def test_nonsense_with_success_is_unknown(pool: FakePool, call: str) -> None:
    pool.once(call, "garble")
    with pytest.raises(SourceError, match="not JSON"):
        CALLS[call](plugin())


def test_a_missing_command_is_unknown_and_named(pool: FakePool) -> None:
    (pool.bin / "condor_q").unlink()
    with pytest.raises(SourceError, match=r"condor_q.*cannot be executed: No such file.*HTCondor's.*PATH of elastiq"):
        plugin().jobs()


@pytest.mark.parametrize("tool, call", [("condor_status", "workers"), ("condor_q", "jobs"), ("condor_drain", "drain")])
def test_a_command_that_a_signal_ended_is_unknown_and_the_signal_is_said_once(
    pool: FakePool, tool: str, call: str
) -> None:
    pool.add_worker("w1", "10.0.0.1")
    (pool.bin / tool).write_text("#!/bin/sh\nkill -SEGV $$\n")
    with pytest.raises(SourceError) as caught:
        CALLS[call](plugin())
    assert str(caught.value).count("signal 11 (Segmentation fault)") == 1
    assert "11" not in str(caught.value).replace("signal 11", "") and "exit code" not in str(caught.value)


@pytest.mark.parametrize("tool, call", [("condor_status", "workers"), ("condor_q", "jobs")])
def test_an_exit_code_of_a_silent_command_is_said_once(pool: FakePool, tool: str, call: str) -> None:
    (pool.bin / tool).write_text("#!/bin/sh\nexit 7\n")
    with pytest.raises(SourceError) as caught:
        CALLS[call](plugin())
    assert str(caught.value).count("exit code 7") == 1


def test_commands_that_were_stopped_are_unknown(pool: FakePool) -> None:
    command.kill_all()
    with pytest.raises(SourceError, match="being stopped"):
        plugin().workers()


# --------------------------------------------------------------------------- the queue


def test_nothing_printed_at_exit_code_zero_is_an_empty_queue(pool: FakePool) -> None:
    pool.once("jobs", "silent")
    assert plugin().jobs().groups == ()


def test_the_jobs_of_all_users_are_seen(pool: FakePool) -> None:
    pool.submit(7)
    assert waiting(plugin()) == 7
    assert all("-allusers" in argv for argv in pool.calls("condor_q"))


def test_four_idle_and_two_running_jobs_are_told_apart(pool: FakePool) -> None:
    pool.submit(4)
    pool.submit(2, status=2, host="slot1_1@w1")
    pool.submit(9, status=5)
    pool.submit(5, JobUniverse=7)
    (group,) = plugin().jobs().groups
    assert (group.waiting, group.running, group.requirements) == (4, 2, "")


def test_ten_thousand_jobs_are_one_row(pool: FakePool) -> None:
    pool.submit(10_000)
    (group,) = plugin().jobs().groups
    assert group.waiting == 10_000


def test_bytes_that_are_not_utf8_do_not_hide_the_jobs(pool: FakePool) -> None:
    pool.submit(3, Requirements='/Expr(TARGET.Foo == "\udce9")/')
    (group,) = plugin().jobs().groups
    assert (group.waiting, group.requirements) == (3, 'TARGET.Foo == "\ufffd"')


def test_each_schedd_is_asked_by_its_name_and_their_jobs_add_up(pool: FakePool) -> None:
    change(pool, schedds=["head", "two"])
    pool.submit(3)
    pool.submit(4, schedd="two")
    assert waiting(plugin()) == 7
    assert {argv[argv.index("-name") + 1] for argv in pool.calls("condor_q")} == {"head", "two"}
    assert waiting(plugin(schedds=("two",))) == 4


def test_the_schedd_of_this_machine_is_asked_if_the_collector_knows_none(pool: FakePool) -> None:
    pool.submit(3)
    pool.once("schedds", "silent")
    assert waiting(plugin()) == 3
    assert "-name" not in pool.calls("condor_q")[0]


def test_one_dead_schedd_is_missing_and_the_others_count(pool: FakePool) -> None:
    change(pool, schedds=["head", "two"], dead=["two"])
    pool.submit(3)
    jobs = plugin().jobs()
    assert sum(group.waiting for group in jobs.groups) == 3
    assert not jobs.complete
    assert len(jobs.missing) == 1 and jobs.missing[0].startswith("schedd two: condor_q failed")


def test_a_schedd_that_the_collector_no_longer_lists_is_asked_for_and_missing_not_empty(pool: FakePool) -> None:
    change(pool, schedds=["head", "two"])
    pool.submit(3)
    pool.submit(4, schedd="two")
    batch = plugin()
    assert batch.jobs().complete
    change(pool, schedds=["head"])  # its ad expired
    jobs = batch.jobs()
    assert sum(group.waiting for group in jobs.groups) == 3
    assert len(jobs.missing) == 1 and jobs.missing[0].startswith("schedd two: condor_q failed")
    with pytest.raises(SourceError, match="schedd two"):
        batch.jobs_recorded_on(["w1"])
    change(pool, schedds=["head", "two"])
    assert (waiting(batch), batch.jobs().complete) == (7, True), "it is listed again"


def test_a_schedd_is_given_up_when_the_collector_has_long_not_listed_it(
    pool: FakePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(htcondor, "UNLISTED_READS", 3)
    change(pool, schedds=["head", "two"])
    batch = plugin()
    batch.jobs()
    change(pool, schedds=["head"])
    assert [batch.jobs().complete for _ in range(4)] == [False, False, False, True]
    change(pool, schedds=["head", "two"])
    batch.jobs()
    change(pool, schedds=["head"])
    assert [batch.jobs().complete for _ in range(2)] == [False, False], "counted anew once it was listed"


def test_a_collector_that_forgot_all_schedds_makes_the_queue_unknown(pool: FakePool) -> None:
    pool.submit(3, schedd="two")
    change(pool, schedds=["two"])
    batch = plugin()
    assert waiting(batch) == 3
    change(pool, schedds=[])  # just restarted, say
    with pytest.raises(SourceError, match="schedd two: condor_q failed"):
        batch.jobs()


class Clock:
    """In the place of `monotonic`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(htcondor, "monotonic", lambda: self.now)


def listings(pool: FakePool) -> int:
    """How often the collector was asked for the schedds alone."""
    return sum("-schedd" in argv for argv in pool.calls("condor_status"))


def followed(pool: FakePool, *schedds: str) -> HTCondor:
    """One that has read the workers and the queue of these schedds."""
    change(pool, schedds=list(schedds))
    batch = plugin()
    batch.workers()
    batch.jobs()
    assert listings(pool) == 1
    return batch


def test_schedds_that_the_read_of_the_workers_lists_are_not_asked_for_again(
    pool: FakePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, batch = Clock(monkeypatch), followed(pool, "head", "two")
    pool.submit(4, schedd="two")
    for _ in range(3):
        clock.now += htcondor.KEPT_S - 1
        batch.workers()
        assert (waiting(batch), waiting(batch)) == (4, 4)
    assert listings(pool) == 1
    assert len(pool.calls("condor_q")) == 2 + 3 * 2 * 2, "the queues themselves are read each time"


def test_a_new_schedd_is_asked_after_the_next_read_of_the_workers(pool: FakePool) -> None:
    batch = followed(pool, "head")
    change(pool, schedds=["head", "two"])
    pool.submit(4, schedd="two")
    batch.workers()
    assert (waiting(batch), batch.jobs().complete) == (4, True)


@pytest.mark.parametrize("answer", ["none", "fail", "hang", "without the collector's own ad"])
def test_a_new_schedd_is_found_without_a_good_read_of_the_workers_too(
    pool: FakePool, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    clock, batch = Clock(monkeypatch), followed(pool, "head")
    change(pool, schedds=["head", "two"])
    pool.submit(4, schedd="two")
    if answer == "without the collector's own ad":
        (pool.bin / "condor_status").rename(pool.bin / "whole")
        only = 'echo "[{\\"MyType\\": \\"Scheduler\\", \\"Name\\": \\"head\\"}]"'
        script = f'case "$*" in *-any*) {only};; *) exec {pool.bin}/whole "$@";; esac'
        (pool.bin / "condor_status").write_text(f"#!/bin/sh\n{script}\n")
        (pool.bin / "condor_status").chmod(0o755)
        assert batch.workers().missing
        assert waiting(batch) == 4, "such an answer says nothing of who is not in it"
        return
    if answer != "none":
        monkeypatch.setattr(batch, "_timeout_s", 1.0)
        pool.once("workers", answer)
        with pytest.raises(SourceError):
            batch.workers()
        monkeypatch.setattr(batch, "_timeout_s", 20.0)
    clock.now += htcondor.KEPT_S
    assert waiting(batch) == 4


def test_a_schedd_that_dies_is_missing_at_once_and_its_pool_asked_anew(pool: FakePool) -> None:
    batch = followed(pool, "head", "two")
    pool.submit(4, schedd="two")
    change(pool, dead=["two"])
    assert "schedd two: condor_q failed" in batch.jobs().missing[0]
    assert listings(pool) == 1
    assert not batch.jobs().complete
    assert listings(pool) == 2, "the next read asks who is there"
    batch.workers()
    change(pool, dead=[])  # restarted, at another port: condor_q finds it by its name
    assert (waiting(batch), batch.jobs().complete) == (4, True)


def test_the_only_schedd_that_dies_is_no_empty_queue(pool: FakePool) -> None:
    batch = followed(pool, "head")
    pool.submit(4)
    for what, names in (("dead", ["head"]), ("schedds", [])):  # its ad goes when it ends in good order
        change(pool, **{what: names})
        with pytest.raises(SourceError, match="schedd head: condor_q failed"):
            batch.jobs()


def test_a_schedd_under_another_name_is_found_at_once_and_the_old_one_missing(pool: FakePool) -> None:
    batch = followed(pool, "head")
    change(pool, schedds=["other"])
    pool.submit(4, schedd="other")
    with pytest.raises(SourceError, match="schedd head: condor_q failed"):
        batch.jobs()
    jobs = batch.jobs()
    assert sum(group.waiting for group in jobs.groups) == 4
    assert len(jobs.missing) == 1 and jobs.missing[0].startswith("schedd head: condor_q failed")


def test_while_the_collector_is_down_the_schedds_that_it_listed_are_asked_and_not_for_ever(
    pool: FakePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, batch = Clock(monkeypatch), followed(pool, "head")
    pool.submit(4)
    (pool.bin / "condor_status").write_text("#!/bin/sh\nexit 1\n")
    clock.now += htcondor.KEPT_S - 1
    with pytest.raises(SourceError):
        batch.workers()
    assert (waiting(batch), batch.jobs().complete) == (4, True)
    clock.now += 1
    with pytest.raises(SourceError, match="condor_status failed"):
        batch.jobs()


def test_who_may_have_a_lost_workers_jobs_is_asked_for_each_time(pool: FakePool) -> None:
    batch = followed(pool, "head")
    change(pool, schedds=["head", "two"])  # since the last read of the workers
    pool.submit(1, status=2, host="slot1_1@w1", schedd="two")
    assert batch.jobs_recorded_on(["w1"]) == {"w1": 1}
    assert batch.jobs_on("w1") == ("1.0@two (somebody)",)


def test_all_schedds_dead_is_unknown(pool: FakePool) -> None:
    change(pool, schedds=["head", "two"], dead=["head", "two"])
    with pytest.raises(SourceError, match="condor_q failed"):
        plugin().jobs()


def test_jobs_on_machines_are_unknown_if_one_schedd_does_not_answer(pool: FakePool) -> None:
    change(pool, schedds=["head", "two"], dead=["two"])
    with pytest.raises(SourceError):
        plugin().jobs_recorded_on(["w1"])


def test_many_dead_schedds_cost_one_time_out(pool: FakePool) -> None:
    names = tuple(f"s{number}" for number in range(8))
    change(pool, schedds=list(names))
    (pool.bin / "condor_q").write_text("#!/bin/sh\nexec sleep 300\n")
    began = time.monotonic()
    with pytest.raises(SourceError, match="did not end"):
        plugin(schedds=names, command_timeout_s=2.0).jobs()
    assert time.monotonic() - began < 8 * 2, "not one after the other"


def test_the_attributes_of_a_constraint_are_grouped_by(pool: FakePool) -> None:
    constraint = 'MY.AcctGroup == "a(b) Owner" && regexp("^x", Owner) && TARGET.Foo =!= undefined && JobPrio > 3'
    plugin(constraint=constraint).jobs()
    (argv,) = pool.calls("condor_q")
    grouped = argv[argv.index("-attributes") + 1].split(",")
    assert {"JobStatus", "JobUniverse", "RoutedToJobId", "AcctGroup", "Owner", "Foo", "JobPrio"} <= set(grouped)
    assert not {"x", "a", "b", "regexp", "undefined"} & set(grouped)
    assert argv[argv.index("-constraint") + 1].endswith(f"&& ({constraint})")


def test_the_collector_of_the_configuration_is_asked(pool: FakePool) -> None:
    pool.add_worker("w1", "10.0.0.1")
    batch = plugin(pool="cm.example.org:9618")
    batch.jobs()
    batch.workers()
    batch.drain("w1", DrainMode.IF_IDLE)
    for tool in ("condor_q", "condor_status", "condor_drain"):
        assert all(argv[:2] == ["-pool", "cm.example.org:9618"] for argv in pool.calls(tool))


def test_jobs_are_counted_on_the_machines_asked_for_only(pool: FakePool) -> None:
    pool.submit(2, status=2, host="slot1_1@w1.example.org")
    pool.submit(1, status=2, host="slot1_1@w1xexample.org")
    pool.submit(1, status=2, host="slot1_1@w1.example.org.uk")
    pool.submit(1, status=2, host="slot1@b@W2.example.org")
    pool.submit(4, status=1)
    recorded = plugin().jobs_recorded_on(["w1.example.org", "w2.example.org", "w3.example.org"])
    assert dict(recorded) == {"w1.example.org": 2, "w2.example.org": 1, "w3.example.org": 0}
    assert dict(plugin().jobs_recorded_on([])) == {}


def test_jobs_are_named_with_their_owners_and_their_schedd_where_there_are_several(pool: FakePool) -> None:
    pool.submit(2, status=2, host="slot1_1@w1.example.org")
    pool.submit(1, status=2, host="slot1@W1.example.org")
    pool.submit(1, status=2, host="slot1@w1.example.org.uk")
    assert plugin().jobs_on("w1.example.org") == ("1.0 (somebody)", "1.1 (somebody)", "2.0 (somebody)")
    change(pool, schedds=["head", "two"])
    pool.submit(1, status=2, host="slot1_2@w1.example.org", schedd="two")
    assert plugin().jobs_on("w1.example.org")[2:] == ("2.0@head (somebody)", "4.0@two (somebody)")
    change(pool, dead=["two"])
    with pytest.raises(SourceError, match="schedd two"):
        plugin().jobs_on("w1.example.org")


def test_jobs_are_counted_on_more_machines_than_an_argument_can_name(pool: FakePool) -> None:
    names = [f"ip-172-31-{number // 250}-{number % 250}.eu-central-1.compute.internal" for number in range(5000)]
    pool.submit(2, status=2, host=f"slot1_1@{names[0]}")
    pool.submit(1, status=2, host=f"slot1_1@{names[-1]}")
    pool.submit(1, status=2, host="slot1_1@other.example.org")
    recorded = plugin().jobs_recorded_on(names)
    assert len(recorded) == 5000
    assert {name: count for name, count in recorded.items() if count} == {names[0]: 2, names[-1]: 1}


@pytest.mark.parametrize("name", ['w1" || true || "', "w1 w2", "", "W1", "w1$(x)"])
def test_a_name_that_is_none_never_gets_into_an_expression(pool: FakePool, name: str) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: plugin().drain(name, DrainMode.IF_IDLE),
        lambda: plugin().undrain(name),
        lambda: plugin().forget(name),
        lambda: plugin().jobs_recorded_on([name]),
        lambda: plugin().jobs_on(name),
    ]
    for call in calls:
        with pytest.raises(SourceError, match="no name of a machine"):
            call()
    assert pool.calls("condor_status") == pool.calls("condor_q") == pool.calls("condor_drain") == []


# --------------------------------------------------------------------------- the workers


def test_a_collector_that_was_just_restarted_says_so(pool: FakePool) -> None:
    fresh = {"StatsLifetime": 3, "StatsLastUpdateTime": 100_000, "LastHeardFrom": 100_000}
    change(pool, collector=fresh)
    answer = plugin().workers()
    assert (answer.workers, answer.source_up_s, answer.missing) == ((), 3.0, ())


def answers(pool: FakePool, text: str) -> Workers:
    """What the plugin makes of this, said by condor_status."""
    (pool.folder / "answer").write_text(text)
    (pool.bin / "condor_status").write_text(f"#!/bin/sh\ncat {pool.folder}/answer\n")
    return plugin().workers()


COLLECTOR = '{"MyType": "Collector", "Name": "pool", "StatsLifetime": 5000}'
SLOT = '{"MyType": "Machine", "Machine": "w1", "Name": "slot1@w1", "State": "Unclaimed", "Activity": "Idle"}'
SCHEDD = '{"MyType": "Scheduler", "Name": "head"}'


@pytest.mark.parametrize(
    "text, seen, why",
    [
        ("", [], "it is empty: the collector's own ad"),
        ("\n", [], "it is empty: the collector's own ad"),
        ("[]", [], "it is empty: the collector's own ad"),
        ("[{}]", [], "the collector's own ad"),
        (f"[{SLOT}]", ["w1"], "the collector's own ad"),
        (f"[{SCHEDD}]", [], "the collector's own ad"),
        (f"[{SLOT}, {SCHEDD}]", ["w1"], "the collector's own ad"),
        ('[{"MyType":"Machine","Name":5,"Cpus":"NaN","State":null}]', [], "the collector's own ad"),
        ('[{"MyType":"Machine","Name":5,"Cpus":"NaN","State":null}]', [], "1 of its ads without a name"),
        (f'[{COLLECTOR}, {SLOT}, {{"MyType":"Machine","Name":5}}]', ["w1"], "1 of its ads without a name"),
        (f'[{COLLECTOR}, {{"MyType":"Slot","Machine":null}}, {{"MyType":"Slot"}}]', [], "2 of its ads without a name"),
        (f'[{COLLECTOR}, {{"MyType":"Machine","Machine":"","Name":"slot1@"}}]', [], "1 of its ads without a name"),
        (f'[{COLLECTOR}, {{"MyType":null,"Machine":"w1"}}]', [], "1 of its ads without a name or a type"),
        (f'[{COLLECTOR}, {{"Machine":"w1","Name":"slot1@w1"}}]', [], "1 of its ads without a name or a type"),
    ],
)
def test_an_answer_that_is_not_whole_never_settles(pool: FakePool, text: str, seen: list[str], why: str) -> None:
    answer = answers(pool, text)
    assert [worker.name for worker in answer.workers] == seen
    assert any(why in missing for missing in answer.missing), answer.missing
    for settle_s in (0.0, 300.0):
        told = SettleJudge(settle_s).why_unsettled(answer, frozenset(), 0.0)
        assert why in told and "has been up" not in told


@pytest.mark.parametrize(
    "text",
    [
        f"[{COLLECTOR}]",
        f"[{COLLECTOR}, {SLOT}, {SCHEDD}, {{}}]",
        '[{"mytype": "collector"}]',
        f'[{COLLECTOR}, {{"MyType": "Negotiator"}}, {{"MyType": "Summary"}}]',
    ],
)
def test_an_answer_with_the_collector_itself_is_whole(pool: FakePool, text: str) -> None:
    answer = answers(pool, text)
    assert answer.missing == ()
    assert SettleJudge(300.0).why_unsettled(answer, frozenset(), 0.0) == ""


# What condor_status of real pools holds that is easily misread (docs of HTCondor, captures), and each machine as it is.
TRICKY_SLOTS: list[dict[str, Any]] = [
    {"Machine": "w1.example.org", "Name": "slot1@w1.example.org", "SlotType": "Partitionable", "State": "Unclaimed"},
    {"Machine": "w1.example.org", "Name": "slot1_1@w1.example.org", "SlotType": "Dynamic", "Activity": "Busy"},
    {"Machine": "W1.Example.ORG", "Name": "slot1_2@W1.Example.ORG", "SlotType": "Dynamic", "State": "Claimed"},
    {"Machine": "w2", "Name": "slot1@w2", "SlotType": "Partitionable", "State": "Unclaimed", "NumDynamicSlots": 0},
    {"Machine": "w3", "Name": "slot1@w3", "SlotType": "Partitionable", "State": "Unclaimed"},
    {"Machine": "w3", "Name": "slot1_1@w3", "SlotType": "Dynamic", "State": "Claimed", "Activity": "Idle"},
    {"Machine": "w4", "Name": "slot1@w4", "State": "Drained", "Activity": "Retiring"},
    {"Machine": "w5", "Name": "slot1@w5", "State": "Unclaimed", "Activity": None},
    {"Machine": "w5b", "Name": "slot1@w5b", "State": "Unclaimed", "Activity": "Hibernating"},
    {"Machine": "w5c", "Name": "slot1@w5c", "State": "Unclaimed", "Activity": "/Expr(error)/"},
    {"Machine": "w6", "Name": "slot1@a@w6", "State": "Unclaimed"},
    {"Machine": "w6", "Name": "slot1@b@w6", "State": "Claimed", "Activity": "Busy"},
    {"Machine": "w7", "Name": "slot1@w7", "SlotType": "Partitionable", "State": "Unclaimed", "Cpus": 4, "Memory": 0},
    {"Machine": "10-0-0-9.example.org", "Name": "slot1@10-0-0-9.example.org", "State": "Owner"},
    {"Machine": "2001-db8--7.example.org", "Name": "slot1@2001-db8--7.example.org", "State": "Unclaimed"},
    {"Machine": "w8", "Name": "w8", "State": "Unclaimed"},
    {"MyType": "Scheduler", "Machine": "head", "Name": "head"},
    {"MyType": "Negotiator", "Name": "head"},
    {},
]
AS_THEY_ARE = {
    "w1.example.org": WorkerState.BUSY,
    "w2": WorkerState.IDLE,
    "w3": WorkerState.BUSY,
    "w4": WorkerState.DRAINING,
    "w5": WorkerState.OTHER,
    "w5b": WorkerState.OTHER,
    "w5c": WorkerState.OTHER,
    "w6": WorkerState.BUSY,
    "w7": WorkerState.IDLE,
    "10-0-0-9.example.org": WorkerState.OTHER,
    "2001-db8--7.example.org": WorkerState.IDLE,
    "w8": WorkerState.IDLE,
}


@pytest.mark.parametrize("turned", [False, True])
def test_machines_whose_slots_are_easily_misread_are_seen_as_they_are(pool: FakePool, turned: bool) -> None:
    plain = {"MyType": "Machine", "Activity": "Idle", "Cpus": 2}
    listed = [{**plain, **row} if row else row for row in TRICKY_SLOTS]
    listed.append({"MyType": "Collector", "StatsLifetime": 5000})
    found = answers(pool, json.dumps(listed[::-1] if turned else listed).replace("/Expr(error)/", "\\/Expr(error)\\/"))
    assert {worker.name: worker.state for worker in found.workers} == AS_THEY_ARE
    assert found.missing == ()
    by_name = {worker.name: worker for worker in found.workers}
    assert by_name["10-0-0-9.example.org"].addresses == {"10.0.0.9"}
    assert by_name["2001-db8--7.example.org"].addresses == {"2001:db8::7"}
    assert by_name["w7"].free.memory_mb == 0, "CPUs without memory are no room"


@pytest.mark.parametrize(
    "row, cpus",
    [
        ('"JobStatus": 1, "RequestCpus": 4', 4),
        (r'"JobStatus": 1, "RequestCpus": "\/Expr(ifThenElse(NumJobStarts > 0, 8, 1))\/"', 1),
        ('"JobStatus": 1, "RequestCpus": null', 1),
        (r'"JobStatus": 1, "RequestCpus": "\/Expr(error)\/"', 1),
        ('"JobStatus": 1, "RequestCpus": 2.0', 2),
        ('"JobStatus": 1, "RequestCpus": 0', 1),
        ('"JobStatus": 1, "RequestCpus": -1', 1),
        ('"JobStatus": 1, "RequestCpus": "2"', 2),
        (r'"JobStatus": 1, "Requirements": "\/Expr(stringListMember(\"a,b\", \"x, y\"))\/"', 1),
        ('"JobStatus": 1, "RoutedToJobId": "77.0"', 0),
        ('"JobStatus": 1, "ClusterId": 9, "JobMaterializeMaxIdle": 50', 0),
        (r'"JobStatus": 5, "HoldReason": "Error from slot1_2@w1: <&> \"disk\" full \u00e9"', 0),
        ('"JobStatus": "1"', 0),
        ('"JobStatus": 9', 0),
        ('"JobCount": 1', 0),
        ('"JobStatus": 1, "JobUniverse": 7', 0),
        ('"JobStatus": 1, "JobUniverse": 12', 0),
        ('"JobStatus": 1, "JobUniverse": 9', 0),
    ],
)
def test_jobs_that_are_easily_misread_are_counted_as_they_are(pool: FakePool, row: str, cpus: float) -> None:
    universe = "" if "JobUniverse" in row else ', "JobUniverse": 5'
    (pool.folder / "answer").write_text(f'[{{"JobCount": 3, {row}{universe}}}]')
    (pool.bin / "condor_q").write_text(f"#!/bin/sh\ncat {pool.folder}/answer\n")
    groups = plugin().jobs().groups
    assert [(group.waiting, group.request.cpus) for group in groups] == ([(3, cpus)] if cpus else [])


ENVELOPES = {  # stderr and exit code of condor_q and condor_status, with nothing or something empty on stdout
    "the schedd does not answer": ("", "\n-- Failed to fetch ads from: <10.0.0.1:9618> : head\nSECMAN:2007:Failed", 1),
    "an empty list, and it failed": ("[]", "-- Failed to fetch ads from: <10.0.0.1:9618> : head", 1),
    "no schedd here": (
        "",
        "Error: \n\nExtra Info: You probably saw this error because the condor_schedd is not\nhere",
        1,
    ),
    "the collector is down": ("", "Error: communication error\nCEDAR:6001:Failed to connect to <10.0.0.1:9618>", 1),
    "XML": ('<?xml version="1.0"?>\n<!DOCTYPE classads SYSTEM "classads.dtd">\n<classads>\n</classads>\n', "", 0),
    "words": ("All queues are empty\n", "", 0),
    "cut off": ('[\n{\n  "JobCount": 3,\n  "JobStatus": 1', "", 0),
    "a warning before the list": ("WARNING: Multiple locations\n[]", "", 0),
}


@pytest.mark.parametrize("call", ["jobs", "workers", "jobs_recorded_on"])
@pytest.mark.parametrize("out, err, code", ENVELOPES.values(), ids=ENVELOPES.keys())
def test_what_is_not_plainly_a_list_is_unknown_in_one_line(
    pool: FakePool, call: str, out: str, err: str, code: int
) -> None:
    (pool.folder / "out").write_text(out)
    (pool.folder / "err").write_text(err)
    script = f"#!/bin/sh\ncat {pool.folder}/out\ncat {pool.folder}/err >&2\nexit {code}\n"
    (pool.bin / ("condor_status" if call == "workers" else "condor_q")).write_text(script)
    with pytest.raises(SourceError) as caught:
        CALLS[call](plugin())
    text = str(caught.value)
    assert "\n" not in text and len(text) < 600
    assert (f"exit code {code}" in text) if code else ("not JSON" in text)


def test_workers_and_the_age_of_the_collector_come_in_one_read(pool: FakePool) -> None:
    pool.add_worker("w1", "10.0.0.1")
    assert plugin().workers().source_up_s == 5000
    assert len(pool.calls("condor_status")) == 1
    assert "MyType" in pool.calls("condor_status")[0][pool.calls("condor_status")[0].index("-attributes") + 1]


# --------------------------------------------------------------------------- drain


def test_a_busy_worker_is_neither_drained_nor_harmed(pool: FakePool) -> None:
    pool.add_worker("w1", "10.0.0.1")
    pool.start_job("w1")
    batch = plugin()
    assert batch.drain("w1", DrainMode.IF_IDLE).outcome is DrainOutcome.BUSY
    assert (the(batch, "w1").jobs, the(batch, "w1").state) == (1, WorkerState.BUSY)


def test_a_peaceful_drain_is_refused_where_it_would_evict(pool: FakePool) -> None:
    pool.add_worker("w1", "10.0.0.1")
    pool.start_job("w1")
    pool.state["workers"]["w1"]["retirement"] = 3600
    pool.save()
    batch = plugin()
    answer = batch.drain("w1", DrainMode.PEACEFUL)
    assert answer.outcome is DrainOutcome.REFUSED
    assert "MAXJOBRETIREMENTTIME" in answer.detail
    assert (the(batch, "w1").jobs, the(batch, "w1").state) == (1, WorkerState.BUSY)


def test_a_drain_that_is_not_allowed_is_refused_and_says_what_to_do(pool: FakePool) -> None:
    pool.add_worker("w1", "10.0.0.1")
    change(pool, may_drain=False)
    answer = plugin().drain("w1", DrainMode.IF_IDLE)
    assert answer.outcome is DrainOutcome.REFUSED
    assert "ADMINISTRATOR" in answer.detail and "docs/htcondor.md" in answer.detail
    with pytest.raises(SourceError, match="DENIED"):
        plugin().undrain("w1")


def test_a_worker_that_nobody_knows_is_not_drained(pool: FakePool) -> None:
    assert plugin().drain("w9", DrainMode.IF_IDLE).outcome is DrainOutcome.REFUSED
    with pytest.raises(SourceError, match="knows no worker w9"):
        plugin().undrain("w9")


def test_no_drain_when_the_configuration_says_so(pool: FakePool) -> None:
    pool.add_worker("w1", "10.0.0.1")
    batch = plugin(drain=False)
    assert not batch.can_drain
    assert batch.drain("w1", DrainMode.IF_IDLE).outcome is DrainOutcome.REFUSED
    assert pool.calls("condor_drain") == []


def test_our_own_drain_of_before_is_in_effect(pool: FakePool) -> None:
    pool.add_worker("w1", "10.0.0.1")
    assert plugin().drain("w1", DrainMode.IF_IDLE).outcome is DrainOutcome.DRAINED
    assert plugin().drain("w1", DrainMode.IF_IDLE).outcome is DrainOutcome.DRAINED  # after a restart


def test_our_own_peaceful_drain_of_before_is_busy_while_jobs_run(pool: FakePool) -> None:
    pool.add_worker("w1", "10.0.0.1")
    pool.start_job("w1")
    assert plugin().drain("w1", DrainMode.PEACEFUL).outcome is DrainOutcome.DRAINED
    assert plugin().drain("w1", DrainMode.PEACEFUL).outcome is DrainOutcome.DRAINED
    assert plugin().drain("w1", DrainMode.IF_IDLE).outcome is DrainOutcome.BUSY


def test_the_drain_of_another_is_left_alone(pool: FakePool) -> None:
    pool.add_worker("w1", "10.0.0.1")
    other = plugin(head="fedcba9876543210")
    assert other.drain("w1", DrainMode.IF_IDLE).outcome is DrainOutcome.DRAINED
    ours = plugin()
    answer = ours.drain("w1", DrainMode.IF_IDLE)
    assert answer.outcome is DrainOutcome.REFUSED and "fedcba9876543210" in answer.detail
    with pytest.raises(SourceError, match="someone else"):
        ours.undrain("w1")
    assert the(ours, "w1").state is WorkerState.DRAINED
    other.undrain("w1")
    assert the(ours, "w1").state is WorkerState.IDLE


def test_a_drain_that_is_in_progress_but_not_in_the_ad_is_unknown(pool: FakePool) -> None:
    pool.add_worker("w1", "10.0.0.1")
    change(pool, updates_ads=False)
    assert plugin().drain("w1", DrainMode.IF_IDLE).outcome is DrainOutcome.DRAINED
    with pytest.raises(SourceError, match="does not yet show for whom"):
        plugin().drain("w1", DrainMode.IF_IDLE)


def test_a_drain_that_was_undone_does_not_pass_for_drained_while_the_ad_is_old(pool: FakePool) -> None:
    pool.add_worker("w1", "10.0.0.1")
    batch = plugin()
    batch.drain("w1", DrainMode.IF_IDLE)
    assert the(batch, "w1").state is WorkerState.DRAINED
    change(pool, updates_ads=False)
    batch.undrain("w1")
    worker = the(batch, "w1")
    assert (worker.state, worker.drained_by) == (WorkerState.OTHER, None)
    pool.load()["workers"]["w1"]["drain"] = "an administrator's, not yet in the ad"
    pool.save()
    assert batch.drain("w1", DrainMode.IF_IDLE).outcome is DrainOutcome.REFUSED
    pool.load()["workers"]["w1"]["drain"] = None
    pool.save()
    change(pool, updates_ads=True)
    assert batch.drain("w1", DrainMode.IF_IDLE).outcome is DrainOutcome.DRAINED
    assert the(batch, "w1").state is WorkerState.DRAINED, "a new drain is another one"


def test_an_old_condor_drain_that_knows_no_reason_still_drains(pool: FakePool) -> None:
    pool.add_worker("w1", "10.0.0.1")
    change(pool, knows_reason=False)
    batch = plugin()
    assert batch.drain("w1", DrainMode.IF_IDLE).outcome is DrainOutcome.DRAINED
    assert the(batch, "w1").state is WorkerState.DRAINED
    assert batch.drain("w1", DrainMode.IF_IDLE).outcome is DrainOutcome.REFUSED, "it could be anybody's"
    batch.undrain("w1")
    assert the(batch, "w1").state is WorkerState.IDLE


def test_a_machine_with_two_startds_is_drained_whole_or_not_at_all(pool: FakePool) -> None:
    rows = [
        {"Name": f"slot1@{startd}@w6", "MyAddress": f"<10.0.0.6:{port}>", "State": "Unclaimed", "Activity": "Idle"}
        for startd, port in (("a", 1), ("b", 2))
    ]
    shown = json.dumps([{"MyType": "Machine", "Machine": "w6", **row} for row in rows])
    (pool.bin / "condor_status").write_text(f"#!/bin/sh\ncat <<'E'\n{shown}\nE\n")
    log = pool.folder / "drains"
    refusal = "Received failure from b: error code 10003: Draining check expression is false"
    script = f'echo "$*" >> {log}\ncase "$*" in *-cancel*|*slot1@a@w6*) exit 0;; esac\n'
    (pool.bin / "condor_drain").write_text(f'#!/bin/sh\n{script}echo "{refusal}" >&2\nexit 1\n')
    assert plugin().drain("w6", DrainMode.IF_IDLE).outcome is DrainOutcome.BUSY
    calls = [line.split() for line in log.read_text().splitlines()]
    assert [(call[-1], "-cancel" in call) for call in calls] == [
        ("slot1@a@w6", False),
        ("slot1@b@w6", False),
        ("slot1@a@w6", True),
    ]


# --------------------------------------------------------------------------- forget, checks


def test_a_dead_machine_is_forgotten_where_that_is_allowed(pool: FakePool) -> None:
    pool.add_worker("w1", "10.0.0.1")
    pool.add_worker("w2", "10.0.0.2")
    plugin().forget("w1")
    assert [worker.name for worker in plugin().workers().workers] == ["w2"]
    change(pool, may_advertise=False)
    with pytest.raises(SourceError, match=r"stay in the collector until they expire.*ADVERTISE_STARTD"):
        plugin().forget("w2")


def test_a_good_pool_passes_all_checks_and_nothing_is_changed(pool: FakePool) -> None:
    pool.add_worker("w1", "10.0.0.1")
    pool.submit(3)
    before = pool.load()
    names = ("commands", "collector", "queue", "jobs of all users", "drain", "packing", "workers' policy", "bindings")
    assert levels(plugin().checks()) == dict.fromkeys(names, "ok")
    assert pool.load() == before
    assert pool.calls("condor_drain") == []


@pytest.mark.parametrize(("count", "workers", "jobs"), [(1, "1 worker", "1 job"), (2, "2 workers", "2 jobs")])
def test_checks_count_in_the_singular_and_in_the_plural(pool: FakePool, count: int, workers: str, jobs: str) -> None:
    for number in range(count):
        pool.add_worker(f"w{number}", f"10.0.0.{number + 1}")
    pool.submit(count)
    said = by_subject(plugin().checks())
    assert said["collector"].text == f"answers, knows {workers}"
    assert said["jobs of all users"].text == f"{jobs} of all users, waiting or running"


def test_checks_find_what_would_go_wrong(pool: FakePool, monkeypatch: pytest.MonkeyPatch) -> None:
    change(pool, may_drain=False)
    assert levels(plugin().checks())["drain"] == "error"
    assert levels(plugin(drain=False).checks())["drain"] == "warning"
    change(pool, schedds=["head", "two"], dead=["two"])
    assert levels(plugin().checks())["queue"] == "warning"
    pool.once("workers", "fail")
    assert levels(plugin().checks())["collector"] == "error"
    pool.once("workers", "silent")
    assert levels(plugin().checks())["collector"] == "warning"
    monkeypatch.setenv("PATH", "/nonexistent")
    found = levels(plugin().checks())
    assert (found.pop("commands"), found.pop("bindings")) == ("error", "ok")
    assert {*found} == {"collector", "queue", "drain", "packing", "workers' policy"}
    assert {*found.values()} == {"unknown"}
