"""HTCondor's ads: every tricky row seen in the field, and what must come out of it."""

from __future__ import annotations

import itertools
import json
import time
from typing import Any, Optional

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastiq.interfaces import JobGroup, Resources, SourceError, Worker, WorkerState
from elastiq.plugins.batch import htcondor_ads as ads
from elastiq.plugins.batch import htcondor_jobs, htcondor_lookups, htcondor_requirements, htcondor_slots

DEFAULTS = (
    '(TARGET.Arch == "X86_64") && (TARGET.OpSys == "LINUX") && (TARGET.Disk >= RequestDisk) &&'
    " (TARGET.Memory >= RequestMemory) && ((TARGET.FileSystemDomain == MY.FileSystemDomain) ||"
    " (TARGET.HasFileTransfer))"
)
DEFAULT_MEMORY = "ifthenelse(MemoryUsage isnt undefined,MemoryUsage,(ImageSize + 1023) / 1024)"


def expr(text: str) -> str:
    """As it is after JSON was read: there the slashes are escaped."""
    return f"/Expr({text})/"


def job(count: int = 1, **attributes: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "JobCount": count,
        "JobIds": "4.0 ... 4.3",
        "JobStatus": 1,
        "JobUniverse": 5,
        "RequestCpus": 1,
        "RequestMemory": expr(DEFAULT_MEMORY),
        "RequestDisk": expr("DiskUsage"),
        "Requirements": expr(DEFAULTS),
    }
    row.update(attributes)
    return {name: value for name, value in row.items() if value is not ...}


def groups(*jobs: dict[str, Any], **schedds: list[dict[str, Any]]) -> tuple[JobGroup, ...]:
    answers = {name: ads.rows(json.dumps(rows), "condor_q") for name, rows in schedds.items()}
    return htcondor_jobs.job_groups(answers or {"": ads.rows(json.dumps(list(jobs)), "condor_q")})


def one(**attributes: Any) -> JobGroup:
    (found,) = groups(job(**attributes))
    return found


def slot(name: str, state: Any = "Unclaimed", activity: Any = "Idle", **attributes: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "MyType": "Machine",
        "Machine": name.rpartition("@")[2],
        "Name": name,
        "State": state,
        "Activity": activity,
    }
    row.update(attributes)
    return {key: value for key, value in row.items() if value is not ...}


def workers(*rows: dict[str, Any]) -> dict[str, Worker]:
    machines = htcondor_slots.by_machine(ads.rows(json.dumps(list(rows)), "condor_status"))
    return {name: htcondor_slots.worker(name, slots) for name, slots in machines.items()}


def the_worker(*rows: dict[str, Any]) -> Worker:
    (found,) = workers(*rows).values()
    return found


def pslot(name: str = "slot1@w1", cpus: int = 8, total: Any = 8, **attributes: Any) -> dict[str, Any]:
    return slot(name, SlotType="Partitionable", Cpus=cpus, TotalSlotCpus=total, **attributes)


def dslot(name: str = "slot1_1@w1", state: Any = "Claimed", activity: Any = "Busy", **attributes: Any) -> Any:
    return slot(name, state, activity, SlotType="Dynamic", **attributes)


# --------------------------------------------------------------------------- the envelope


@pytest.mark.parametrize("text", ["", "\n", "  \n\n", "[]", "[\n]\n"])
def test_nothing_printed_is_an_empty_list(text: str) -> None:
    assert ads.rows(text, "condor_q") == []


@pytest.mark.parametrize(
    "text",
    [
        "All queues are empty\n",
        "<html><body>login</body></html>",
        '[{"Name": "slot1@w1"',
        '[{"Name": "slot1@w1"},',
        '{"Name": "slot1@w1"}',
        "[1, 2]",
        "null",
        "[[]]",
        "[" * 100_000,
        "[{}] trailing",
        "\0\0\0\0",
    ],
)
def test_what_is_no_list_of_ads_is_unknown_in_one_line(text: str) -> None:
    with pytest.raises(SourceError) as caught:
        ads.rows(text, "condor_q")
    assert str(caught.value).startswith("condor_q answered something that is no")
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 200


