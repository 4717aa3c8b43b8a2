"""What HTCondor's jobs ask for beyond plain numbers: expressions, pools, several machines, limits."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, Optional

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastiq.interfaces import JobGroup, Resources
from elastiq.planner import plan
from elastiq.plugins.batch import htcondor_expressions, htcondor_jobs, htcondor_own_ads
from tests.unit.test_htcondor_ads import DEFAULT_MEMORY, expr, groups, job, one
from tests.unit.values import a_pool, situation, some_settings

GB = 1024


def memory(text: str, **attributes: Any) -> Optional[float]:
    return one(RequestMemory=expr(text), **attributes).request.memory_mb


# --------------------------------------------------------------------------- expressions

UNCLEAR = object()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        # What classad_eval of 23.9 says; UNCLEAR where it says error, or where only it could tell.
        ("1 =?= 1.0", False),
        ('"a" == "A"', True),
        ('"a" =?= "A"', False),
        ('"a" < "B"', True),
        ("true+1", 2),
        ("true == 1", True),
        ("undefined+1", None),
        ("undefined < 3", None),
        ("undefined == undefined", None),
        ("undefined is undefined", True),
        ("1 isnt 2", True),
        ("!undefined", None),
        ("!3", False),
        ("undefined && false", False),
        ("undefined && 3", None),
        ("undefined || true", True),
        ("1 || error", True),
        ("true && 3", True),
        ("undefined ?: 4", 4),
        ("false ?: 5", False),
        ("0.5 ? 1 : 2", 1),
        ("undefined ? 1 : 2", None),
        ("ifThenElse(undefined, 1, 2)", None),
        ("ifThenElse(false, 1/0, 7)", 7),
        ("int(3.9)", 3),
        ("int(-3.9)", -3),
        ("int(true)", 1),
        ("int(undefined)", None),
        ("round(2.5)", 2),
        ("round(-2.5)", -2),
        ("round(3.5)", 4),
        ("floor(2.7)", 2),
        ("ceiling(3.2)", 4),
        ("real(3)", 3.0),
        ("max({3, 2.0})", 3),
        ("max({1, 2, undefined})", 2),
        ("max({})", None),
        ("min({true, 2})", 1),
        ("quantize(130, {128})", 256),
        ("quantize(3.2, {1, 2, 4})", 4),
        ("quantize(7, {2, 4})", 8),
        ("quantize(3.2, 2)", 4),
        ("quantize(0, 128)", 0),
        ("isUndefined(1)", False),
        ("isUndefined(Nothing)", True),
        ("-7 % 3", -1),
        ("-7 / 2", -3),
        ("7 / 2", 3),
        ("1.0 / 2", 0.5),
        ("1e3", 1000),
        ("4 - -3", 7),
        ("5 - 3 - 1", 1),
        ("2 + 3 * 4", 14),
        ("(2.5 + 1) * 2", 7),
        ("1 < 2 < 3", True),
        ("1 == 1 && 2 > 1 || false", True),
        ("!true || true", True),
        ("1/0", UNCLEAR),
        ("7.5 % 2", UNCLEAR),
        ('1 < "a"', UNCLEAR),
        ('"1" + "2"', UNCLEAR),
        ('"x" ? 1 : 2', UNCLEAR),
        ("max(1, 2)", UNCLEAR),
        ('max({1, "a"})', UNCLEAR),
        ("error", UNCLEAR),
        ("2K", UNCLEAR),
        ("TARGET.Memory / 2", UNCLEAR),
        ("pow(2, 3)", UNCLEAR),
        ("Owner.x", UNCLEAR),
        ("", UNCLEAR),
        ("1 +", UNCLEAR),
        ("(1", UNCLEAR),
        ("1)", UNCLEAR),
        ("1 2", UNCLEAR),
        ("{1, 2", UNCLEAR),
        ("1 @ 2", UNCLEAR),
        ("f(1", UNCLEAR),
    ],
)
def test_an_expression_is_worth_what_htcondor_says_or_unclear(text: str, value: Any) -> None:
    scope = htcondor_expressions._Scope({})
    if value is UNCLEAR:
        with pytest.raises((htcondor_expressions.Unclear, ArithmeticError)):
            scope.value(htcondor_expressions._parsed(text))
    else:
        found = scope.value(htcondor_expressions._parsed(text))
        assert found == value and isinstance(found, bool) == isinstance(value, bool)


@pytest.mark.parametrize(
    ("text", "attributes", "mb"),
    [
        ("RequestCpus * 2000", {"RequestCpus": 4}, 8000),
        ("MY.RequestCpus * 2000", {"RequestCpus": 4}, 8000),
        ("requestCPUS * 2000", {"RequestCpus": expr("2 + 2")}, 8000),
        ("ifthenelse(isUndefined(MemoryUsage), 7000, int(3 * MemoryUsage))", {}, 7000),
        ("ifThenElse(MemoryUsage =!= undefined, max({MemoryUsage * 3 / 2, 2048}), 2048)", {}, 2048),
        ("MemoryUsage ?: 4096", {}, 4096),
        ("LastHoldReasonCode is 34 ? 16384 : 4096", {}, 4096),
        ("LastHoldReasonCode is 34 ? 16384 : 4096", {"LastHoldReasonCode": 34}, 16384),
        ("quantize(2500, {1024})", {}, 3072),
        ("Unheard(1)", {}, None),
        ("TARGET.Memory / 2", {}, None),
        ("RequestMemory + 1", {}, None),  # of itself
        ("-1", {}, None),
        ('"4096"', {}, 4096),
        ("undefined", {}, None),
        ("error", {}, None),
    ],
)
def test_memory_by_an_expression_over_the_job(text: str, attributes: dict[str, Any], mb: Optional[float]) -> None:
    assert memory(text, **attributes) == mb


@pytest.mark.parametrize(
    ("text", "attributes", "mb"),
    [
        (DEFAULT_MEMORY, {"ImageSize": 45}, None),  # the size of a program says nothing of what it will use
        (DEFAULT_MEMORY, {"ImageSize": 45, "MemoryUsage": 800}, None),
        (DEFAULT_MEMORY, {"ImageSize": 45, "MemoryUsage": 1024}, 1024),
        (DEFAULT_MEMORY, {"ImageSize": 45, "MemoryUsage": 50_001}, 50_048),  # in HTCondor's steps of 128 MB
        (DEFAULT_MEMORY, {"ImageSize": 3 * GB * GB + 1025}, 3 * GB + 128),
        (
            DEFAULT_MEMORY,
            {"MemoryUsage": expr("((ResidentSetSize + 1023) / 1024)"), "ResidentSetSize": 4_194_304},
            4096,
        ),
        ("3 * MemoryUsage", {"MemoryUsage": 2001}, 6016),
        # by the ResidentSetSize, in KB, as newer versions and other sites have it
        ("ifThenElse(ResidentSetSize isnt undefined, ResidentSetSize / 1024, 500)", {}, 500),
    ],
)
def test_what_a_waiting_job_was_measured_to_use_counts_once_it_is_much(
    text: str, attributes: dict[str, Any], mb: Optional[float]
) -> None:
    assert memory(text, **attributes) == mb


def test_a_job_that_starts_stays_in_its_group_whatever_is_measured_of_it() -> None:
    text = "ifthenelse(isUndefined(MemoryUsage), 7000, int(3 * MemoryUsage))"
    cpus = "ifThenElse(NumJobStarts > 0, 8, 1)"
    waits = job(3, RequestMemory=expr(text), RequestCpus=expr(cpus), NumJobStarts=0)
    runs = job(2, RequestMemory=expr(text), RequestCpus=expr(cpus), JobStatus=2, NumJobStarts=1, MemoryUsage=2900)
    (group,) = groups(waits, runs)
    assert (group.waiting, group.running, group.request) == (3, 2, Resources(cpus=1, memory_mb=7000))
    was_evicted = job(1, RequestMemory=expr(text), RequestCpus=expr(cpus), NumJobStarts=1, MemoryUsage=2900)
    other = next(found for found in groups(waits, was_evicted) if found.waiting == 1)
    assert other.request == Resources(cpus=8, memory_mb=8704) and other.key != group.key


def test_a_default_request_of_running_jobs_is_that_of_waiting_ones() -> None:
    measured = {"ImageSize": 9_000_000, "MemoryUsage": 5000, "DiskUsage": 90_000_000}
    (group,) = groups(job(1, ImageSize=45, DiskUsage=45), job(1, JobStatus=2, **measured))
    assert (group.waiting, group.running, group.request) == (1, 1, Resources(cpus=1))


@pytest.mark.parametrize(
    ("value", "attributes", "mb"),
    [
        (expr("DiskUsage"), {"DiskUsage": 45}, None),
        (expr("DiskUsage"), {"DiskUsage": 50 * GB * GB + 1}, 51 * GB),  # input files, before the first start
        (expr("MAX({1024, (TransferInputSizeMB+1) * 1.25}) * 1024"), {"TransferInputSizeMB": 0}, 1024),
        (expr("MAX({1024, (TransferInputSizeMB+1) * 1.25}) * 1024"), {"TransferInputSizeMB": 7999}, 10_000),
        ("2G", {}, 2 * GB),
        ("1.5 tb", {}, 1.5 * GB * GB),
        ("512K", {}, 0.5),
    ],
)
def test_disk_by_an_expression_is_kb_too(value: Any, attributes: dict[str, Any], mb: Optional[float]) -> None:
    assert one(RequestDisk=value, **attributes).request.disk_mb == mb


@pytest.mark.parametrize(
    ("text", "mb"), [("2G", 2048), ("2 GB", 2048), ("1.5g", 1536), ("512M", 512), ("1T", GB * GB), ("2 bananas", None)]
)
def test_memory_as_text_is_read_as_condor_submit_would(text: str, mb: Optional[float]) -> None:
    assert one(RequestMemory=text).request.memory_mb == mb
    assert one(RequestCpus=text).request.cpus == 1


@pytest.mark.parametrize(
    "text", ["(" * 3000 + "1" + ")" * 3000, "-" * 3000 + "1", "1+" * 3000 + "1", "{" * 3000, "f(" * 999]
)
def test_requests_made_to_take_long_are_unsaid_in_a_moment(text: str) -> None:
    began = time.process_time()
    assert memory(text) is None
    assert time.process_time() - began < 10


def test_requests_that_refer_to_one_another_are_unsaid() -> None:
    assert one(RequestMemory=expr("Mine + 1"), Mine=expr("RequestMemory + 1")).request.memory_mb is None


@settings(max_examples=200)
@given(st.text(alphabet='ab1.5?:()+-*/%&|=!<>{}, "', max_size=30), st.sampled_from([1, 2]))
def test_any_expression_is_some_request_or_none(text: str, status: int) -> None:
    asked = one(RequestMemory=expr(text), RequestCpus=expr(text), JobStatus=status).request
    assert asked.cpus is not None and asked.cpus > 0
    assert asked.memory_mb is None or asked.memory_mb > 0


def test_twenty_thousand_measured_rows_take_a_moment() -> None:
    row = {name.lower(): value for name, value in job(1, JobStatus=2, MemoryUsage=900, ImageSize=90_000).items()}
    began = time.process_time()
    (group,) = htcondor_jobs.job_groups({"": [row] * 20_000})
    assert group.running == 20_000
    assert time.process_time() - began < 20


# --------------------------------------------------------------------------- pools


@pytest.mark.parametrize(
    ("value", "pools"),
    [
        ("gpu, bigmem", ("bigmem", "gpu")),
        ("  BigMem ,GPU,, gpu ", ("bigmem", "gpu")),
        ("gpu", ("gpu",)),
        ("", ()),
        (" , ", ()),
        (None, ()),
        (..., ()),
    ],
)
def test_a_job_names_its_pools_in_any_case_and_order(value: Any, pools: tuple[str, ...]) -> None:
    group = one(ElastiqPool=value)
    assert (group.pools, group.not_eligible) == (pools, "")


@pytest.mark.parametrize("value", [5, 2.5, True, ["gpu"], expr('strcat("g", "pu")'), expr("gpu"), {"a": 1}])
def test_a_pool_that_is_no_text_is_explained_not_guessed(value: Any) -> None:
    group = one(ElastiqPool=value)
    assert group.pools == () and group.waiting == 1
    assert group.not_eligible.startswith("its ElastiqPool (") and "NAME" in group.not_eligible
    assert "/Expr(" not in group.not_eligible


def test_the_pools_are_part_of_the_key_and_their_order_and_case_are_not() -> None:
    found = groups(job(1), job(2, ElastiqPool="a,b"), job(4, ElastiqPool="B a"), job(8, ElastiqPool="b"))
    assert sorted((group.waiting, group.pools) for group in found) == [(1, ()), (6, ("a", "b")), (8, ("b",))]
    assert len({group.key for group in found}) == 3


def test_a_pool_that_the_job_names_in_another_case_is_launched_from_and_no_other() -> None:
    wanted = replace(one(ElastiqPool="gpu", count=9), running=0)
    settings = some_settings(pools=(a_pool("plain"), a_pool("GPU")))
    made = plan(situation(wanted, settings=settings))
    assert {order.offer.pool for order in made.launches} == {"GPU"}


# --------------------------------------------------------------------------- parallel jobs


def test_a_parallel_job_needs_its_machines_at_once_and_stays_one_job() -> None:
    # As a 23.9 schedd answers: every job has MinHosts and MaxHosts.
    parallel = one(JobUniverse=11, MaxHosts=3, RequestCpus=2, count=5)
    assert (parallel.nodes, parallel.waiting, parallel.request.cpus) == (3, 5, 2)
    vanilla = one(JobUniverse=5, MaxHosts=3, RequestCpus=2)
    assert vanilla.nodes == 1 and vanilla.key != parallel.key
    assert one(JobUniverse=11, RequestCpus=2, MaxHosts=1).key == vanilla.key


@pytest.mark.parametrize("hosts", [0, -1, "3", 2.0, True, None, expr("a")])
def test_a_number_of_machines_that_is_none_is_explained(hosts: Any) -> None:
    group = one(JobUniverse=11, MaxHosts=hosts)
    assert group.nodes == 1 and group.not_eligible.startswith("its MaxHosts (")


# --------------------------------------------------------------------------- limits

LIMIT = "concurrency limit swlic reached "  # as a 23.9 negotiator leaves it with the first of the jobs


def limited(*jobs: dict[str, Any]) -> JobGroup:
    (group,) = groups(*({**one, "ConcurrencyLimits": "swlic"} for one in jobs))
    return group


RUNS = job(3, JobStatus=2, LastRejMatchReason="no match found ")


def test_jobs_that_a_concurrency_limit_holds_back_are_no_demand_all_of_them() -> None:
    group = limited(job(1, LastRejMatchReason=LIMIT), job(9), RUNS)
    assert (group.waiting, group.running) == (10, 3)
    assert group.not_eligible == "the negotiator says: concurrency limit swlic reached"


def test_the_limit_may_be_in_use_by_jobs_of_another_shape() -> None:
    waits = job(5, ConcurrencyLimits="other, SWLic:2", LastRejMatchReason="concurrency limit other, swlic reached ")
    runs = job(1, JobStatus=2, RequestCpus=7, ConcurrencyLimits="swlic:3")
    assert max(group.not_eligible for group in groups(waits, runs)).endswith("concurrency limit other, swlic reached")
    assert {group.not_eligible for group in groups(waits, {**runs, "ConcurrencyLimits": "third"})} == {""}


@pytest.mark.parametrize(
    "rows",
    [
        [RUNS, job(9)],
        [RUNS, job(1, LastRejMatchReason="no match found "), job(9)],
        [RUNS, job(1, LastRejMatchReason=LIMIT), job(1, LastRejMatchReason="no match found ")],
        [job(9), job(1, JobStatus=2, LastRejMatchReason=LIMIT)],
        [RUNS, job(9, LastRejMatchReason=5)],
        # all its machines are gone: the negotiator has none to match, and leaves what it said
        [job(1, LastRejMatchReason=LIMIT), job(9)],
    ],
)
def test_jobs_with_a_limit_that_is_not_known_to_be_reached_are_demand(rows: list[dict[str, Any]]) -> None:
    assert limited(*rows).not_eligible == ""


def test_a_job_without_a_limit_is_not_held_back_by_what_it_was_once_told() -> None:
    assert one(LastRejMatchReason=LIMIT).not_eligible == ""


def test_limits_and_accounting_groups_are_part_of_the_key_users_are_not() -> None:
    jobs: dict[str, dict[str, Any]] = {
        "plain": {},
        "limit": {"ConcurrencyLimits": "a,b:2"},
        "same limit": {"ConcurrencyLimits": "B:2, A"},
        "other limit": {"ConcurrencyLimits": "a"},
        "group": {"AcctGroup": "physics", "AccountingGroup": "physics.alice"},
        "same group": {"AcctGroup": "Physics", "AccountingGroup": "physics.bob"},
        "nobody's": {"AcctGroup": None, "ConcurrencyLimits": None, "ElastiqPool": None},
    }
    keys = {name: one(**attributes).key for name, attributes in jobs.items()}
    assert keys["limit"] == keys["same limit"] and keys["group"] == keys["same group"]
    assert keys["plain"] == keys["nobody's"]
    assert len(set(keys.values())) == 4


def test_false_requirements_stay_the_reason() -> None:
    assert "Requirements" in one(Requirements=False, ElastiqPool=5).not_eligible


# --------------------------------------------------------------------------- Requirements

# as condor_submit of 23.9 writes them, with and without a file system of its own, for one cpu and for more
WRITTEN = [
    '(TARGET.Arch == "X86_64") && (TARGET.OpSys == "LINUX") && (TARGET.Disk >= RequestDisk) && (TARGET.Memory >='
    f" RequestMemory){more} && {transfer}"
    for more in ("", " && (TARGET.Cpus >= RequestCpus)", " && (TARGET.GPUs >= RequestGPUs)")
    for transfer in (
        "(TARGET.HasFileTransfer)",
        "((TARGET.FileSystemDomain == MY.FileSystemDomain) || (TARGET.HasFileTransfer))",
    )
]


@pytest.mark.parametrize("text", WRITTEN)
def test_what_condor_submit_writes_is_known_without_reading_it_and_read_it_says_the_same(text: str) -> None:
    assert htcondor_jobs.BY_DEFAULT.fullmatch(expr(text))
    assert htcondor_own_ads.conditions_of({"requirements": expr(text)}) == ("", ())


@pytest.mark.parametrize(
    "text",
    [
        WRITTEN[0].replace("X86_64", "aarch64"),
        WRITTEN[0].replace("Disk >= RequestDisk", "Disk >= RequestMemory"),
        WRITTEN[0] + ' && (TARGET.Machine == "w1")',
        '(TARGET.Machine == "w1") && ' + WRITTEN[0],
        WRITTEN[0] + " || true",
    ],
)
def test_other_requirements_are_read(text: str) -> None:
    assert not htcondor_jobs.BY_DEFAULT.fullmatch(expr(text))
    assert one(Requirements=expr(text)).key != one(Requirements=expr(WRITTEN[0])).key
