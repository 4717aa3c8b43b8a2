"""Which jobs of Torque and PBS Pro are demand, and for how many."""

from __future__ import annotations

import pytest

from elastiq.interfaces import JobGroup
from elastiq.plugins.batch.pbs_jobs import array_of, hidden, job_groups
from elastiq.plugins.batch.pbs_requests import of_pbs, of_torque
from elastiq.plugins.batch.pbs_rows import Record

WORKQ = Record("workq", {"queue_type": "Execution", "enabled": "True", "started": "True"})


def job(name: str, state: str = "Q", **attributes: str) -> Record:
    return Record(name, {"job_state": state, "queue": "workq", **attributes})


def groups(*jobs: Record, queues: tuple[Record, ...] = (WORKQ,), only: tuple[str, ...] = ()) -> tuple[JobGroup, ...]:
    """With the requests of PBS Pro: one cpu each."""
    return job_groups(jobs, lambda record: of_pbs({}, ""), queues, only)


def waiting(*jobs: Record) -> int:
    return sum(group.waiting for group in groups(*jobs) if not group.not_eligible)


def running(*jobs: Record) -> int:
    return sum(group.running or 0 for group in groups(*jobs))


@pytest.mark.parametrize("state", "HWTCMFXZRESU")
def test_no_state_but_queued_is_demand(state: str) -> None:
    assert waiting(job("1.srv", state), job("2.srv", "Q")) == 1


@pytest.mark.parametrize(("state", "runs"), [*dict.fromkeys("RESU", 1).items(), *dict.fromkeys("QHWTCMFXZ", 0).items()])
def test_jobs_that_run_end_or_are_suspended_are_on_machines(state: str, runs: int) -> None:
    assert running(job("1.srv", state)) == runs


def test_a_running_job_with_a_hold_runs() -> None:
    assert (waiting(job("1.srv", "R", hold_types="u")), running(job("1.srv", "R", hold_types="u"))) == (0, 1)


def test_a_row_without_a_state_is_no_demand_and_no_error() -> None:
    assert groups(Record("1.srv", {})) == ()


# ---- queues


def test_jobs_of_a_stopped_queue_say_why_they_are_no_demand() -> None:
    stopped = Record("workq", {"queue_type": "Execution", "enabled": "True", "started": "False"})
    (group,) = groups(job("1.srv"), queues=(stopped,))
    assert "workq is stopped" in group.not_eligible


def test_jobs_that_a_routing_queue_keeps_are_no_demand() -> None:
    (group,) = groups(job("1.srv"), queues=(Record("workq", {"queue_type": "Route", "started": "True"}),))
    assert "routing" in group.not_eligible


def test_jobs_of_a_queue_that_takes_no_more_are_demand() -> None:
    disabled = Record("workq", {"queue_type": "Execution", "enabled": "False", "started": "True"})
    (group,) = groups(job("1.srv"), queues=(disabled,))
    assert group.not_eligible == ""


def test_a_group_keeps_its_key_when_its_queue_is_stopped() -> None:
    stopped = Record("workq", {"queue_type": "Execution", "started": "False"})
    assert groups(job("1.srv"))[0].key == groups(job("1.srv"), queues=(stopped,))[0].key


def test_only_the_queues_that_are_named_count() -> None:
    assert groups(job("1.srv"), job("2.srv", queue="long"), only=("long",))[0].waiting == 1


def test_jobs_of_two_queues_are_two_groups() -> None:
    assert len(groups(job("1.srv"), job("2.srv", queue="long"))) == 2


# ---- what the scheduler says


@pytest.mark.parametrize(
    "comment",
    [
        "Not Running: User has reached queue running job limit.",
        "Not Running: Server job limit has been reached.",
        "Not Running: would exceed queue workq's per-user limit",
        "Not Running: Queue not started.",
        "Not Running: Dedicated time conflict",
        "Not Running: Job would cross dedicated time boundry",
    ],
)
def test_a_job_that_a_machine_more_would_not_help_is_no_demand_and_says_why(comment: str) -> None:
    (group,) = groups(job("1.srv", comment=comment))
    assert group.not_eligible == comment