def test_names_of_attributes_are_case_insensitive() -> None:
    (group,) = groups({"jobcount": 2, "JOBSTATUS": 1, "jobuniverse": 5, "requestCPUs": 4, "JobIds": "1.0 1.1"})
    assert (group.request.cpus, group.waiting, group.sample_job) == (4, 2, "1.0")


def test_bytes_that_are_not_utf8_do_not_spoil_the_answer() -> None:
    conditions = b'"\\/Expr(Foo == \\"\xe9\\")\\/"'
    raw = b'[{"JobCount": 3, "JobStatus": 1, "JobUniverse": 5, "Requirements": ' + conditions + b"}]"
    (group,) = htcondor_jobs.job_groups({"": ads.rows(raw.decode("utf-8", errors="replace"), "condor_q")})
    assert group.waiting == 3
    assert group.requirements == 'Foo == "\ufffd"'


# --------------------------------------------------------------------------- jobs


@pytest.mark.parametrize(
    ("cpus", "counted"),
    [
        (4, 4),
        (expr("ifThenElse(NumJobStarts > 0, 8, 1)"), 1),
        (None, 1),  # undefined
        (..., 1),  # absent
        (expr("error"), 1),
        (2.0, 2),
        (0, 1),
        (-1, 1),
        ("2", 2),
        (True, 1),
        ([4], 1),
        (expr('real("NaN")'), 1),
        ("nan", 1),
        ("inf", 1),
    ],
)
def test_cpus_that_cannot_be_known_count_as_one(cpus: Any, counted: float) -> None:
    assert one(RequestCpus=cpus).request.cpus == counted


@pytest.mark.parametrize(
    ("memory", "counted"),
    [
        (2048, 2048),
        (2560.5, 2560.5),
        ("100", 100),
        (expr(DEFAULT_MEMORY), None),
        (expr("1000*2+RequestCpus"), 2001),
        (expr("1000*2+Colour"), None),
        ("2G", 2048),
        (None, None),
        (..., None),
        (0, None),
        (-1, None),
        (expr("error"), None),
    ],
)
def test_memory_that_cannot_be_known_is_unsaid(memory: Any, counted: Optional[float]) -> None:
    assert one(RequestMemory=memory).request.memory_mb == counted


@pytest.mark.parametrize(("disk", "mb"), [(1024, 1), (1536, 1.5), (expr("DiskUsage"), None), (-3, None), (None, None)])
def test_disk_is_kb_in_the_ad_and_mb_here(disk: Any, mb: Optional[float]) -> None:
    assert one(RequestDisk=disk).request.disk_mb == mb


@pytest.mark.parametrize(("gpus", "counted"), [(1, 1), (None, None), (..., None), (0, None), (expr("x"), None)])
def test_gpus_are_said_only_if_asked_for(gpus: Any, counted: Optional[float]) -> None:
    assert one(RequestGPUs=gpus).request.gpus == counted


@pytest.mark.parametrize(
    "attributes",
    [
        {"JobUniverse": 7},  # scheduler: DAGMan
        {"JobUniverse": 12},  # local
        {"JobUniverse": 9},  # grid
        {"JobUniverse": ...},
        {"JobStatus": 5, "HoldReason": 'Error from slot1_2@w1: <&> "disk" full \\303\\251'},
        {"JobStatus": 3},
        {"JobStatus": 4},
        {"JobStatus": 9},
        {"JobStatus": "1"},
        {"JobStatus": [1]},
        {"JobStatus": {"a": 1}},
        {"JobStatus": None},
        {"JobStatus": ...},
        {"RoutedToJobId": "77.0"},  # its copy is counted
        {"ClusterId": 9, "JobMaterializeMaxIdle": 50},  # a factory: no ProcId
        {"count": 0},
    ],
)
def test_what_no_worker_will_run_is_no_demand(attributes: dict[str, Any]) -> None:
    assert groups(job(**attributes)) == ()


