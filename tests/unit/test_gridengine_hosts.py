"""What qhost says of a host becomes one worker, in whatever states its queues are."""

from __future__ import annotations

from typing import Any, Optional

import pytest

from elastiq.errors import SourceError
from elastiq.interfaces import Worker, WorkerState
from elastiq.plugins.batch import gridengine_xml as xml
from elastiq.plugins.batch.gridengine_hosts import Host, Queue, host, worker

VALUES = {"num_proc": "4", "load_avg": "0.02", "mem_total": "7.5G"}


def made(*queues: Queue, jobs: tuple[tuple[str, str, str], ...] = (), **more: Any) -> Host:
    return Host("W1", {**VALUES, **more.pop("values", {})}, queues=queues, jobs=jobs, **more)


def of(one: Host, drained_by: Optional[str] = None) -> Worker:
    return worker(one, frozenset(), drained_by, ("h_vmem", "mem_free"), ("gpu",))


def queue_xml(name: str, used: int, slots: int, state: str) -> str:
    values = {"qtype_string": "BIP", "slots_used": used, "slots": slots, "slots_resv": 0, "state_string": state}
    inner = "".join(f"<queuevalue qname='{name}' name='{key}'>{value}</queuevalue>" for key, value in values.items())
    return f"<queue name='{name}'>{inner}</queue>"


def job_xml(number: int, role: str, task: str = "") -> str:
    values = {
        "priority": "'0.39'",
        "qinstance_name": "all.q@w1",
        "job_owner": "alice",
        "job_state": "r",
        "pe_master": role,
    }
    values.update({"taskid": task} if task else {})
    inner = "".join(f"<jobvalue jobid='{number}' name='{key}'>{value}</jobvalue>" for key, value in values.items())
    return f"<job name='{number}'>{inner}</job>"


def read(body: str) -> Host:
    """The one host of an answer, as 8.1.9 prints it."""
    document = f"<?xml version='1.0'?><qhost><host name='w1'>{body}</host></qhost>"
    (found,) = [host(row) for row in xml.elements(document, "qhost", "qhost", ("host",))]
    return found


def test_a_host_in_two_queues_is_one_with_the_jobs_of_both() -> None:
    found = read(
        "<hostvalue name='num_proc'>2</hostvalue><hostvalue name='load_avg'>1.86</hostvalue>"
        "<resourcevalue name='slots' dominance='hc'>-2.000000</resourcevalue>"
        "<resourcevalue name='mem_total' dominance='hl'>23.540G</resourcevalue>"
        + queue_xml("all.q", 4, 4, "")
        + job_xml(2, "MASTER", "1")
        + job_xml(3, "MASTER")
        + job_xml(3, "SLAVE")
        + job_xml(3, "SLAVE")
        + queue_xml("gpu.q", 2, 2, "")
        + job_xml(2, "MASTER", "2")
        + job_xml(8, "MASTER")
    )
    assert [queue.name for queue in found.queues] == ["all.q", "gpu.q"]
    assert found.jobs == (("2", "1", "alice"), ("3", "", "alice"), ("2", "2", "alice"), ("8", "", "alice"))
    assert found.consumables == {"slots"} and found.reports
    assert (of(found).state, of(found).jobs, of(found).free.cpus) == (WorkerState.BUSY, 4, 0)


def test_older_and_newer_answers_have_fewer_and_more_values() -> None:
    """Sun Grid Engine 6.2 has no sockets and cores and calls a job's queue by another name; Univa 8.6 adds values."""
    old = read(
        "<hostvalue name='arch_string'>lx24-x86</hostvalue><hostvalue name='num_proc'>1</hostvalue>"
        "<hostvalue name='load_avg'>0.03</hostvalue><hostvalue name='mem_total'>1.7G</hostvalue>"
        + queue_xml("all.q", 1, 1, "")
        + "<job name='5'><jobvalue jobid='5' name='queue_name'>all.q@w1</jobvalue></job>"
    )
    assert old.reports and old.jobs == (("5", "", ""),) and of(old).total.memory_mb == 1.7 * 1024
    new = read(
        "<hostvalue name='num_proc'>4</hostvalue><hostvalue name='load_avg'>0.5</hostvalue>"
        "<hostvalue name='m_gpu'>0</hostvalue><unheard-of name='x'><y/></unheard-of>" + queue_xml("all.q", 0, 4, "")
    )
    assert of(new).state is WorkerState.IDLE


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("", WorkerState.IDLE), ("d", WorkerState.DRAINED), ("dE", WorkerState.DRAINED), ("dD", WorkerState.DRAINED),
        *((letters, WorkerState.OTHER) for letters in ("a", "A", "D", "E", "c", "o", "s", "S", "C", "P", "aE", "Z")),
    ],
)  # fmt: skip
def test_the_letters_of_its_queue_say_whether_it_takes_jobs(state: str, expected: WorkerState) -> None:
    found = of(made(Queue("all.q", state, 4)))
    assert found.state is expected
    assert bool(found.detail) == (expected is WorkerState.OTHER)


