"""Rows of qstat become demand, with all the ways in which Grid Engine writes a job down."""

from __future__ import annotations

from typing import Any, Optional

import pytest

from elastiq.errors import SourceError
from elastiq.plugins.batch import gridengine_jobs as queue
from elastiq.plugins.batch import gridengine_xml as xml
from elastiq.plugins.batch.gridengine_jobs import Complex, Job, Site

SITE = Site(
    memory=("h_vmem", "mem_free", "vmem", "job_mem", "host_mem"),
    gpus=("gpu",),
    complexes={
        "arch": Complex("STRING", "==", "NO"),
        "h_vmem": Complex("MEMORY", "<=", "NO"),
        "mem_free": Complex("MEMORY", "<=", "NO"),
        "vmem": Complex("MEMORY", "<=", "YES"),
        "job_mem": Complex("MEMORY", "<=", "JOB"),
        "host_mem": Complex("MEMORY", "<=", "HOST"),  # of Univa 8.6: of each host, however many slots
        "gpu": Complex("INT", "<=", "YES"),
        "num_proc": Complex("INT", "==", "NO"),
    },
    rules={"smp": "$pe_slots", "mpi": "$fill_up", "mpirr": "$round_robin", "two": "2", "smp-mpi": "$fill_up"},
)


def row(body: str, state: str = "pending") -> str:
    return f'<job_list state="{state}"><JB_job_number>7</JB_job_number><state>qw</state>{body}</job_list>'


def answer(*rows: str) -> str:
    """As 8.1.9 prints it: the rows of what waits in a second element of the root's own name."""
    return (
        f"<?xml version='1.0'?>\n<job_info><queue_info>\n</queue_info><job_info>{''.join(rows)}</job_info></job_info>"
    )


def jobs(*rows: str) -> list[Job]:
    return [queue.job(one) for one in xml.elements(answer(*rows), "qstat", "job_info", ("job_list",))]


def one_group(job: Job, **more: Any) -> Any:
    (group,) = queue.groups([job], SITE, **more)
    return group


# --------------------------------------------------------------------------- the answer as a whole


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "error: commlib error: got select error (Connection refused)",
        "<html><body>Please log in</body></html>",
        answer(row(""))[:-20],
        answer(row("")) + "<job_info></job_info>",
        "job-ID  prior   name       user         state\n",
    ],
)
def test_what_is_no_whole_document_of_qstat_is_unknown(text: str) -> None:
    with pytest.raises(SourceError) as caught:
        list(xml.elements(text, "qstat", "job_info", ("job_list",)))
    assert "qstat" in str(caught.value) and "\n" not in str(caught.value)


def test_an_empty_queue_is_a_document_without_rows() -> None:
    assert jobs() == []


def test_a_long_answer_is_cut_nowhere() -> None:
    many = [row(f"<slots>1</slots><JB_name>{'x' * 3000}</JB_name>") for _ in range(200)]
    assert len(jobs(*many)) == 200


@pytest.mark.parametrize("name", ["a&amp;b %lt;c&gt; \u00e9", "tab\there", "bell\x07", "\ufffe", "\ufffd"])
def test_no_name_of_a_job_spoils_the_answer(name: str) -> None:
    (job,) = jobs(row(f"<JB_name>{name}</JB_name><full_job_name>{name}</full_job_name><slots>1</slots>"))
    assert job.waits


def test_a_row_is_read_with_what_it_asks_for() -> None:
    (job,) = jobs(
        row(
            "<slots>3</slots><tasks>2,4-10:1</tasks><full_job_name>sleep</full_job_name>"
            '<requested_pe name="smp">3-6</requested_pe>'
            '<hard_request name="mem_free" resource_contribution="0.000000">2G</hard_request>'
            '<hard_request name="h_rt" resource_contribution="0.000000">3600</hard_request>'
            '<soft_request name="arch">foo</soft_request>'
            "<hard_req_queue>gpu.q</hard_req_queue><hard_req_queue>all.q@@allhosts</hard_req_queue>"
            "<soft_req_queue>fast.q</soft_req_queue><binding>NONE</binding>"
        )
    )
    assert (job.slots, job.count, job.pe, job.pe_range) == (3, 8, "smp", "3-6")
    assert job.requests == {"mem_free": "2G"}, "a limit of time is nothing that a machine has"
    assert job.queues == ("all.q@@allhosts", "gpu.q")


# --------------------------------------------------------------------------- who waits


@pytest.mark.parametrize(
    ("state", "waits"),
    [
        ("qw", True), ("Rqw", True), ("Rq", True), ("hqw", False), ("hRwq", False), ("Eqw", False), ("EhRqw", False),
        ("dqw", False), ("hr", False), ("Zqw", False), ("", False), ("t", False),
    ],
)  # fmt: skip
def test_only_what_waits_for_a_machine_is_demand(state: str, waits: bool) -> None:
    assert Job("1", state, pending=True).waits == waits
    assert not Job("1", state, pending=False).waits


@pytest.mark.parametrize(
    ("tasks", "count"),
    [("", 1), ("3", 1), ("1-100:1", 100), ("2,4-10:1", 8), ("1,3,5-9:2", 5), ("2-10:2", 5), ("1-3:1 ...", 1)],
)
def test_the_tasks_of_an_array_that_wait_are_one_row(tasks: str, count: int) -> None:
    assert one_group(Job("1", "qw", True, tasks=tasks)).waiting == count


