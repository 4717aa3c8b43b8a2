"""What Slurm says of nodes, in every word and form, and what that makes of them."""

from __future__ import annotations

from typing import Any

import pytest

from elastiq.interfaces import Resources, SourceError, Worker, WorkerState
from elastiq.plugins.batch import slurm_nodes as nodes
from elastiq.plugins.batch import slurm_records as records
from elastiq.plugins.batch import slurm_states as states
from elastiq.plugins.batch.slurm_records import Node

MARK = "0123456789abcdef"
IDLE, BUSY, DRAINING = WorkerState.IDLE, WorkerState.BUSY, WorkerState.DRAINING
DRAINED, OTHER = WorkerState.DRAINED, WorkerState.OTHER


def node(state: str = "IDLE", **said: Any) -> Node:
    base, flags = states.parse([state])
    return Node(**{"name": "w1", "base": base, "flags": flags, "cpus": 4.0, "started_at": 1e9, **said})


def worker(state: str = "IDLE", jobs: int = 0, **said: Any) -> Worker:
    return nodes.worker(node(state, **said), jobs, MARK)


# --------------------------------------------------------------------------- words


@pytest.mark.parametrize(
    ("word", "base", "flags"),
    [
        ("idle", "IDLE", set()),
        ("IDLE*", "IDLE", {"NOT_RESPONDING"}),
        ("idle~", "IDLE", {"POWERED_DOWN"}),
        ("idle#", "IDLE", {"POWERING_UP"}),
        ("idle!", "IDLE", {"POWER_DOWN"}),
        ("idle%", "IDLE", {"POWERING_DOWN"}),
        ("idle$", "IDLE", {"MAINT"}),
        ("idle@", "IDLE", {"REBOOT_REQUESTED"}),
        ("idle^", "IDLE", {"REBOOT_ISSUED"}),
        ("mixed-", "MIXED", {"PLANNED"}),
        ("down*~", "DOWN", {"NOT_RESPONDING", "POWERED_DOWN"}),
        ("alloc", "ALLOCATED", set()),
        ("mix", "MIXED", set()),
        ("unk*", "UNKNOWN", {"NOT_RESPONDING"}),
        ("drain", "UNKNOWN", {"DRAIN"}),
        ("drained", "IDLE", {"DRAIN"}),
        ("drained$", "IDLE", {"DRAIN", "MAINT"}),
        ("drng", "ALLOCATED", {"DRAIN"}),
        ("draining", "ALLOCATED", {"DRAIN"}),
        ("comp", "UNKNOWN", {"COMPLETING"}),
        ("resv", "IDLE", {"RESERVED"}),
        ("planned", "IDLE", {"PLANNED"}),
        ("IDLE+CLOUD+POWERED_DOWN", "IDLE", {"CLOUD", "POWERED_DOWN"}),
        ("IDLE*+CLOUD+POWER", "IDLE", {"NOT_RESPONDING", "CLOUD", "POWERED_DOWN"}),
        ("DOWN+CLOUD+DRAIN+NOT_RESPONDING", "DOWN", {"CLOUD", "DRAIN", "NOT_RESPONDING"}),
        ("MIXED+DRAINING", "MIXED", {"DRAIN"}),
        ("DRAINING+MIXED", "MIXED", {"DRAIN"}),
        ("FROBNICATED", "UNKNOWN", {"FROBNICATED"}),
        ("", "UNKNOWN", set()),
    ],
)
def test_a_word_is_a_base_and_flags(word: str, base: str, flags: set[str]) -> None:
    assert states.parse([word]) == (base, frozenset(flags))


@pytest.mark.parametrize(
    "said", [["mixed", "DRAIN", "CLOUD"], ["MIXED", "DRAIN", "CLOUD"], ["MIXED+CLOUD+DRAIN"], ["DRAIN", "CLOUD", "mix"]]
)
def test_the_forms_of_all_versions_say_the_same(said: list[str]) -> None:
    assert states.parse(said) == ("MIXED", frozenset({"DRAIN", "CLOUD"}))


# --------------------------------------------------------------------------- what they make of a worker


