"""What Slurm says of its queue -> who waits for how many machines of what size."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Optional, Sequence

import pytest

from elastiq.interfaces import JobGroup, Resources, SourceError
from elastiq.plugins.batch import slurm_jobs as queue
from elastiq.plugins.batch import slurm_records as records
from elastiq.plugins.batch.slurm_jobs import Job
from elastiq.plugins.batch.slurm_reasons import Waits, waits_for
from elastiq.plugins.batch.slurm_spread import Spread
from tests.integration import slurm_forms as forms

NOW = 1_800_000_000.0


def job(**said: Any) -> Job:
    return Job(**{"id": "7", "array": "7", "state": "PD", "reason": "Resources", "partition": "main", **said})


def groups(*jobs: Job, partitions: Sequence[str] = ()) -> tuple[JobGroup, ...]:
    return queue.groups(jobs, partitions, NOW)


def waiting(*jobs: Job) -> int:
    return sum(group.waiting for group in groups(*jobs) if not group.not_eligible)


# --------------------------------------------------------------------------- reasons

LONG_ONE = "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions"


@pytest.mark.parametrize(
    "reason",
    [
        "Resources",
        "Priority",
        "None",
        "PartitionConfig",  # of a partition that has no node (any more)
        "NodeDown",
        LONG_ONE,
        LONG_ONE[:48],  # as squeue cuts it
        LONG_ONE.replace(" ", "_"),
        "(Resources)",
        "ReqNodeNotAvail",
        "ReqNodeNotAvail, UnavailableNodes:w[2,4-7]",
        "ReqNodeNotAvail, May be reserved for other job",
        "ReqNodeNotAvail(Unavailable:w1)",
    ],
)
def test_a_job_that_lacks_nodes_is_demand(reason: str) -> None:
    assert waits_for(reason) is Waits.MACHINE
    assert waiting(job(reason=reason)) == 1


@pytest.mark.parametrize(
    "reason",
    [
        *"""
    Dependency DependencyNeverSatisfied JobHeldUser JobHeldAdmin JobHoldMaxRequeue Licenses PartitionNodeLimit
    PartitionTimeLimit PartitionDown PartitionInactive AssociationJobLimit AssociationResourceLimit AssocGrpCpuLimit
    AssocGrpCPUMinutesLimit AssocGrpGRES AssocGrpBilling AssocMaxJobsLimit AssocMaxMemPerNode QOSMaxJobsPerUserLimit
    QOSGrpNodeLimit QOSGrpMemoryMinutes QOSMinGRES QOSUsageThreshold QOSNotAllowed AccountNotAllowed InvalidAccount
    InvalidQOS MaxCpuPerAccount MaxBillingPerAccount MaxMemPerLimit AccountingPolicy JobArrayTaskLimit Reservation
    ReservationDeleted ReservationInvalid BadConstraints Constraints Cleaning Prolog BurstBufferStageIn
    BurstBufferResources SystemFailure JobLaunchFailure NonZeroExitCode RaisedSignal OutOfMemory TimeLimit InactiveLimit
    DeadLine FedJobLock FrontEndDown PowerNotAvail PowerReserved SchedDefer
    """.split(),
        "ReqNodeNotAvail, Reserved for maintenance",
    ],
)
def test_a_job_that_waits_for_something_else_is_no_demand(reason: str) -> None:
    assert waits_for(reason) is Waits.OTHER
    assert groups(job(reason=reason)) == ()


def test_a_reason_that_nobody_knows_is_no_demand_but_told() -> None:
    (group,) = groups(job(reason="WaitsForGodot"))
    assert group.waiting == 1 and "WaitsForGodot" in group.not_eligible


@pytest.mark.parametrize(("begin", "counted"), [(NOW - 5, 1), (NOW + 121, 1), (NOW + 3600, 0), (None, 0)])
def test_a_job_to_begin_later_is_demand_once_that_is_near(begin: Optional[float], counted: int) -> None:
    # a job whose node died may begin again 121 s later: its machine is wanted now
    assert waiting(job(reason="BeginTime", begin=begin)) == counted


@pytest.mark.parametrize(
    ("said", "counted"), [({}, 1), ({"begin": NOW}, 1), ({"begin": NOW + 3600}, 0), ({"depends": True}, 0)]
)
def test_a_job_that_may_not_begin_is_no_demand_whatever_reason_it_has_at_first(said: Any, counted: int) -> None:
    assert waiting(job(reason="ReqNodeNotAvail, May be reserved for other job", **said)) == counted


def test_jobs_that_only_certain_nodes_can_run_are_told_with_the_reason() -> None:
    (by_name,) = groups(job(asked_nodes="w[1-2]", reason="ReqNodeNotAvail, UnavailableNodes:w1"))
    (reserved,) = groups(job(reservation="exam"))
    assert "w[1-2]" in by_name.not_eligible and "exam" in reserved.not_eligible


# --------------------------------------------------------------------------- states


@pytest.mark.parametrize("state", ["PD", "PENDING"])
def test_a_pending_job_waits(state: str) -> None:
    assert waiting(job(state=state)) == 1


@pytest.mark.parametrize("state", ["R", "CF", "S", "ST", "SO", "SI", "RS", "RUNNING", "CONFIGURING", "SUSPENDED"])
def test_a_job_on_a_node_runs(state: str) -> None:
    (group,) = groups(job(state=state))
    assert (group.waiting, group.running) == (0, 1)


@pytest.mark.parametrize(
    "state", "CG CD CA F TO NF OOM PR RV RD RF RH RQ SE BF DL COMPLETING REQUEUE_HOLD SOMETHING_NEW".split()
)
def test_a_job_in_another_state_is_neither(state: str) -> None:
    assert groups(job(state=state)) == ()


def test_the_states_of_a_json_list_are_what_says_most() -> None:
    def state(*words: str) -> str:
        return queue.from_json({"job_id": 1, "job_state": list(words)}).state

    assert state("PENDING") in queue.PENDING
    assert state("RUNNING") in queue.RUNNING and state("RUNNING", "CONFIGURING") in queue.RUNNING
    assert state("PENDING", "REQUEUE_HOLD") not in queue.PENDING | queue.RUNNING
    assert state("RUNNING", "COMPLETING") not in queue.PENDING | queue.RUNNING


# --------------------------------------------------------------------------- arrays


@pytest.mark.parametrize(
    ("tasks", "running", "counted"),
    [
        ("0-9", 0, 10),
        ("4-190%2", 0, 2),
        ("4-190%2", 1, 1),
        ("4-190%2", 2, 0),
        ("4-190%2", 3, 0),
        ("1,3,5-9:2", 0, 5),
        ("[1-100%5]", 0, 5),
        ("8", 0, 1),
        ("0-9999", 0, 10_000),
    ],
)
def test_of_an_array_those_tasks_wait_that_could_run(tasks: str, running: int, counted: int) -> None:
    others = [job(id=f"{number}", state="R", tasks=f"{number}") for number in range(running)]
    assert waiting(job(tasks=tasks), *others) == counted


def test_the_limit_of_an_array_holds_for_tasks_that_were_taken_out_of_it_too() -> None:
    taken_out = [job(id="20", tasks="20"), job(id="21", tasks="21", cpus=8.0)]
    assert waiting(job(tasks="1-9%2"), *taken_out) == 2
    assert waiting(job(tasks="1-9%11"), *taken_out) == 11
    assert waiting(job(tasks="1-9%11"), *taken_out, job(id="22", tasks="22", state="R")) == 10


def test_an_array_whose_tasks_cannot_be_read_is_no_answer() -> None:
    with pytest.raises(SourceError, match="job 7"):
        groups(job(tasks="1-"))


# --------------------------------------------------------------------------- what is asked for


def request(**said: Any) -> tuple[int, Resources]:
    shape = queue.shape(job(**said))
    return shape.nodes, shape.request


@pytest.mark.parametrize(
    ("said", "nodes", "cpus", "memory_mb", "gpus"),
    [
        ({"cpus": 4, "memory_mb": 4000}, 1, 4, 4000, None),
        ({"cpus": 16, "memory_mb": 6000, "nodes": 4, "max_nodes": 4, "ntasks": 4}, 4, 4, 1500, None),
        ({"cpus": 6, "memory_mb": 1000, "nodes": 4, "max_nodes": 4, "ntasks": 6}, 4, 2, 250, None),
        # so many tasks on however many nodes: slots of one task each
        ({"cpus": 64, "memory_mb": 6400, "ntasks": 64}, 64, 1, 100, None),
        ({"cpus": 8, "ntasks": 4, "nodes": 2, "max_nodes": 8}, 4, 2, None, None),
        # ... but not where one node is wanted, or what every node has to have
        ({"cpus": 64, "ntasks": 64, "max_nodes": 1}, 1, 64, None, None),
        ({"cpus": 4, "ntasks": 4, "gres_of_node": "gpu:1"}, 1, 4, None, 1),
        ({"cpus": 4, "ntasks": 4, "exclusive": True}, 1, 4, None, None),
        ({"gres_of_node": "gres:gpu:tesla:2", "nodes": 3, "max_nodes": 3, "cpus": 3}, 3, 1, None, 2),
        ({"gres_of_job": "gres/gpu:5", "nodes": 2, "max_nodes": 2, "cpus": 2}, 2, 1, None, 3),
        ({"gres_of_task": "gres/gpu:1", "ntasks": 4, "max_nodes": 1, "cpus": 4}, 1, 4, None, 4),
        ({"gres_of_task": "cpu=2,gres/gpu:1", "ntasks": 4, "cpus": 8}, 4, 2, None, 1),
    ],
)
def test_what_each_node_must_have(said: Any, nodes: int, cpus: float, memory_mb: Any, gpus: Any) -> None:
    assert request(**said) == (nodes, Resources(cpus, memory_mb, None, gpus))


@pytest.mark.parametrize(
    ("said", "apart"),
    [
        ({}, False),
        ({"exclusive": True}, True),
        ({"nodes": 3, "max_nodes": 3, "ntasks": 3}, True),
        ({"nodes": 2, "ntasks": 2}, True),
        ({"nodes": 1, "ntasks": 64}, False),  # Slurm may have all tasks on one machine
        ({"nodes": 2, "max_nodes": 8, "ntasks": 16}, False),
        ({"nodes": 1, "max_nodes": 1, "ntasks": 64}, False),
    ],
)
def test_nodes_that_are_asked_for_by_number_are_machines_apart(said: Any, apart: bool) -> None:
    assert groups(job(**said))[0].apart is apart


def test_what_says_where_a_job_may_run_is_part_of_its_shape() -> None:
    plain, fast, elsewhere, whole = groups(
        job(), job(features="fast&big"), job(partition="long,main"), job(exclusive=True)
    )
    assert len({plain.key, fast.key, elsewhere.key, whole.key}) == 4
    assert fast.ad == ("Partitions = main", "Features = fast&big") and fast.requirements == "Features = fast&big"
    assert elsewhere.ad == ("Partitions = long,main",) and elsewhere.requirements == ""
    assert "Gres = gpu:tesla:2" in groups(job(gres_of_node="gpu:tesla:2"))[0].ad


def test_only_the_partitions_that_are_named_count() -> None:
    some = job(), job(partition="long"), job(partition="debug,long"), job(partition="debug", state="R")
    (group, other) = groups(*some, partitions=("long",))
    assert group.waiting + other.waiting == 2 and not (group.running or other.running)


def test_the_parts_of_a_heterogeneous_job_are_jobs_by_themselves() -> None:
    first, second = groups(job(het="12+0"), job(het="12+1", cpus=8))
    assert (first.sample_job, second.sample_job) == ("12+0", "12+1")
    assert (first.waiting, second.waiting) == (1, 1)


# --------------------------------------------------------------------------- the table


def row(**said: Any) -> list[str]:
    """As squeue prints it, each field cut at its column's width."""
    told = forms.columns_of(forms.job(7, **said))
    return [told[name][:width] for name, width in queue.COLUMNS.values()]