def test_of_an_array_only_so_many_wait_as_may_start_beside_those_that_run() -> None:
    rows = [Job("1", "r", False, tasks="1"), Job("1", "r", False, tasks="2"), Job("1", "qw", True, tasks="3-10:1")]
    (group,) = queue.groups(rows, SITE, at_once={"1": 5})
    assert (group.waiting, group.running) == (3, 2)
    (group,) = queue.groups(rows, SITE, at_once={"1": 2})
    assert (group.waiting, group.running) == (0, 2)
    (group,) = queue.groups(rows, SITE)
    assert group.waiting == 8


def test_the_limit_of_an_array_is_one_for_all_its_rows() -> None:
    rows = [Job("1", "qw", True, tasks="1-4:1"), Job("1", "Rq", True, tasks="7")]
    assert sum(group.waiting for group in queue.groups(rows, SITE)) == 5
    assert sum(group.waiting for group in queue.groups(rows, SITE, at_once={"1": 2})) == 2


def test_a_job_whose_time_is_to_come_is_no_demand() -> None:
    assert queue.groups([Job("1", "qw", True)], SITE, later={"1"}) == ()


# --------------------------------------------------------------------------- what it asks for


@pytest.mark.parametrize(
    ("pe", "pe_range", "slots", "cpus", "nodes"),
    [
        ("", "", 1, 1, 1),
        ("smp", "3", 3, 3, 1),
        ("mpi", "8", 8, 1, 8),
        ("mpirr", "8", 8, 1, 8),
        ("two", "6", 6, 2, 3),
        ("two", "1", 1, 1, 1),
        ("mpi", "4-16", 4, 1, 4),
        ("smp", "2-4,8", 2, 2, 1),
        ("smp", "-8", 1, 1, 1),
        ("smp", "3-", 3, 3, 1),
        ("smp*", "3", 3, 1, 3),  # on one host or across several: what asks less
        ("unheard-of", "3", 3, 3, 1),
    ],
)
def test_slots_are_on_one_machine_or_across_several_by_the_allocation_rule(
    pe: str, pe_range: str, slots: int, cpus: float, nodes: int
) -> None:
    group = one_group(Job("1", "qw", True, slots=slots, pe=pe, pe_range=pe_range))
    assert (group.request.cpus, group.nodes, group.waiting) == (cpus, nodes, 1)


@pytest.mark.parametrize(
    ("requests", "memory_mb"),
    [
        ({"mem_free": "2G"}, 2048),
        ({"h_vmem": "1G"}, 4096),  # a limit of the process: of each slot, whether or not it is consumable
        ({"vmem": "1G"}, 4096),
        ({"job_mem": "3G"}, 3072),
        ({"host_mem": "3G"}, 3072),
        ({"mem_free": "2G", "vmem": "1024M"}, 4096),
        ({"mem_free": "2000000000"}, 2000000000 / 2**20),
        ({"mem_free": "2g"}, 2000**3 / 2**20 / 4),
        ({"mem_free": "1.5G"}, 1536),
        ({"mem_free": "INFINITY"}, None),
        ({"mem_total": "64G"}, None),
        ({}, None),
    ],
)
def test_memory_is_what_the_named_complexes_say_on_one_machine(
    requests: dict[str, str], memory_mb: Optional[float]
) -> None:
    group = one_group(Job("1", "qw", True, slots=4, pe="smp", pe_range="4", requests=requests))
    assert group.request.memory_mb == (memory_mb and pytest.approx(memory_mb))


def test_across_several_machines_each_has_the_memory_of_its_slots_alone() -> None:
    group = one_group(Job("1", "qw", True, slots=8, pe="mpi", pe_range="8", requests={"vmem": "1G", "gpu": "1"}))
    assert (group.request.memory_mb, group.request.gpus, group.nodes) == (1024, 1, 8)


def test_what_else_a_job_asks_for_is_part_of_its_shape_and_said_in_its_words() -> None:
    plain, special = (
        Job("1", "qw", True),
        Job("2", "qw", True, requests={"arch": "lx*", "num_proc": "8"}, queues=("g.q",)),
    )
    first, second = queue.groups([plain, special], SITE)
    assert second.ad == ("arch == lx*", "num_proc == 8", "queues = g.q")
    assert first.key != second.key and "arch == lx*" in second.requirements


@pytest.mark.parametrize(("host", "eligible"), [("node07", False), ("ip-*", True), ("a|b", True), ("!node07", True)])
def test_a_job_that_names_one_host_waits_for_no_new_machine(host: str, eligible: bool) -> None:
    assert (one_group(Job("1", "qw", True, requests={"hostname": host})).not_eligible == "") == eligible


def test_a_thousand_jobs_with_other_names_and_run_times_are_one_group() -> None:
    rows = [
        row(f'<slots>1</slots><JB_name>j{n}</JB_name><hard_request name="h_rt">{n}</hard_request>') for n in range(1000)
    ]
    (group,) = queue.groups(jobs(*rows), SITE)
    assert (group.waiting, group.sample_job) == (1000, "7")


# --------------------------------------------------------------------------- numbers


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1K", 1024), ("1k", 1000), ("23.540G", 23.54 * 2**30), ("-2.000000", -2), ("0.0", 0), ("1e3", 1000),
        ("-", None), ("", None), (None, None), ("INFINITY", None), ("1:0:0", None), ("1GB", None),
    ],
)  # fmt: skip
def test_numbers_have_grid_engines_multipliers(text: Optional[str], value: Optional[float]) -> None:
    assert xml.number(text) == value


def test_lines_of_a_configuration_may_go_on_after_a_backslash() -> None:
    text = "group_name @allhosts\nhostlist ip-10-0-0-1 \\\n         ip-10-0-0-2\n# a comment\nempty\n"
    found = xml.configuration(text)
    assert found == {"group_name": "@allhosts", "hostlist": "ip-10-0-0-1 ip-10-0-0-2", "empty": ""}
