"""Processes of Celery's: which machine they are of, what they do, and when one that is silent is gone."""

from __future__ import annotations

from typing import Any, Optional, Sequence

import pytest

from elastiq.errors import SourceError
from elastiq.interfaces import Resources, Worker, Workers, WorkerState
from elastiq.plugins.batch.celery_options import task_queue
from elastiq.plugins.batch.celery_workers import Roster, host_of

QUEUES = [task_queue("celery"), task_queue("big cpus=4")]
MARK = "0123456789abcdef"
LEASE_S, GONE_AFTER_S = 3600.0, 120.0
W1, W2 = "celery@ip-10-0-0-1", "celery@ip-10-0-0-2"


def row(
    tasks: Sequence[str] = (), queues: Sequence[str] = ("celery",), state: str = "active", slots: int = 4, **more: Any
) -> dict[str, Any]:
    """What `celery_acts.look` says of a process."""
    stats = {"slots": slots, "solo": False, "prefetch": slots, "starts": 5, "started_at": 1000.0, **more}
    states = {name: [[one, "app.work", "", "celery", False] for one in tasks if name == state]
              for name in ("scheduled", "reserved", "active")}  # fmt: skip
    return {"queues": [(one, one, one) for one in queues], **states, "stats": stats, "answers": 1}


class Pool:
    """A roster, and the looks that it takes."""

    def __init__(self, broker: str = "redis", solo_pool: bool = False) -> None:
        self.roster = Roster(GONE_AFTER_S, LEASE_S, solo_pool)
        self.broker, self.seen = broker, {}  # type: str, dict[str, Any]
        self.at, self.life = 0.0, "1"

    def look(
        self,
        at: float,
        answering: Optional[dict[str, Any]] = None,
        connected: Optional[Sequence[str]] = (),
        registered: Sequence[str] = (),
        unacked: Sequence[Any] = (),
        consumers: Optional[int] = None,
    ) -> Workers:
        """``connected``: the addresses that Redis tells (None: it does not), or the names whose queues RabbitMQ has."""
        queues = {"celery": [0, consumers, ""], "big": [0, None, ""]}
        self.seen = {"at": at, "processes": answering or {}, "queues": queues}
        if self.broker == "redis":
            server = {"id": self.life, "up_s": 500, "version": "7"}
            self.seen.update(connected=connected, registered=registered, unacked=unacked, server=server)
        else:
            there = set(connected or ())
            self.seen["present"] = {name: name in there for name in self.roster.names if name not in (answering or {})}
        self.roster.take(self.seen)
        return self.roster.workers(self.seen, QUEUES)

    def recorded(self, worker: str) -> list[str]:
        return sorted(task.id for task in self.roster.recorded(worker, self.seen, QUEUES))


def only(workers: Workers) -> Worker:
    (found,) = workers.workers
    return found


# --------------------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("name", "host"),
    [
        ("celery@ip-10-0-0-7", "ip-10-0-0-7"),
        ("prefix-w1@IP-10-0-0-7.EC2.Internal", "ip-10-0-0-7.ec2.internal"),
        ("a@b@10.0.0.7", "10.0.0.7"),
        ("bare", "bare"),
    ],
)
def test_the_host_is_what_follows_the_last_at(name: str, host: str) -> None:
    assert host_of(name) == host


def test_all_processes_of_a_host_are_one_worker() -> None:
    found = only(Pool().look(0, {"w1@ip-10-0-0-1": row(["a"]), "w2@ip-10-0-0-1": row(slots=2)}))
    assert (found.name, found.state, found.jobs, found.addresses) == (
        "ip-10-0-0-1", WorkerState.BUSY, 1, frozenset({"10.0.0.1"}),
    )  # fmt: skip
    assert (found.total, found.free, found.job_starts) == (Resources(cpus=6.0), Resources(cpus=5.0), 10)