@pytest.mark.parametrize("universe", [5, 10, 11, 13])
def test_universes_that_run_on_workers_are_demand(universe: int) -> None:
    assert one(JobUniverse=universe).waiting == 1


def test_idle_and_running_jobs_of_a_shape_are_one_group() -> None:
    # What a 23.9 schedd said of 4 idle and 2 running jobs: measured attributes came along.
    idle = job(4, JobIds="4.2 ... 4.5", ImageSize=45, DiskUsage=45, Id=2)
    running = job(2, JobIds="4.0 4.1", JobStatus=2, ImageSize=7500, DiskUsage=50, MemoryUsage=8, Id=1)
    (group,) = groups(running, idle)
    assert (group.waiting, group.running, group.sample_job) == (4, 2, "4.2")
    assert group.requirements == ""
    assert group.request == Resources(cpus=1)


@pytest.mark.parametrize("status", [2, 6, 7])
def test_jobs_on_a_machine_run(status: int) -> None:
    group = one(JobStatus=status, count=3)
    assert (group.waiting, group.running) == (0, 3)


def test_the_key_is_the_shape_and_nothing_else() -> None:
    base = one()
    same = [one(JobStatus=2), one(count=7), one(JobIds="9.9"), one(ImageSize=10**6), one(RequestCpus=None)]
    other = [one(RequestCpus=2), one(RequestMemory=1000), one(RequestDisk=5000), one(RequestGPUs=1)]
    other.append(one(Requirements=expr(f"(TARGET.HasFoo) && {DEFAULTS}")))
    assert {group.key for group in same} == {base.key}
    assert len({group.key for group in [base, *other]}) == 6


def test_the_key_is_the_same_in_every_process() -> None:
    assert one().key == "2cf749479c19b111"


def test_jobs_of_several_schedds_add_up_and_the_sample_names_its_schedd() -> None:
    (group,) = groups(head=[job(2)], other=[job(3), job(4, JobStatus=2)])
    assert (group.waiting, group.running) == (5, 4)
    assert group.sample_job == "4.0 of head"


@pytest.mark.parametrize("count", [None, ..., "3", -1, 1.5, True])
def test_a_group_without_a_count_is_nonsense_not_nothing(count: Any) -> None:
    with pytest.raises(SourceError, match="without a JobCount"):
        groups(job(JobCount=count))


def test_requirements_that_are_false_are_not_eligible() -> None:
    assert one(Requirements=expr(f"(false) && {DEFAULTS}")).not_eligible
    assert one(Requirements=False).not_eligible
    assert not one().not_eligible


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (DEFAULTS, ""),
        (DEFAULTS.replace("TARGET.", "target.").replace(" ", ""), ""),
        (DEFAULTS + " && (TARGET.Cpus >= RequestCpus) && (TARGET.GPUs >= RequestGPUs)", ""),
        (DEFAULTS + " && (countMatches(MY.RequireGPUs,TARGET.AvailableGPUs) >= RequestGPUs)", ""),
        ('(TARGET.Arch == "X86_64") && (TARGET.HasFileTransfer)', ""),
        ("true", ""),
        (f"(TARGET.HasFoo is true) && {DEFAULTS}", "(TARGET.HasFoo is true)"),
        (f'(regexp("a,b && c",TARGET.Machine) || X > 3) && {DEFAULTS}', '(regexp("a,b && c",TARGET.Machine) || X > 3)'),
        (f'(Foo == "quo\\"te && (") && {DEFAULTS}', '(Foo == "quo\\"te && (")'),
        (f"('odd && name' > 1) && {DEFAULTS}", "('odd && name' > 1)"),
        (DEFAULTS.replace("X86_64", "aarch64"), '(TARGET.Arch == "aarch64")'),  # asked for on purpose
        (f"A || B && {DEFAULTS}", None),  # not a chain of &&: kept whole
        (f"A ? B : C && {DEFAULTS}", None),
        (f"(A && {DEFAULTS}", None),  # brackets do not pair
        (f"A) && ({DEFAULTS}", None),
        (f"(A] && {DEFAULTS}", None),
        (f"{'(' * 32}A{')' * 32} && {DEFAULTS}", f"{'(' * 32}A{')' * 32}"),
        (f"{'(' * 33}A{')' * 33} && {DEFAULTS}", None),  # nobody's
        (f'Foo == "open && {DEFAULTS}', None),
        ("TARGET.FileSystemDomain == MY.FileSystemDomain", None),  # asked for a shared file system
        ("A && && B", None),
    ],
)
def test_default_clauses_are_taken_out_of_requirements_and_nothing_else(text: str, left: Optional[str]) -> None:
    if left is None:
        left = text
    assert htcondor_requirements.requirements(expr(text)) == left