@pytest.mark.parametrize(
    "comment",
    [
        "Not Running: Insufficient amount of resource: ncpus (R: 4 A: 0 T: 0)",
        "Not Running: Insufficient amount of resource: limit_of_mine (R: 4 A: 0 T: 0)",
        "Can Never Run: Insufficient amount of resource: ncpus (R: 4 A: 0 T: 0)",
        "Can Never Run: Not enough total nodes available",
        "Not Running: Not enough of the right type of nodes are available",
        "Not Running: No available resources on nodes",
        "Not Running: Job would conflict with reservation or top job",
        "Not Running: Draining system to allow starving job to run",
        "",
    ],
)
def test_a_job_that_lacks_a_machine_is_demand_whatever_the_scheduler_calls_it(comment: str) -> None:
    assert waiting(job("1.srv", comment=comment)) == 1


# ---- arrays


def test_an_array_of_pbs_pro_is_one_row_of_many_jobs() -> None:
    states = "Queued:97 Running:2 Exiting:1 Expired:0 "
    array = job("7[].srv", "B", array_state_count=states, array_indices_submitted="0-99")
    assert (waiting(array), running(array)) == (97, 3)


@pytest.mark.parametrize(
    ("attributes", "count"),
    [
        ({"array_indices_submitted": "2-10:2"}, 5),
        ({"array_indices_submitted": "0-99", "array_indices_remaining": "1,3,5-9:2"}, 5),
        ({"array_state_count": "Queued:50 Running:2 Exiting:0 Expired:0", "max_run_subjobs": "5"}, 3),
        ({"array_state_count": "Queued:50 Running:5 Exiting:0 Expired:0", "max_run_subjobs": "5"}, 0),
        ({"array_state_count": "Queued:3 Running:0 Exiting:0 Expired:0", "max_run_subjobs": "5"}, 3),
        ({"array_state_count": "Queued:0 Running:0 Exiting:0 Expired:9", "array_indices_remaining": "-"}, 0),
        ({"array_indices_remaining": "-"}, 0),
        ({"array_indices_submitted": "odd"}, 0),
        ({}, 0),
    ],
)
def test_of_an_array_as_many_jobs_wait_as_may_run(attributes: dict[str, str], count: int) -> None:
    assert waiting(job("7[].srv", "B", **attributes)) == count


def test_a_held_array_is_no_demand() -> None:
    assert waiting(job("7[].srv", "H", array_state_count="Queued:9 Running:0 Exiting:0 Expired:0")) == 0


def test_the_jobs_of_torques_arrays_are_rows_of_which_a_limit_lets_some_run() -> None:
    running_ones = [job(f"151[{index}].srv", "R", job_array_request="0-9%3") for index in range(2)]
    queued = [job(f"151[{index}].srv", "Q", job_array_request="0-9%3") for index in range(2, 10)]
    held = [job("152[0].srv", "Q"), job("152[1].srv", "H", hold_types="l")]  # so does Torque itself with a limit
    assert waiting(*running_ones, *queued) == 1
    assert waiting(*held) == 1


def test_an_array_beside_its_own_jobs_is_counted_once() -> None:
    rows = [job("151[].srv", "Q", job_array_request="0-1"), job("151[0].srv"), job("151[1].srv")]
    assert waiting(*rows) == 2
    assert waiting(rows[0]) == 2


def test_names_of_arrays_are_told_from_names_of_jobs() -> None:
    assert array_of("151[3].srv.example") == ("151.srv.example", "3")
    assert array_of("151[].srv.example") == ("151.srv.example", "")
    assert array_of("151-3.srv") == ("151.srv", "3")
    assert array_of("151.srv-4.example") is None


# ---- the rest


def test_a_job_may_name_its_pools() -> None:
    (group,) = groups(job("1.srv", **{"variable_list.elastiq_pool": "GPU+bigmem"}))
    assert group.pools == ("bigmem", "gpu")


def test_a_job_of_several_units_counts_as_so_many() -> None:
    (group,) = job_groups([job("1.srv"), job("2.srv", "R")], lambda record: of_torque({"procs": "8"}), ())
    assert (group.waiting, group.running, group.sample_job) == (8, 8, "1.srv")


def test_a_queue_that_counts_jobs_which_nobody_shows_hides_them() -> None:
    queue = Record("workq", {"state_count": "Transit:0 Queued:5 Held:2 Waiting:0 Running:2 Exiting:0 Begun:0"})
    assert hidden([], [queue]) == 7
    assert hidden([job("1.srv")], [queue]) == 0
    assert hidden([], [Record("workq", {"state_count": "Transit:0 Queued:0 Held:2 Waiting:0 Running:0"})]) == 0