@pytest.mark.parametrize(
    ("state", "jobs", "is_now"),
    [
        ("IDLE", 0, IDLE),
        ("IDLE+DYNAMIC_NORM", 0, IDLE),
        ("IDLE+CLOUD", 0, IDLE),
        ("IDLE", 1, BUSY),  # a job has started since the nodes were read
        ("ALLOCATED", 0, BUSY),  # the record alone says it
        ("MIXED", 1, BUSY),
        ("MIXED+PLANNED", 1, BUSY),
        ("IDLE+COMPLETING", 0, BUSY),
        ("IDLE+PLANNED", 0, BUSY),  # held for a job by the backfill scheduler
        ("IDLE+DRAIN", 0, DRAINED),
        ("IDLE+DRAIN", 1, DRAINING),
        ("MIXED+DRAIN", 1, DRAINING),
        ("drng", 0, DRAINING),
        ("IDLE+DRAIN+COMPLETING", 0, DRAINING),
        ("IDLE+DRAIN+NOT_RESPONDING", 0, OTHER),
        ("IDLE+NOT_RESPONDING", 0, OTHER),
        ("ALLOCATED+NOT_RESPONDING", 1, BUSY),
        ("IDLE+MAINT", 0, OTHER),
        ("IDLE+RESERVED", 0, OTHER),
        ("IDLE+POWERING_UP", 0, OTHER),
        ("IDLE+POWERING_DOWN", 0, OTHER),
        ("IDLE+POWER_DOWN", 0, OTHER),
        ("IDLE+REBOOT_REQUESTED", 0, OTHER),
        ("IDLE+FAIL", 0, OTHER),
        ("IDLE+BLOCKED", 0, OTHER),
        ("IDLE+SOMETHING_NEW", 0, OTHER),
        ("UNKNOWN", 0, OTHER),
        ("ERROR", 0, OTHER),
        ("DOWN", 0, OTHER),
        ("DOWN", 1, BUSY),
        ("SOMETHING_NEW", 0, OTHER),
    ],
)
def test_the_state_of_a_worker(state: str, jobs: int, is_now: WorkerState) -> None:
    found = worker(state, jobs)
    assert found.state is is_now
    assert found.runs_something == (is_now is BUSY or jobs > 0 or is_now is DRAINING)


def test_a_node_that_has_not_registered_since_slurmctld_started_is_not_idle() -> None:
    assert worker(started_at=None).state is OTHER
    assert worker(started_at=None).detail == "IDLE, not registered since slurmctld started"
    assert worker("IDLE+DRAIN", started_at=None).state is OTHER
    assert worker("MIXED", jobs=1, started_at=None).state is BUSY


@pytest.mark.parametrize(
    ("state", "started_at", "reason", "has_one"),
    [
        ("IDLE", 1e9, "", True),
        ("IDLE", None, "", True),
        ("FUTURE", None, "", False),
        ("IDLE+CLOUD+POWERED_DOWN", None, "", False),
        ("MIXED+CLOUD+POWERED_DOWN", None, "", False),
        ("IDLE+CLOUD+POWERING_UP", 1e9, "", True),
        ("IDLE+CLOUD", None, "", False),  # power saving is off: taken for idle, though no machine ever was there
        ("DOWN+NOT_RESPONDING", 1e9, "Not responding", False),
        ("DOWN", None, "elastiq 0123456789abcdef: waits for i-1", False),
        ("DOWN", 1e9, "Node unexpectedly rebooted", True),
        ("DOWN", 1e9, "elastiq: no machine", False),
    ],
)
def test_a_record_without_a_machine_is_no_worker(state: str, started_at: float, reason: str, has_one: bool) -> None:
    assert nodes.has_machine(node(state, started_at=started_at, reason=reason)) == has_one


def test_a_drain_has_the_reason_of_the_one_who_began_it() -> None:
    assert worker("IDLE+DRAIN", reason=f"elastiq {MARK} of test").drained_by_mark(MARK) is True
    assert worker("IDLE+DRAIN", reason="new disk").drained_by_mark(MARK) is False
    assert worker("IDLE+DRAIN").drained_by is None
    assert worker("IDLE", reason="left over").drained_by is None


def test_what_jobs_leave_is_free() -> None:
    sizes = {"memory_mb": 8000.0, "gres": "gpu:tesla:2(S:0-1)", "used_gres": "gpu:tesla:1(IDX:0)"}
    found = worker("MIXED", 1, used_cpus=1.0, used_memory_mb=3000.0, **sizes)
    assert found.total == Resources(4, 8000, None, 2)
    assert found.free == Resources(3, 5000, None, 1)