def test_a_host_that_is_spelt_in_two_ways_is_one_worker() -> None:
    pool = Pool()
    found = only(pool.look(0, {"w1@ip-10-0-0-1.ec2.internal": row(), "w2@ip-10-0-0-1": row(["a"])}))
    assert (found.name, found.jobs) == ("ip-10-0-0-1", 1)
    assert len(pool.roster.of("ip-10-0-0-1")) == len(pool.roster.of("ip-10-0-0-1.ec2.internal")) == 2


def test_a_host_named_by_its_instance_is_that_instances_worker() -> None:
    found = only(Pool().look(0, {"celery@i-0123456789abcdef0.eu-west-1.compute.internal": row()}))
    assert found.instance_id == "i-0123456789abcdef0"
    assert only(Pool().look(0, {"celery@i-am-no-instance": row()})).instance_id is None


# --------------------------------------------------------------------------- what they do


@pytest.mark.parametrize("state", ["active", "reserved", "scheduled"])
def test_a_task_in_any_state_makes_a_worker_busy(state: str) -> None:
    found = only(Pool().look(0, {W1: row(["a"], state=state)}))
    assert (found.state, found.jobs, found.free.cpus) == (WorkerState.BUSY, 1, 3.0)


def test_more_tasks_than_slots_leave_no_room() -> None:
    assert only(Pool().look(0, {W1: row(list("abcdefgh"))})).free.cpus == 0.0


def test_a_slot_is_as_large_as_the_largest_task_that_may_come_there() -> None:
    found = only(Pool().look(0, {W1: row(["a"], ["celery", "big"], slots=2)}))
    assert (found.total.cpus, found.free.cpus) == (8.0, 4.0)


@pytest.mark.parametrize(("tasks", "state"), [((), WorkerState.DRAINED), (("a",), WorkerState.DRAINING)])
def test_a_worker_that_consumes_only_marks_is_drained_by_who_left_them(tasks: Any, state: WorkerState) -> None:
    found = only(Pool().look(0, {W1: row(tasks, [f"elastiq.{MARK}.celery"])}))
    assert (found.state, found.drained_by_mark(MARK), found.free.cpus, found.total.cpus) == (state, True, 0.0, 4.0)


def test_a_worker_that_consumes_nothing_was_drained_by_nobody_who_says_so() -> None:
    found = only(Pool().look(0, {W1: row(queues=[])}))
    assert (found.state, found.drained_by) == (WorkerState.DRAINED, None)


def test_a_worker_is_not_drained_while_one_of_its_processes_consumes() -> None:
    closed, open_ = row(queues=[f"elastiq.{MARK}.celery"]), row(slots=2)
    found = only(Pool().look(0, {"w1@ip-10-0-0-1": closed, "w2@ip-10-0-0-1": open_}))
    assert (found.state, found.drained_by, found.free.cpus) == (WorkerState.IDLE, None, 2.0)


def test_two_processes_of_one_name_are_never_idle() -> None:
    found = only(Pool().look(0, {W1: {**row(), "answers": 2}}))
    assert found.state is WorkerState.OTHER and "a name of its own" in found.detail


def test_the_time_of_a_start_stays_what_it_was_told_first_until_there_is_another() -> None:
    pool, told = Pool(), []
    for at, started_at in enumerate((1000.0, 1000.9, 999.5, 1300.0, None)):
        told.append(only(pool.look(at, {W1: row(started_at=started_at)})).started_at)
    assert told == [1000.0, 1000.0, 1000.0, 1300.0, 1300.0]


# --------------------------------------------------------------------------- who is silent


def test_nobody_answers_is_an_empty_pool_only_where_nobody_is_known() -> None:
    assert Pool().look(0) == Workers((), 500.0)
    pool = Pool()
    pool.look(0, {W1: row(), W2: row()}, ["10.0.0.1", "10.0.0.2"], [W1, W2])
    found = pool.look(10, {}, ["10.0.0.1", "10.0.0.2"], [W1, W2])
    assert [one.state for one in found.workers] == [WorkerState.OTHER] * 2