@pytest.mark.parametrize("text", ["(" * 50_000 + "A" + ")" * 50_000, '\\"' * 50_000, "(A && " * 50_000, '"' * 50_001])
def test_requirements_made_to_take_long_do_not(text: str) -> None:
    began = time.process_time()
    assert htcondor_requirements.requirements(expr(text)) == text.strip()
    assert time.process_time() - began < 10


def test_requirements_may_be_absent_or_a_plain_value() -> None:
    assert [htcondor_requirements.requirements(value) for value in (None, True, False, 5, "TARGET.X")] == [
        "",
        "",
        "false",
        "5",
        "TARGET.X",
    ]


def test_a_hundred_thousand_rows_are_one_group_in_a_moment() -> None:
    rows = [{name.lower(): value for name, value in job(1).items()}] * 100_000
    (group,) = htcondor_jobs.job_groups({"": rows})
    assert group.waiting == 100_000


@given(st.text(alphabet="ab&|?()[]{}\"'\\ =.<>", max_size=40))
def test_any_requirements_give_some_text_and_the_same_each_time(text: str) -> None:
    first = htcondor_requirements.requirements(expr(text))
    assert isinstance(first, str)
    assert htcondor_requirements.requirements(expr(text)) == first


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)


@settings(max_examples=100)
@given(st.dictionaries(st.sampled_from([*htcondor_jobs.JOB_ATTRIBUTES, "JobCount", "JobIds"]), JSON_VALUES))
def test_no_value_of_a_job_raises_anything_but_unknown(row: dict[str, Any]) -> None:
    try:
        groups({"JobCount": 1, **row})
    except SourceError:
        pass


# --------------------------------------------------------------------------- workers


def test_a_machine_is_busy_if_any_slot_is_in_any_order_of_rows() -> None:
    rows = [pslot(cpus=4), *(dslot(f"slot1_{n}@w1", Cpus=1) for n in range(1, 5))]
    for order in itertools.permutations(rows):
        worker = the_worker(*order)
        assert (worker.state, worker.jobs, worker.total.cpus, worker.free.cpus) == (WorkerState.BUSY, 4, 8, 4)


def test_the_partitionable_slot_alone_is_idle() -> None:
    worker = the_worker(pslot(Memory=8192, TotalSlotMemory=8192, Disk=2048, TotalSlotDisk=2048.0))
    assert worker.state is WorkerState.IDLE
    assert worker.total == worker.free == Resources(8, 8192, 2, 0)
    assert worker.detail == ""


def test_a_claim_that_runs_nothing_yet_is_not_idle() -> None:
    worker = the_worker(pslot("slot1@w3"), dslot("slot1_1@w3", "Claimed", "Idle"))
    assert (worker.state, worker.jobs) == (WorkerState.BUSY, 1)