def test_where_jobs_have_all_the_memory_nothing_is_free() -> None:
    found = worker("MIXED", 1, used_cpus=1.0, memory_mb=8000.0, used_memory_mb=8000.0)
    assert found.free == Resources(0, 0, None, 0)


def test_what_takes_no_job_has_nothing_free() -> None:
    assert worker("IDLE+DRAIN", memory_mb=8000.0).free == Resources(0, 0, None, 0)


def test_a_worker_is_told_by_its_address_its_name_and_the_instance_that_it_was_given_to() -> None:
    found = worker(name="ip-10-0-0-7", address="10.0.0.8", host="10-0-0-9.cloud", comment=f"elastiq {MARK} i-12")
    assert found.addresses == {"10.0.0.7", "10.0.0.8", "10.0.0.9"}
    assert found.instance_id == "i-12"
    assert worker(comment="elastiq ffffffffffffffff i-12").instance_id is None  # another elastiq's
    assert worker(comment="elastiq is nice").instance_id is None
    assert worker(instance_id="i-34").instance_id == "i-34"
    assert worker(address="w1", host="w1").addresses == frozenset()


# --------------------------------------------------------------------------- records

LINE = (
    "NodeName=W1 Arch=x86_64 CoresPerSocket=1  CPUAlloc=2 CPUEfctv=4 CPUTot=6 CPULoad=0.5 AvailableFeatures=a,b "
    "ActiveFeatures=a Gres=gpu:2 NodeAddr=10.0.0.7 NodeHostName=h1 Version=22.05.8 OS=Linux 6.1 #1 State=DOWN 2024  "
    "RealMemory=2000 AllocMem=200 FreeMem=N/A Sockets=4 Boards=1 MemSpecLimit=100 State=MIXED+DRAIN ThreadsPerCore=1 "
    "TmpDisk=500 Weight=1 Owner=N/A MCS_label=N/A Partitions=main,long  BootTime=2026-11-30T01:53:49 "
    "SlurmdStartTime=2026-11-30T18:09:14 LastBusyTime=Unknown CfgTRES=cpu=4,mem=2000M AllocTRES=cpu=2 "
    "CapWatts=n/a Reason=bad disk, State=IDLE; NodeAddr=10.9.9.9 [root@2026-11-30T18:09:14] Comment=elastiq x i-1"
)


def test_a_line_of_scontrol_is_a_node_whatever_people_write_into_it() -> None:
    found = records.text_node(LINE)
    assert (found.name, found.base, found.flags, found.address) == ("W1", "MIXED", frozenset({"DRAIN"}), "10.0.0.7")
    assert (found.cpus, found.used_cpus, found.memory_mb, found.used_memory_mb, found.disk_mb) == (4, 2, 1900, 200, 500)
    assert (found.features, found.partitions, found.gres) == (("a",), ("main", "long"), "gpu:2")
    assert found.reason == "bad disk, State=IDLE; NodeAddr=10.9.9.9"
    assert found.comment == "elastiq x i-1"
    assert found.started_at == 1796062154


def test_the_json_of_both_forms_is_the_same_node() -> None:
    common = {"name": "w1", "address": "10.0.0.7", "hostname": "h1", "real_memory": 2000, "alloc_memory": 200}
    common.update(gres="gpu:2", gres_used="gpu:1", temporary_disk=500, reason="disk", cpus=4, alloc_cpus=2)
    old = {**common, "state": "mixed", "state_flags": ["DRAIN"], "features": "a,b", "active_features": "a"}
    old.update(partitions=["main"], slurmd_start_time=1796062154, free_memory=-2, comment=None)
    new = {**common, "state": ["MIXED", "DRAIN"], "features": ["a", "b"], "active_features": ["a"]}
    new.update(partitions=["main"], slurmd_start_time={"set": True, "infinite": False, "number": 1796062154})
    new.update(effective_cpus=4, specialized_memory=0, instance_id="", comment="")
    found = records.json_node(old)
    assert found == records.json_node(new)
    assert (found.base, found.flags, found.features) == ("MIXED", frozenset({"DRAIN"}), ("a",))
    assert (found.cpus, found.used_cpus, found.started_at) == (4, 2, 1796062154)