@pytest.mark.parametrize(("broker", "name"), [("redis", "10.0.0.1"), ("rabbitmq", W1)])
def test_a_process_that_is_connected_and_silent_is_never_idle_nor_gone(broker: str, name: str) -> None:
    pool = Pool(broker)
    pool.look(0, {W1: row(["a"])}, [name], [W1])
    for at in (10, 1000, 100_000):
        found = only(pool.look(at, {}, [name], [W1]))
        assert (found.state, found.free.cpus) == (WorkerState.OTHER, 0.0) and W1 in found.detail


@pytest.mark.parametrize("broker", ["redis", "rabbitmq"])
def test_a_process_without_a_connection_is_suspected_first_and_then_gone(broker: str) -> None:
    pool = Pool(broker)
    pool.look(0, {W1: row()}, ["10.0.0.1"], [W1])
    assert only(pool.look(10, {}, [], [W1])).state is WorkerState.OTHER
    assert only(pool.look(10 + GONE_AFTER_S - 1, {}, [], [W1])).state is WorkerState.OTHER
    assert pool.look(10 + GONE_AFTER_S, {}, [], [W1]).workers == ()
    assert only(pool.look(300, {W1: row()}, ["10.0.0.1"], [W1])).state is WorkerState.IDLE, "it was cut off"


def test_one_that_takes_its_name_back_is_gone_though_its_machine_has_other_connections() -> None:
    pool = Pool()
    pool.look(0, {W1: row()}, ["10.0.0.1"], [W1])
    pool.look(10, {}, ["10.0.0.1"], [])
    assert pool.look(10 + GONE_AFTER_S, {}, ["10.0.0.1"], []).workers == ()


@pytest.mark.parametrize("connected", [None, ["192.0.2.1"]])
def test_where_redis_does_not_tell_who_is_connected_silence_counts_after_the_visibility_timeout(connected: Any) -> None:
    pool = Pool()  # or it tells the address of a proxy
    pool.look(0, {W1: row()}, connected, [W1])
    assert only(pool.look(LEASE_S - 1, {}, connected, [W1])).state is WorkerState.OTHER
    assert pool.look(LEASE_S, {}, connected, [W1]).workers == ()


def test_a_busy_solo_worker_whose_connection_rabbitmq_closed_is_not_gone() -> None:
    pool = Pool("rabbitmq")
    pool.look(0, {W1: row(solo=True)}, [W1])
    assert only(pool.look(100_000, {}, [])).state is WorkerState.OTHER


def test_a_busy_solo_worker_is_not_gone_after_a_restart_of_redis_but_it_is_in_the_same_life() -> None:
    pool = Pool()
    pool.look(0, {W1: row(solo=True)}, ["10.0.0.1"], [W1])
    pool.life = "2"
    pool.look(10, {}, [], [W1])
    assert only(pool.look(100_000, {}, [], [W1])).state is WorkerState.OTHER
    pool.life = "1"
    assert pool.look(100_001, {}, [], [W1]).workers == ()


def test_a_silent_process_makes_its_whole_worker_neither_idle_nor_busy() -> None:
    pool = Pool()
    pool.look(0, {"w1@ip-10-0-0-1": row(), "w2@ip-10-0-0-1": row()}, ["10.0.0.1"], [])
    found = only(pool.look(10, {"w1@ip-10-0-0-1": row()}, ["10.0.0.1"], ["w1@ip-10-0-0-1", "w2@ip-10-0-0-1"]))
    assert found.state is WorkerState.OTHER and "w2@ip-10-0-0-1" in found.detail