def read(*rows: list[str]) -> list[Job]:
    return queue.from_table(rows, lambda ids: [])


def test_a_row_of_the_table_and_the_json_of_all_versions_say_the_same() -> None:
    said: dict[str, Any] = {
        "array": 5,
        "tasks": "3-9",
        "limit": 2,
        "reason": "ReqNodeNotAvail, UnavailableNodes:w1",
        "cpus": 8,
        "nodes": 2,
        "max_nodes": 2,
        "ntasks": 4,
        "memory": 4096,
        "features": "a&b",
        "partition": "x,y",
        "per_node": "gres/gpu:t:1",
        "asked_nodes": "w1",
        "sharing": "NO",
        "reservation": "r",
        "begin": 1_700_000_500,
    }
    (told,) = read(row(**said))
    told = replace(told, state="PENDING")
    assert told == queue.from_json(forms.old_job(forms.job(7, **said)))
    assert told == queue.from_json(forms.new_job(forms.job(7, **said)))
    assert (told.name, told.tasks, told.nodes, told.cpus, told.memory_mb) == ("5", "3-9%2", 2, 8, 4096)
    assert (told.exclusive, told.asked_nodes, told.begin) == (True, "w1", 1_700_000_500)


def test_names_of_single_jobs_tasks_arrays_and_parts() -> None:
    assert [one.name for one in read(row(), row(array=5, tasks="3", state="R"), row(array=5, tasks="4-6"))] == [
        "7",
        "5_3",
        "5",
    ]
    assert read(row(het=6, offset=1))[0].name == "6+1"