@pytest.mark.parametrize("rows_turned", [False, True])
def test_two_startds_on_one_machine_are_one_worker(rows_turned: bool) -> None:
    rows = [slot("slot1@a@w6", Cpus=2), slot("slot1@b@w6", "Claimed", "Busy", Cpus=3)]
    worker = the_worker(*(reversed(rows) if rows_turned else rows))
    assert (worker.name, worker.state, worker.jobs) == ("w6", WorkerState.BUSY, 1)
    assert (worker.total.cpus, worker.free.cpus) == (5, 2)


def test_static_slots_are_summed() -> None:
    rows = [
        slot(f"slot{n}@w7", SlotType="Static", Cpus=1, Memory=1000, TotalSlotCpus=1, TotalSlotMemory=1000)
        for n in (1, 2, 3)
    ]
    worker = the_worker(slot("slot4@w7", "Claimed", "Busy", SlotType="Static", Cpus=1, Memory=500), *rows)
    assert (worker.state, worker.jobs) == (WorkerState.BUSY, 1)
    assert (worker.total.cpus, worker.total.memory_mb) == (4, 3500)
    assert (worker.free.cpus, worker.free.memory_mb) == (3, 3000)


def test_the_name_of_a_machine_is_the_same_in_any_case() -> None:
    found = workers(slot("slot1@w1.example.org"), dslot("slot1_1@W1.Example.ORG"))
    assert set(found) == {"w1.example.org"}
    assert found["w1.example.org"].state is WorkerState.BUSY


@pytest.mark.parametrize(
    ("state", "activity", "right"),
    [
        ("Unclaimed", "Idle", WorkerState.IDLE),
        ("unclaimed", "IDLE", WorkerState.IDLE),
        ("Unclaimed", "Benchmarking", WorkerState.IDLE),
        ("Claimed", "Busy", WorkerState.BUSY),
        ("Claimed", "Idle", WorkerState.BUSY),
        ("Claimed", "Suspended", WorkerState.BUSY),
        ("Matched", "Idle", WorkerState.BUSY),
        ("Preempting", "Vacating", WorkerState.BUSY),
        ("Preempting", "Killing", WorkerState.BUSY),
        ("Backfill", "Busy", WorkerState.BUSY),
        ("Claimed", "Retiring", WorkerState.DRAINING),
        ("Drained", "Retiring", WorkerState.DRAINING),
        ("Drained", "Idle", WorkerState.DRAINED),
        ("Owner", "Idle", WorkerState.OTHER),
        ("Backfill", "Idle", WorkerState.OTHER),
        ("Unclaimed", None, WorkerState.OTHER),
        ("Unclaimed", ..., WorkerState.OTHER),
        ("Unclaimed", "Hibernating", WorkerState.OTHER),
        ("Unclaimed", 7, WorkerState.OTHER),
        (None, "Idle", WorkerState.OTHER),
        (..., ..., WorkerState.OTHER),
        ("Sublimating", "Idle", WorkerState.OTHER),
        ("/Expr(error)/", "Idle", WorkerState.OTHER),
    ],
)
def test_only_plain_words_are_idle(state: Any, activity: Any, right: WorkerState) -> None:
    worker = the_worker(slot("slot1@w5", state, activity, SlotType="Static", Cpus=2))
    assert worker.state is right
    assert (worker.free.cpus == 2) == (right is WorkerState.IDLE)
    assert bool(worker.detail) == (right not in (WorkerState.IDLE, WorkerState.BUSY))


def test_an_odd_slot_beside_idle_ones_makes_the_machine_odd() -> None:
    worker = the_worker(slot("slot1@w5", Cpus=1), slot("slot2@w5", "Owner", Cpus=1))
    assert (worker.state, worker.free.cpus) == (WorkerState.OTHER, 1)


