"""Tasks at workers, in queues and in between: what they make of the demand."""

from __future__ import annotations

from typing import Any, Sequence

import pytest

from elastiq.interfaces import JobGroup
from elastiq.plugins.batch import celery_tasks as tasks
from elastiq.plugins.batch.celery_options import task_queue

CELERY = ("celery", "celery", "celery")  # name, exchange, routing key
QUEUES = [task_queue("celery"), task_queue("big cpus=4 pools=large")]


def task(number: str, exchange: str = "", key: str = "celery") -> list[Any]:
    return [number, "app.work", exchange, key, False]


def process(queues: Sequence[Sequence[str]] = (CELERY,), **states: Any) -> dict[str, Any]:
    return {"queues": queues, "scheduled": [], "reserved": [], "active": [], **states}


def look(*processes: Any, depths: Any = None, unacked: Any = ()) -> dict[str, Any]:
    queues = {"celery": [0, None, ""], "big": [0, None, ""], **(depths or {})}
    return {"processes": {f"w{n}": one for n, one in enumerate(processes)}, "queues": queues, "unacked": unacked}


def groups(seen: Any, kept: bool = True, visible_s: float = 100.0) -> dict[tuple[str, str], JobGroup]:
    found = tasks.jobs(seen, QUEUES, visible_s, kept)
    assert found.complete
    assert len({group.key for group in found.groups}) == len(found.groups)
    return {(group.requirements, group.not_eligible.partition(":")[0]): group for group in found.groups}


def test_a_queue_is_a_group_with_its_size_pools_and_oldest_task() -> None:
    found = groups(look(depths={"celery": [3, None, "id-1"], "big": [2, 1, ""]}))
    assert [(one.waiting, one.running, one.request.cpus, one.pools, one.sample_job) for one in found.values()] == [
        (3, 0, 1.0, (), "id-1"),
        (2, 0, 4.0, ("large",), ""),
    ]


def test_a_queue_that_is_not_there_is_empty() -> None:
    assert groups(look(depths={"celery": [None, 0, ""]})) == {}


def test_what_a_worker_has_prefetched_waits_but_is_no_demand() -> None:
    seen = look(process(reserved=[task("a"), task("b")], scheduled=[task("c")], active=[task("d")]),
                depths={"celery": [5, None, "x"]})  # fmt: skip
    found = groups(seen)
    assert (found["queue celery", ""].waiting, found["queue celery", ""].running) == (5, 1)
    assert found["queue celery", "prefetched by a worker that is busy"].waiting == 3
    asked = groups(seen, kept=False)
    assert asked["queue celery", ""].waiting == 8 and len(asked) == 1


def test_the_key_of_a_queue_does_not_change_with_what_else_is_seen_of_it() -> None:
    alone = groups(look(depths={"celery": [5, None, "x"]}))
    beside = groups(look(process(reserved=[task("a")]), depths={"celery": [5, None, "x"]}))
    running = groups(look(process(reserved=[task("a")], active=[task("b")])))
    assert alone["queue celery", ""].key == beside["queue celery", ""].key == running["queue celery", ""].key


def test_a_task_that_moved_on_while_it_was_asked_for_counts_once() -> None:
    moved = process(scheduled=[task("a")], reserved=[task("a"), task("b")], active=[task("b")])
    assert sorted((one.id, one.state) for one in tasks.tasks(moved)) == [("a", "reserved"), ("b", "active")]


def test_what_redis_delivered_to_nobody_who_answers_is_demand_once_it_is_overdue() -> None:
    unacked = [
        ["a", "app.work", "", "celery", 99.0],
        ["b", "app.work", "", "celery", 100.0],
        ["c", None, "", "big", 5.0],
    ]
    found = groups(look(process(active=[task("z")]), unacked=[*unacked, ["z", "app.work", "", "celery", 400.0]]))
    assert found["queue celery", ""].waiting == 1
    why = "delivered, but no worker that answers has them"
    assert (found["queue celery", why].waiting, found["queue big", why].waiting) == (1, 1)
    assert "100 s" in found["queue big", why].not_eligible


@pytest.mark.parametrize(
    ("exchange", "key", "queues", "queue"),
    [
        ("", "celery", [CELERY], "celery"),
        ("celery", "celery", [CELERY], "celery"),
        ("topics", "work.#", [CELERY, ("big", "topics", "work.#")], "big"),
        ("topics", "work.a", [("big", "topics", "work.#")], "big"),  # it consumes nothing else
        ("topics", "work.a", [CELERY, ("big", "topics", "work.#")], ""),
        ("celery", "celery", [("elastiq.0123.celery", "elastiq.0123", "elastiq.0123.celery")], "celery"),
        (None, None, [CELERY], ""),
    ],
)
def test_the_queue_of_a_task_is_found_by_how_it_came(exchange: Any, key: Any, queues: Any, queue: str) -> None:
    assert tasks.queue_of(exchange, key, queues) == queue


def test_a_mark_is_told_from_a_queue() -> None:
    assert tasks.mark_of("elastiq.0123.my.queue") == "0123"
    assert tasks.mark_of("elastiq") == tasks.mark_of("my.elastiq.queue") == tasks.mark_of("celery") == ""
    assert tasks.consumed([("b",), ("elastiq.0123.a",), ("a",)]) == ("a", "b")