def test_a_worker_that_redis_knows_from_before_and_that_is_connected_is_there() -> None:
    pool = Pool()  # as after a restart of elastiq: W1 never answered it
    found = pool.look(0, {W2: row()}, ["10.0.0.1", "10.0.0.2"], [W1, W2])
    assert {one.name: one.state for one in found.workers} == {
        "ip-10-0-0-1": WorkerState.OTHER, "ip-10-0-0-2": WorkerState.IDLE,
    }  # fmt: skip


def test_that_holds_where_nobody_answers_too() -> None:
    found = only(Pool().look(0, {}, ["10.0.0.1"], [W1]))
    assert (found.name, found.state) == ("ip-10-0-0-1", WorkerState.OTHER)


def test_a_name_that_an_old_worker_left_in_redis_is_no_worker() -> None:
    pool = Pool()
    assert [one.name for one in pool.look(0, {W2: row()}, ["10.0.0.2"], [W1, W2]).workers] == ["ip-10-0-0-2"]
    assert Pool().look(0, {}, None, [W1]).workers == ()


def test_more_consumers_than_processes_that_are_known_is_an_incomplete_answer() -> None:
    pool = Pool("rabbitmq")
    assert pool.look(0, {W1: row()}, consumers=1).missing == ()
    (missing,) = pool.look(10, {W1: row()}, consumers=3).missing
    assert "2 of the 3 consumers of queue celery" in missing
    assert pool.look(20, {}, [W1], consumers=1).missing == (), "it is known, and silent"


# --------------------------------------------------------------------------- what is recorded


def test_what_a_process_had_to_do_stays_recorded_for_the_visibility_timeout() -> None:
    pool = Pool()
    pool.look(0, {W1: row(["a", "b"]), W2: row(["c"])}, ["10.0.0.1", "10.0.0.2"], [W1, W2])
    pool.look(10, {W2: row(["c"])}, ["10.0.0.2"], [W1, W2])
    pool.look(300, {W2: row(["c"])}, ["10.0.0.2"], [W1, W2])
    assert (pool.recorded("ip-10-0-0-1"), pool.recorded("ip-10-0-0-2")) == (["a", "b"], ["c"])
    pool.look(LEASE_S, {W2: row(["c"])}, ["10.0.0.2"], [W1, W2])
    assert (pool.recorded("ip-10-0-0-1"), pool.recorded("ip-10-0-0-2")) == ([], ["c"])


def test_what_nobody_who_answers_has_may_be_with_one_that_is_silent() -> None:
    pool = Pool()
    unacked = [["c", "app.work", "", "celery", 5.0], ["d", "app.work", "", "celery", 5.0]]
    pool.look(0, {W1: row(), W2: row(["c"])}, ["10.0.0.1", "10.0.0.2"], [W1, W2])
    pool.look(10, {W2: row(["c"])}, ["10.0.0.2"], [W1, W2], unacked)
    assert (pool.recorded("ip-10-0-0-1"), pool.recorded("ip-10-0-0-2")) == (["d"], ["c"])


def test_of_a_worker_that_never_answered_it_is_not_known_what_it_runs_until_that_cannot_matter() -> None:
    pool = Pool("rabbitmq")
    pool.look(0)
    with pytest.raises(SourceError, match="not known"):
        pool.recorded("ip-10-0-0-1")
    pool.look(LEASE_S)
    assert pool.recorded("ip-10-0-0-1") == []
    with_solo = Pool("rabbitmq", solo_pool=True)
    with_solo.look(0)
    with_solo.look(LEASE_S)
    with pytest.raises(SourceError):
        with_solo.recorded("ip-10-0-0-1")


def test_a_process_that_is_gone_is_forgotten_when_nothing_of_it_counts_any_more() -> None:
    pool = Pool("rabbitmq")
    pool.look(0, {W1: row(["a"])}, [W1])
    pool.look(10)
    pool.look(1000)
    assert pool.roster.names == [W1]
    pool.look(LEASE_S + GONE_AFTER_S)
    assert pool.roster.names == []