def test_a_drained_machine_with_a_job_is_draining_and_says_for_whom() -> None:
    # a 23.9 startd, drained peacefully
    rows = [
        pslot(Draining=True, DrainReason="elastiq 0123 of test", State="Drained", Activity="Retiring"),
        dslot(Activity="Retiring", Draining=True, DrainReason="elastiq 0123 of test"),
    ]
    for order in (rows, rows[::-1]):
        worker = the_worker(*order)
        assert (worker.state, worker.jobs) == (WorkerState.DRAINING, 1)
        assert worker.drained_by == "elastiq 0123 of test"
        assert worker.free.cpus == 0


def test_a_drained_machine_without_a_job_is_drained() -> None:
    worker = the_worker(pslot(State="Drained", Draining=True, DrainReason="maintenance"))
    assert (worker.state, worker.drained_by, worker.free.cpus) == (WorkerState.DRAINED, "maintenance", 0)


def test_a_reason_left_from_an_earlier_drain_is_none() -> None:
    assert the_worker(pslot(DrainReason="old")).drained_by is None


def test_a_machine_of_which_one_startd_drains_is_not_out_of_service() -> None:
    worker = the_worker(slot("slot1@a@w6", "Drained"), slot("slot1@b@w6"))
    assert worker.state is WorkerState.OTHER
    worker = the_worker(slot("slot1@a@w6", "Drained"), slot("slot1@b@w6", "Claimed", "Busy"))
    assert worker.state is WorkerState.BUSY


def test_the_last_ad_of_a_hibernating_machine_is_no_worker_to_use() -> None:
    worker = the_worker(pslot(Offline=True))
    assert (worker.state, worker.free.cpus) == (WorkerState.OTHER, 0)


@pytest.mark.parametrize(
    "row",
    [
        {},
        {"MyType": "Scheduler", "Name": "head", "Machine": "head"},
        {"MyType": "Collector", "Machine": "head", "StatsLifetime": 5},
        {"MyType": "StartD", "Name": "w1", "Machine": "w1"},
        {"MyType": "Summary"},
        {"MyType": None, "Machine": "w1"},
        {"Machine": "w1", "State": "Unclaimed", "Activity": "Idle"},
        {"MyType": "Machine"},
        {"MyType": "Machine", "Machine": None, "Name": 5},
    ],
)
def test_what_is_no_slot_is_no_worker(row: dict[str, Any]) -> None:
    assert workers(row) == {}


def test_the_slots_of_later_versions_are_slots() -> None:
    assert set(workers({"MyType": "Slot", "Name": "slot1@w9"})) == {"w9"}


def test_totals_without_the_slots_own_totals_are_what_is_left_and_what_was_cut() -> None:
    worker = the_worker(pslot(cpus=5, total=None, Memory=1000), dslot(Cpus=3, Memory=24))
    assert (worker.total.cpus, worker.total.memory_mb) == (8, 1024)


def test_what_a_machine_does_not_say_is_not_zero_but_gpus_are() -> None:
    worker = the_worker(slot("slot1@w1"))
    assert worker.total == worker.free == Resources(None, None, None, 0)
    full = the_worker(slot("slot1@w1", "Claimed", "Busy", SlotType="Static", Cpus=4))
    assert (full.total.cpus, full.free.cpus) == (4, 0)


def test_gpus_are_counted() -> None:
    worker = the_worker(pslot(GPUs=1, TotalSlotGPUs=2), dslot(GPUs=1))
    assert (worker.total.gpus, worker.free.gpus) == (2, 1)


@pytest.mark.parametrize("value", ["2", 2, 2.0])
def test_numbers_come_in_several_types(value: Any) -> None:
    assert the_worker(slot("slot1@w1", Cpus=value)).total.cpus == 2


def test_job_starts_are_the_startds_own_count_on_each_slot() -> None:
    assert the_worker(pslot(JobStarts=4), dslot(JobStarts=4)).job_starts == 4
    assert the_worker(pslot()).job_starts is None