def test_fields_that_were_cut_are_asked_for_again() -> None:
    long = ",".join(f"{number}" for number in range(1, 400, 2))
    asked: list[Sequence[str]] = []

    def again(ids: Sequence[str]) -> list[list[str]]:
        asked.append(ids)
        told = forms.columns_of(forms.job(7, array=7, tasks=long))
        return [[told[name] for name, _ in queue.COLUMNS.values()]]

    found = queue.from_table([row(array=7, tasks=long), row()], again)
    assert asked == [["7"]]
    assert sum(queue.tasks_of(one)[0] for one in found) == 200 + 1


def test_a_reason_may_be_cut() -> None:
    (told,) = read(row(reason=LONG_ONE))
    assert waiting(told) == 1


HEAD = records.SEPARATOR.join(["A", "B", ""])


@pytest.mark.parametrize(
    "text",
    [
        "",  # even an empty queue has a header
        HEAD,  # cut off
        f"{HEAD}\n1{records.SEPARATOR}2",
        f"{HEAD}\n1{records.SEPARATOR}2{records.SEPARATOR}",
        f"{HEAD}\n1 2\n",
        f"{HEAD}\n\n",
        "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n",
        f"{HEAD}\n1{records.SEPARATOR}2{records.SEPARATOR}3\n",
    ],
)
def test_what_is_no_table_is_no_answer(text: str) -> None:
    with pytest.raises(SourceError):
        list(records.table(text, 2, "squeue"))