@pytest.mark.parametrize("never", [0, None, {"set": True, "infinite": False, "number": 0}, {"set": False, "number": 0}])
def test_a_node_that_never_registered_has_no_time_of_it(never: Any) -> None:
    row = {"name": "w1", "state": ["IDLE"], "slurmd_start_time": never}
    assert records.json_node(row).started_at is None


@pytest.mark.parametrize("row", [{}, {"name": "w1"}, {"state": ["IDLE"]}, {"name": 5, "state": ["IDLE"]}])
def test_a_node_without_a_name_or_a_state_is_no_answer(row: dict[str, Any]) -> None:
    with pytest.raises(SourceError):
        records.json_node(row)


@pytest.mark.parametrize("line", ["", "hello", "slurm_load_node error: x", "NodeName=w1 CPUTot=4", "State=IDLE"])
def test_a_line_that_is_no_node_is_no_answer(line: str) -> None:
    with pytest.raises(SourceError):
        records.text_node(line)


def test_errors_in_a_json_answer_are_a_failure_warnings_are_not() -> None:
    with pytest.raises(SourceError, match="Zero Bytes"):
        records.document('{"nodes": [], "errors": [{"description": "Zero Bytes were transmitted"}]}', "scontrol")
    with pytest.raises(SourceError, match="oops"):
        records.document('{"nodes": [], "errors": ["oops"]}', "scontrol")
    assert records.document('{"nodes": [], "warnings": [{"description": "x"}], "errors": []}', "scontrol")


@pytest.mark.parametrize("text", ["", "[]", "null", "{", "<html>", '{"nodes": {}}', '{"nodes": [1]}', '{"jobs": []}'])
def test_what_is_no_json_of_nodes_is_no_answer(text: str) -> None:
    with pytest.raises(SourceError):
        records.rows(records.document(text, "scontrol"), "nodes", "scontrol")


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (5, 5),
        (0, 0),
        (-2, None),
        (None, None),
        (True, None),
        ("5", None),
        (float("nan"), None),
        (4294967294, None),  # NO_VAL and INFINITE, as they are told where nobody looks after them
        (4294967295, None),
        (2**64 - 2, None),
        ({"set": True, "infinite": False, "number": 7}, 7),
        ({"set": False, "infinite": False, "number": 0}, None),
        ({"set": True, "infinite": True, "number": 0}, None),
        ({}, None),
    ],
)
def test_numbers_of_all_forms(value: Any, number: Any) -> None:
    assert records.number(value) == number


@pytest.mark.parametrize(
    ("text", "amounts"),
    [
        ("", {}),
        ("(null)", {}),
        ("N/A", {}),
        ("gpu", {"gpu": 1}),
        ("gpu:2", {"gpu": 2}),
        ("gpu:tesla:2(S:0-1)", {"gpu": 2, "gpu:tesla": 2}),
        ("gpu:a100:1(IDX:0),gpu:h100:3(IDX:1-3),shard:8", {"gpu": 4, "gpu:a100": 1, "gpu:h100": 3, "shard": 8}),
        ("gres:gpu:tesla:2", {"gpu": 2, "gpu:tesla": 2}),
        ("gres/gpu:tesla=2", {"gpu": 2, "gpu:tesla": 2}),
        ("gres/gpu=2", {"gpu": 2}),
        ("gpu:tesla", {"gpu": 1, "gpu:tesla": 1}),
        ("craynetwork:4K", {"craynetwork": 4096}),
        ("gpu:0", {"gpu": 0}),
    ],
)
def test_gres_of_all_forms(text: str, amounts: dict[str, float]) -> None:
    assert records.gres(text) == amounts


def test_tres_is_amounts_and_memory_is_mb() -> None:
    assert records.tres("cpu=4,mem=8G,node=2,billing=4,gres/gpu:tesla=1") == {
        "cpu": 4,
        "mem": 8192,
        "node": 2,
        "billing": 4,
        "gres/gpu:tesla": 1,
    }
    assert records.tres("cpu=1,mem=512K") == {"cpu": 1, "mem": 0.5}
    assert records.tres("cpu=1,mem=1.5G") == {"cpu": 1, "mem": 1536}
    assert records.tres("N/A") == records.tres("") == {}