def test_the_start_of_the_youngest_ad_counts() -> None:
    assert the_worker(pslot(DaemonStartTime=100), dslot(DaemonStartTime=200)).started_at == 200
    assert the_worker(pslot()).started_at is None


@pytest.mark.parametrize(
    ("attributes", "found"),
    [
        ({"EC2InstanceID": "i-0abc"}, "i-0abc"),
        ({"EC2InstanceId": " i-0abc "}, "i-0abc"),
        ({"InstanceID": "i-0abc"}, "i-0abc"),
        ({"EC2InstanceID": "i-0abc", "InstanceID": "i-other"}, "i-0abc"),
        ({"EC2InstanceID": ""}, None),
        ({"EC2InstanceID": None}, None),
        ({"EC2InstanceID": 5}, None),
        ({}, None),
    ],
)
def test_the_instance_id_is_what_the_worker_publishes(attributes: dict[str, Any], found: Optional[str]) -> None:
    assert the_worker(pslot(**attributes), dslot()).instance_id == found


def test_slots_that_disagree_on_the_instance_say_none() -> None:
    assert the_worker(pslot(EC2InstanceID="i-1"), dslot(EC2InstanceID="i-2")).instance_id is None


@pytest.mark.parametrize(
    ("machine", "sinful", "found"),
    [
        ("w1", "<10.0.0.7:9618?addrs=10.0.0.7-9618&alias=w1>", {"10.0.0.7"}),
        ("w1", "<10.0.0.7:45985>", {"10.0.0.7"}),
        # HTCondor writes the colons of an IPv6 address as dashes there (to_ccb_safe_string).
        ("w1", "<10.0.0.7:9618?addrs=10.0.0.7-9618+[2001-db8--7]-9618>", {"10.0.0.7", "2001:db8::7"}),
        ("w1", "<[2001:db8::7]:9618?addrs=[2001:db8::7]-9618+10.0.0.7-9618>", {"2001:db8::7", "10.0.0.7"}),
        ("w1", "<[2001:DB8:0:0::7]:9618?addrs=[2001:DB8:0:0::7]-9618>", {"2001:db8::7"}),
        (
            "w1",
            "<54.1.2.3:9618?PrivAddr=%3c10.0.0.7:9618%3faddrs%3d10.0.0.7-9618%3e&PrivNet=cloud&noUDP>",
            {"54.1.2.3", "10.0.0.7"},
        ),
        ("w1", "<10.0.0.7:9618?CCBID=10.9.9.9:9618%3faddrs%3d10.9.9.9-9618#5&addrs=10.0.0.7-9618>", {"10.0.0.7"}),
        ("w1", "<10.0.0.7:9618?PrivAddr=%3c10.0.0.8:9618%3fCCBID%3d10.9.9.9:9618%3e>", {"10.0.0.7", "10.0.0.8"}),
        ("w1", "<10.0.0.7:9618?alias=10.0.0.8&PrivNet=1210.0.0.9-1&sock=1.10.0.0.9-x>", {"10.0.0.7"}),
        ("w1", "<127.0.0.1:9618?addrs=127.0.0.1-9618+[::1]-9618+[fe80::1]-9618>", set()),
        ("10-0-0-9.example.org", None, {"10.0.0.9"}),
        ("ip-10-0-0-9.ec2.internal", None, {"10.0.0.9"}),
        ("2001-db8--7.example.com", None, {"2001:db8::7"}),
        ("10-0-0-9.example.org", "<10.0.0.8:1>", {"10.0.0.8", "10.0.0.9"}),
        ("10-0-0-300.example.org", None, set()),
        ("node-10", None, set()),
        ("w1", "nonsense", set()),
        ("w1", 5, set()),
        ("w1", "<:?&&==+-[]>", set()),
    ],
)
def test_addresses_come_from_the_ad_without_a_look_up(machine: str, sinful: Any, found: set[str]) -> None:
    assert the_worker(slot(f"slot1@{machine}", MyAddress=sinful)).addresses == found