@pytest.mark.parametrize("state", ["", "a", "E", "o", "s", "D", "Z"])
def test_with_a_job_it_is_busy_whatever_its_queue_says(state: str) -> None:
    assert of(made(Queue("all.q", state, 4, 1), jobs=(("1", "", "a"),))).state is WorkerState.BUSY


def test_a_job_without_a_slot_in_use_and_a_slot_in_use_without_a_job_are_both_something_that_runs() -> None:
    without_slot = of(made(Queue("all.q", "", 4, 0), jobs=(("1", "", "a"),)))
    without_job = of(made(Queue("all.q", "", 4, 3)))
    assert (without_slot.state, without_slot.jobs) == (WorkerState.BUSY, 1)
    assert (without_job.state, without_job.jobs) == (WorkerState.BUSY, 1)


def test_it_is_drained_only_if_every_queue_of_it_is_disabled() -> None:
    assert of(made(Queue("a.q", "d", 4), Queue("b.q", "", 4))).state is WorkerState.IDLE
    assert of(made(Queue("a.q", "d", 4), Queue("b.q", "E", 4))).state is WorkerState.OTHER
    assert of(made(Queue("a.q", "d", 4), Queue("b.q", "d", 4))).state is WorkerState.DRAINED
    assert of(made(Queue("a.q", "d", 4, 1), Queue("b.q", "d", 4))).state is WorkerState.DRAINING


def test_who_has_disabled_it_is_said_only_where_it_is_disabled() -> None:
    assert of(made(Queue("all.q", "d", 4)), "elastiq 0123").drained_by == "elastiq 0123"
    assert of(made(Queue("all.q", "d", 4))).drained_by == "qmod -d"
    assert of(made(Queue("all.q", "", 4)), "elastiq 0123").drained_by is None


@pytest.mark.parametrize(
    ("values", "states", "reports"),
    [
        ({}, ("",), True),
        ({"load_avg": "-"}, ("u",), False),  # powered off, or not booted yet
        ({"load_avg": "-"}, ("",), False),
        ({}, ("au",), False),
        ({}, ("dau", "u"), False),
        ({}, ("u", ""), True),
        ({}, (), True),
    ],
)
def test_a_host_that_is_not_heard_from_is_no_worker(
    values: dict[str, str], states: tuple[str, ...], reports: bool
) -> None:
    assert made(*(Queue("q", state, 4) for state in states), values=values).reports == reports


@pytest.mark.parametrize(
    ("slots", "processors", "resources", "total"),
    [
        ((4,), "8", {}, 4),
        ((8,), "4", {}, 8),  # an administrator's wish
        ((4, 2), "4", {}, 4),
        ((4, 4), "8", {}, 8),
        ((4, 4), "8", {"slots": "6.000000"}, 6),
        ((4,), "-", {}, 4),
        ((), "4", {}, 0),
    ],
)
def test_its_cpus_are_slots(slots: tuple[int, ...], processors: str, resources: dict[str, str], total: float) -> None:
    queues = [Queue(f"q{number}", "", size) for number, size in enumerate(slots)]
    found = of(made(*queues, values={"num_proc": processors}, resources=resources, consumables=frozenset(resources)))
    assert found.total.cpus == total


def test_what_is_free_is_what_open_queues_and_consumables_leave() -> None:
    resources = {
        "slots": "3.000000",
        "h_vmem": "2.000G",
        "mem_free": "5.000G",
        "gpu": "1.000000",
        "mem_total": "7.500G",
    }
    found = of(
        made(Queue("a.q", "", 4, 1), Queue("b.q", "d", 4), resources=resources, consumables=frozenset({"slots"}),
             jobs=(("1", "", "a"),))
    )  # fmt: skip
    assert (found.total.cpus, found.free.cpus) == (4, 3)
    assert (found.total.memory_mb, found.free.memory_mb) == (7680, 2048)
    assert (found.total.gpus, found.free.gpus) == (None, 1), "how many the job has is not said"


def test_an_idle_host_has_all_of_its_memory_and_gpus_free() -> None:
    found = of(made(Queue("all.q", "", 4), resources={"gpu": "2.000000", "mem_total": "8.000G", "h_vmem": "INFINITY"}))
    assert (found.free.memory_mb, found.total.memory_mb, found.total.gpus, found.free.gpus) == (8192, 8192, 2, 2)


def test_an_answer_that_was_cut_off_is_unknown() -> None:
    with pytest.raises(SourceError):
        list(xml.elements("<qhost><host name='w1'><queue name='all.q'>", "qhost", "qhost", ("host",)))