def test_a_header_alone_is_an_empty_queue() -> None:
    assert list(records.table(f"{HEAD}\n", 2, "squeue")) == []


def test_blanks_and_commas_in_a_field_separate_nothing() -> None:
    line = f"a, b   {records.SEPARATOR}c d{records.SEPARATOR}"
    assert list(records.table(f"{HEAD}\n{line}\n", 2, "squeue")) == [["a, b", "c d"]]


@pytest.mark.parametrize("row", [{}, {"job_id": 1}, {"job_state": ["PENDING"]}, {"job_id": None, "job_state": "R"}])
def test_a_job_without_an_id_or_a_state_is_no_answer(row: dict[str, Any]) -> None:
    with pytest.raises(SourceError):
        queue.from_json(row)


# --------------------------------------------------------------------------- spread


class Told:
    def __init__(self, **nodes: str) -> None:
        self.nodes, self.asked = {name.lstrip("j"): text for name, text in nodes.items()}, list[str]()

    def __call__(self, job: str) -> str:
        self.asked.append(job)
        lines = [
            f"JobId={name} JobName=x NumNodes=9-9 y NodeList= NumNodes={text} NumCPUs=4 NumTasks=4\n"
            for name, text in self.nodes.items()
            if job in ("", name)
        ]
        return "".join(lines)


def test_whether_tasks_may_be_spread_is_asked_once_where_the_table_does_not_tell() -> None:
    told = Told(j1="1-1", j2="1", j3="1-3")
    spread = Spread(told)
    doubtful = [job(id=number, ntasks=4, cpus=4.0, max_nodes=1) for number in "123"]
    clear = [job(id="4", max_nodes=1), job(id="5", ntasks=4, nodes=2, max_nodes=2), job(id="6", ntasks=4, max_nodes=2)]
    for _ in range(2):
        assert [one.max_nodes for one in spread.told([*doubtful, *clear])] == [1, None, 3, 1, 2, 2]
    assert told.asked == ["1", "2", "3"]


def test_of_many_jobs_all_are_asked_for_at_once() -> None:
    told = Told(**{f"j{number}": "1" for number in range(50)})
    found = Spread(told).told([job(id=f"{number}", ntasks=2, max_nodes=1) for number in range(50)])
    assert told.asked == [""] and all(one.max_nodes is None for one in found)


def test_a_job_that_is_gone_meanwhile_spoils_nothing() -> None:
    (found,) = Spread(Told()).told([job(ntasks=2, max_nodes=1)])
    assert found.max_nodes is None