def test_each_startd_is_named_by_one_of_its_slots_and_not_a_passing_one() -> None:
    rows = [
        dslot("slot1_1@w1", MyAddress="<10.0.0.1:1>"),
        pslot("slot1@w1", MyAddress="<10.0.0.1:1>"),
        dslot("slot1_2@w1", MyAddress="<10.0.0.1:1>"),
        slot("slot1@b@w1", MyAddress="<10.0.0.1:2>"),
    ]
    assert set(htcondor_slots.startds(ads.rows(json.dumps(rows), "x"))) == {"slot1@w1", "slot1@b@w1"}


@settings(max_examples=150)
@given(st.lists(st.dictionaries(st.sampled_from(htcondor_slots.SLOT_ATTRIBUTES), JSON_VALUES), max_size=3))
def test_no_value_of_a_slot_raises_or_looks_idle(rows: list[dict[str, Any]]) -> None:
    odd = [{**row, "MyType": "Machine", "Machine": "w1"} for row in rows]
    for worker in workers(*odd).values():
        plain = all((row.get("State"), row.get("Activity")) == ("Unclaimed", "Idle") for row in odd)
        assert worker.state is not WorkerState.IDLE or plain


# --------------------------------------------------------------------------- the collector's age


def up(*rows: dict[str, Any]) -> Optional[float]:
    return htcondor_slots.source_up_s(ads.rows(json.dumps(list(rows)), "condor_status"))


COLLECTOR = {"MyType": "Collector", "StatsLifetime": 300, "StatsLastUpdateTime": 1000, "LastHeardFrom": 1000}


def test_the_age_of_the_collector_is_by_its_own_clock() -> None:
    assert up(COLLECTOR) == 300
    assert up(COLLECTOR, slot("slot1@w1", LastHeardFrom=1250), slot("slot1@w2", LastHeardFrom=1100)) == 550
    assert up(COLLECTOR, {"MyType": "Scheduler", "LastHeardFrom": 1250}) == 550
    assert up(COLLECTOR, slot("slot1@w1", LastHeardFrom=10)) == 300


def test_the_youngest_of_several_collectors_counts() -> None:
    assert up(COLLECTOR, {**COLLECTOR, "StatsLifetime": 5}) == 5


def test_a_collector_that_does_not_say_is_of_unknown_age() -> None:
    assert up() is None
    assert up(slot("slot1@w1", LastHeardFrom=1250)) is None
    assert up({"MyType": "Collector"}) is None
    assert up({"MyType": "Collector", "StatsLifetime": "x", "RecentStatsLifetime": None}) is None
    assert up({"MyType": "Collector", "RecentStatsLifetime": 77}) == 77


# --------------------------------------------------------------------------- jobs on machines


@pytest.mark.parametrize(
    ("row", "hosts"),
    [
        ({"RemoteHost": "slot1_1@W1.Example.org"}, {"w1.example.org"}),
        ({"RemoteHost": "w1"}, {"w1"}),
        ({"RemoteHost": "slot1@a@w6"}, {"w6"}),
        ({"LastRemoteHost": "slot1_1@w2"}, {"w2"}),
        ({"RemoteHost": "slot1_1@w1", "LastRemoteHost": "slot1_1@w2"}, {"w1"}),
        ({"AllRemoteHosts": "slot1@w1,slot1@w2, slot2@w1"}, {"w1", "w2"}),
        ({"RemoteHost": None}, set()),
        ({"RemoteHost": 5}, set()),
        ({}, set()),
    ],
)
def test_the_machines_that_the_queue_records_for_a_job(row: dict[str, Any], hosts: set[str]) -> None:
    assert htcondor_lookups.hosts_of_job({name.lower(): value for name, value in row.items()}) == hosts
