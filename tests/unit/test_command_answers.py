"""What the executables of [command] print, as groups of jobs and as workers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from elastiq.interfaces import JobGroup, Resources, SourceError, Worker, WorkerState
from elastiq.plugins.batch import command_answers as answers


def jobs(*rows: Any, **more: Any) -> tuple[JobGroup, ...]:
    return answers.jobs(answers.listed(json.dumps({"jobs": rows, **more}))).groups


def workers(*rows: Any, **more: Any) -> tuple[Worker, ...]:
    return answers.workers(json.dumps({"workers": rows, **more}))[0].workers


def worker(**row: Any) -> Worker:
    (found,) = workers({"name": "w1", "state": "idle", **row})
    return found


def complaint(call: Any, *rows: Any, **more: Any) -> str:
    with pytest.raises(SourceError) as caught:
        call(*rows, **more)
    return str(caught.value)


# --------------------------------------------------------------------------- jobs


def test_one_element_stands_for_as_many_jobs_as_it_counts() -> None:
    (group,) = jobs({"id": "7", "count": 9_999, "cpus": 2}, {"id": "8", "cpus": 2.0})
    assert (group.waiting, group.request.cpus, group.sample_job) == (10_000, 2, "7")


def test_all_that_makes_a_shape_reaches_the_group() -> None:
    sizes = {"cpus": 2, "memory_mb": 500, "disk_mb": 10, "gpus": 1}
    (group,) = jobs({**sizes, "nodes": 3, "apart": True, "pools": ["GPU", "big"], "requirements": "queue long"})
    assert group.request == Resources(2, 500, 10, 1)
    assert (group.nodes, group.apart, group.pools, group.requirements) == (3, True, ("big", "gpu"), "queue long")


def test_what_the_jobs_do_not_say_stays_unsaid() -> None:
    (group,) = jobs({})
    assert (group.request, group.nodes, group.pools, group.waiting) == (Resources(), 1, (), 1)


def test_jobs_that_are_not_eligible_keep_their_reason() -> None:
    (group,) = jobs({"not_eligible": "waits for a licence"})
    assert (group.not_eligible, group.waiting) == ("waits for a licence", 1)


def test_running_jobs_are_counted_only_where_all_of_them_are_listed() -> None:
    rows = [{"cpus": 1}, {"cpus": 1, "state": "running", "workers": ["w1"], "count": 3}]
    assert [(group.waiting, group.running) for group in jobs(*rows)] == [(1, None)]
    assert [(group.waiting, group.running) for group in jobs(*rows, lists_running=True)] == [(1, 3)]
    assert [(group.waiting, group.running) for group in jobs(rows[1])] == [(0, None)], "unknown is not none"


def test_a_running_job_without_workers_belies_that_all_are_listed() -> None:
    rows = [{}, {"state": "running"}]
    assert jobs(*rows)[0].waiting == 1
    assert "jobs[1] that is running, expected its workers too" in complaint(jobs, *rows, lists_running=True)
    assert "jobs[1] that is running" in complaint(answers.listed, json.dumps({"jobs": rows}), running=True)


def test_a_job_that_waits_is_on_no_worker() -> None:
    assert "jobs[0] that is waiting, on workers" in complaint(jobs, {"workers": ["w1"]})
    assert jobs({"workers": []})[0].waiting == 1


def test_jobs_are_recorded_on_each_of_their_workers_in_any_case_of_letters() -> None:
    rows = [
        {"id": "1", "state": "running", "workers": ["W1", "w2"]},
        {"id": "2", "state": "running", "workers": ["w1"], "count": 2},
        {"id": "3", "state": "held", "workers": ["w1"]},
        {"state": "running", "workers": ["w2"]},
    ]
    found = answers.listed(json.dumps({"jobs": rows}))
    assert answers.recorded(found, ["w1", "w2", "w3"]) == {"w1": ["1", "2", "2", "3"], "w2": ["1", "jobs[3]"], "w3": []}


def test_recorded_jobs_in_part_are_unknown() -> None:
    found = answers.listed('{"jobs": [], "missing": ["server2: down"]}')
    assert "incomplete: server2: down" in complaint(answers.recorded, found, ["w1"])


# --------------------------------------------------------------------------- workers


def test_a_worker_that_says_little_is_a_worker() -> None:
    assert worker() == Worker("w1", WorkerState.IDLE)


def test_all_that_is_said_of_a_worker_is_kept() -> None:
    found = worker(
        name="W1.Example.org",
        state="draining",
        addresses=["10.0.0.7", "2001:DB8::7", "127.0.0.1"],
        instance_id="i-7",
        cpus=4,
        memory_mb=8000,
        free={"cpus": 1},
        jobs=3,
        job_starts=17,
        drained_by="elastiq 0123 of test",
        started_at=1.7e9,
        detail="full",
        notice="spot interruption",
    )
    assert found == Worker(
        "w1.example.org",
        WorkerState.DRAINING,
        frozenset({"10.0.0.7", "2001:db8::7"}),
        "i-7",
        Resources(4, 8000),
        Resources(1, 0),
        3,
        17,
        "elastiq 0123 of test",
        1.7e9,
        "full",
        "spot interruption",
    )


@pytest.mark.parametrize(
    ("row", "free"),
    [
        ({"state": "idle", "cpus": 4}, 4),
        ({"state": "busy", "cpus": 4}, 0),
        ({"state": "busy", "cpus": 4, "free": {"cpus": 3}}, 3),
        ({"state": "busy", "cpus": 4, "free": {"cpus": 9}}, 4),
        ({"state": "busy"}, None),
        ({"state": "drained", "cpus": 4}, 0),
    ],
)
def test_no_room_is_believed_in_that_is_not_said_or_not_there(row: Any, free: Any) -> None:
    assert worker(**row).free.cpus == free


@pytest.mark.parametrize(("said", "taken"), [("idle", "busy"), ("drained", "draining"), ("other", "other")])
def test_a_worker_with_jobs_is_not_taken_for_one_without(said: str, taken: str) -> None:
    assert worker(state=said, jobs=1).state.value == taken


def test_texts_for_people_are_in_one_line() -> None:
    assert worker(detail="two\nlines", drained_by="by\x1b[2Jme").detail == "two lines"
    assert worker(state="drained", drained_by="by\x1b[2Jme").drained_by == "by [2Jme"
    assert jobs({"not_eligible": "a\nb"})[0].not_eligible == "a b"
    assert answers.listed('{"jobs": [], "missing": ["a\\r\\nb"]}').missing == ("a  b",)


def test_the_name_tells_the_address_where_nothing_else_does() -> None:
    assert worker(name="ip-10-0-0-7.ec2.internal").addresses == {"10.0.0.7"}
    assert worker(name="ip-10-0-0-7", addresses=["10.0.0.8"]).addresses == {"10.0.0.8"}


def test_an_address_that_is_none_is_a_fault() -> None:
    assert 'workers[0].addresses[1]: "10.0.0", expected an IP' in complaint(worker, addresses=["10.0.0.1", "10.0.0"])


def test_a_worker_that_is_there_twice_is_a_fault() -> None:
    rows = [{"name": "W1", "state": "busy"}, {"name": "w1", "state": "idle"}]
    assert 'the worker "w1" twice' in complaint(workers, *rows)


def test_how_long_the_source_is_up_and_what_is_missing_is_passed_on() -> None:
    found, _ = answers.workers('{"workers": [], "source_up_s": 30, "missing": ["rack 2"]}')
    assert (found.workers, found.source_up_s, found.missing) == ((), 30, ("rack 2",))
