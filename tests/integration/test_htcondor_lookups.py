"""How single jobs stand, and what check advises, over fake commands of HTCondor."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from elastiq import command
from elastiq.interfaces import SourceError
from tests.integration.fake_htcondor import FakePool
from tests.integration.test_htcondor_commands import change, plugin

SINCE = 1_790_000_000
WHEN = r"since 2026-09-2\d \d\d:\d\d:\d\d"


@pytest.fixture
def pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakePool:
    pool = FakePool(tmp_path / "pool")
    monkeypatch.setenv("PATH", str(pool.bin), prepend=":")
    command.reset()
    return pool


def find(job: str, **values: Any) -> tuple[str, str]:
    return plugin(**values).find_job(job)


# --------------------------------------------------------------------------- one job


def test_an_idle_job_has_the_key_of_its_group(pool: FakePool) -> None:
    pool.submit(
        3, RequestCpus=4, EnteredCurrentStatus=SINCE, ElastiqPool="GPU", RequestMemory="/Expr(RequestCpus * 9)/"
    )
    pool.submit(2)
    first, second = plugin().jobs().groups
    key, stands = find("1.2")
    assert key == first.key and first.pools == ("gpu",) and first.request.memory_mb == 36
    assert re.fullmatch(rf"job 1\.2 of head is idle {WHEN}; the negotiator has not considered it yet", stands)
    assert find("2.1")[0] == second.key


def test_a_cluster_stands_for_its_first_job_that_is_still_there(pool: FakePool) -> None:
    pool.submit(3)
    del pool.load()["jobs"][0]
    pool.save()
    assert find(" 1 ")[1].startswith("job 1.1 of head is idle")
    asked = pool.calls("condor_q")
    assert [argv[argv.index("-attributes") + 1] for argv in asked if "-attributes" in argv] == ["ClusterId,ProcId"]


@pytest.mark.parametrize(
    ("status", "ad", "stands"),
    [
        (2, {"host": "slot1_1@w1"}, f"runs on w1 {WHEN}"),
        (6, {"host": "slot1_1@w1"}, f"transfers its output on w1 {WHEN}"),
        (7, {"host": "slot1_1@w1"}, f"is suspended on w1 {WHEN}"),
        (3, {}, f"is being removed {WHEN}"),
        (4, {}, f"is completed {WHEN}"),
        (5, {"HoldReason": "Error from\n slot1@w1: no  disk"}, f"is held {WHEN}: Error from slot1@w1: no disk"),
        (5, {}, f"is held {WHEN}: no reason given"),
        (1, {"JobUniverse": 7}, f"is idle {WHEN}, but runs on no worker: it is of the scheduler universe"),
        (1, {"JobUniverse": 9}, f"is idle {WHEN}, but runs on no worker: it is of the grid universe"),
        (1, {"JobUniverse": 99}, rf"is idle {WHEN}, but of a universe \(99\) that elastiq does not know"),
        (1, {"RoutedToJobId": "77.0"}, rf"is idle {WHEN}, but was routed: job 77\.0 is it now"),
        (0, {}, f"has the JobStatus 0, which says nothing to elastiq {WHEN}"),
    ],
)
def test_a_job_that_waits_for_no_machine_has_no_key(
    pool: FakePool, status: int, ad: dict[str, Any], stands: str
) -> None:
    pool.submit(1, status=status, EnteredCurrentStatus=SINCE, **ad)
    key, said = find("1.0")
    assert key == ""
    assert re.fullmatch(f"job 1\\.0 of head {stands}", said), said


@pytest.mark.parametrize(
    ("ad", "stands"),
    [
        ({"LastRejMatchReason": "no match found "}, 'is idle; the negotiator\'s last word: "no match found"'),
        ({"Requirements": False}, "is idle; no worker can run it: its Requirements are false; the"),
        ({"ElastiqPool": 5}, "is idle; no worker can run it: its ElastiqPool (5) is no text in quotes"),
        ({"JobUniverse": 11, "MaxHosts": 3}, "is idle, for 3 machines at once; the"),
        ({"NumJobStarts": 2}, "is idle, after 2 starts; the"),
        ({"NumJobStarts": 1}, "is idle, after 1 start; the"),
    ],
)
def test_an_idle_job_says_what_keeps_it(pool: FakePool, ad: dict[str, Any], stands: str) -> None:
    pool.submit(1, **ad)
    key, said = find("1.0")
    assert key == plugin().jobs().groups[0].key
    assert said.startswith(f"job 1.0 of head {stands}"), said


def test_a_job_that_the_constraint_leaves_out_is_idle_and_not_counted(pool: FakePool) -> None:
    pool.submit(1, Owner="alice")
    constraint = 'Owner == "bob"'
    assert find("1.0", constraint=constraint)[0] == ""
    assert "constraint in [htcondor] leaves it out" in find("1.0", constraint=constraint)[1]
    assert find("1.0", constraint='Owner == "alice"')[0] != ""


@pytest.mark.parametrize("job", ["", "x", "1.", ".1", "1.0.0", "-1", "1 || true", "1.0@", "1.0@a b", "1" * 20])
def test_what_is_no_job_id_is_refused_and_asked_of_nobody(pool: FakePool, job: str) -> None:
    with pytest.raises(SourceError, match=r"is no job of HTCondor: say CLUSTER\.PROC"):
        find(job)
    assert pool.calls("condor_q") == []


@pytest.mark.parametrize("job", ["2.0", "1.1", "2", "0"])
def test_a_job_that_is_in_no_queue_is_an_error_that_says_where_to_look(pool: FakePool, job: str) -> None:
    pool.submit(1)
    with pytest.raises(SourceError, match=f"no queue holds job {job}: it ended .*condor_history"):
        find(job)


def test_a_factory_is_no_job(pool: FakePool) -> None:
    pool.submit(1)
    del pool.load()["jobs"][0]["ad"]["ProcId"]
    pool.save()
    for job in ("1", "1.0"):
        with pytest.raises(SourceError, match="no queue holds"):
            find(job)


def test_a_number_in_two_queues_needs_the_name_of_one(pool: FakePool) -> None:
    change(pool, schedds=["head", "two"])
    pool.submit(1)
    pool.submit(1, schedd="two", status=5, HoldReason="mine")
    pool.load()["jobs"][1]["ad"]["ClusterId"] = 1
    pool.save()
    for job in ("1.0", "1"):
        with pytest.raises(SourceError, match=f"more than one queue: say {job}@head or {job}@two"):
            find(job)
    assert find("1.0@two")[1] == "job 1.0 of two is held: mine"
    assert find("1@head")[1].startswith("job 1.0 of head is idle")
    with pytest.raises(SourceError, match="schedd three: condor_q failed"):
        find("1.0@three")


def test_a_job_that_a_silent_schedd_may_have_is_unknown_and_one_that_was_found_is_not(pool: FakePool) -> None:
    change(pool, schedds=["head", "two"], dead=["two"])
    pool.submit(1)
    assert find("1.0")[0]
    with pytest.raises(
        SourceError, match=r"2\.0 was not found, but not everybody answered: schedd two: condor_q failed"
    ):
        find("2.0")


@pytest.mark.parametrize("how", ["fail", "fail-with-rows", "garble"])
def test_a_job_that_cannot_be_looked_up_is_an_error(pool: FakePool, how: str) -> None:
    pool.submit(1)
    pool.once("find_job", how)
    with pytest.raises(SourceError, match="not everybody answered"):
        find("1.0")


# --------------------------------------------------------------------------- checks


def said(what: str, **values: Any) -> tuple[str, str]:
    (found,) = [check for check in plugin(**values).checks() if check.name == f"htcondor {what}"]
    return found.level, found.message


def configured(pool: FakePool, rank: str) -> None:
    change(pool, configuration={"NEGOTIATOR_PRE_JOB_RANK": rank})


# as a 23.9 negotiator says it
DEFAULT_RANK = "(10000000 * My.Rank) + (1000000 * (RemoteOwner =?= UNDEFINED)) - (100000 * Cpus) - Memory"


@pytest.mark.parametrize("rank", [DEFAULT_RANK, "Not defined"])
def test_check_advises_to_fill_the_oldest_machine_first(pool: FakePool, rank: str) -> None:
    configured(pool, rank)
    level, message = said("packing")
    assert level == "warning"
    assert "NEGOTIATOR_PRE_JOB_RANK = 1.0e13 * MY.Rank" in message and message.count("DaemonStartTime") == 1
    configured(pool, message.partition("NEGOTIATOR_PRE_JOB_RANK = ")[2].partition(" (see")[0])
    assert said("packing") == ("ok", "the negotiator fills the oldest machines first (NEGOTIATOR_PRE_JOB_RANK)")


def test_an_order_of_the_administrators_own_is_left_to_him(pool: FakePool) -> None:
    configured(pool, "Mips * 2")
    assert said("packing") == ("ok", "the negotiator has a NEGOTIATOR_PRE_JOB_RANK of its own: Mips * 2")


def test_a_negotiator_that_does_not_tell_its_configuration_is_no_fault(pool: FakePool) -> None:
    change(pool, configuration=None)
    level, message = said("packing")
    assert level == "ok" and "does not tell its NEGOTIATOR_PRE_JOB_RANK: Can't send end of message" in message
    (pool.bin / "condor_config_val").unlink()
    level, message = said("packing")
    assert level == "ok" and "is not known" in message


def worker(pool: FakePool, **ad: Any) -> tuple[str, str]:
    pool.add_worker("w1", "10.0.0.1")
    pool.load()["workers"]["w1"]["ad"] = ad
    pool.save()
    return said("workers' policy")


def test_workers_that_start_nothing_or_evict_for_a_rank_are_told_with_the_line_to_set(pool: FakePool) -> None:
    assert said("workers' policy") == ("ok", "no worker is there to look at")
    assert worker(pool, Start=True, Rank=0.0) == ("ok", "START and RANK of 1 worker are in order")
    level, message = worker(pool, Start=False)
    assert level == "warning" and "START is false on w1" in message and "START = True" in message
    level, message = worker(pool, Start="/Expr(TARGET.X > 1)/", Rank="/Expr(TARGET.RequestCpus)/")
    assert level == "warning" and "RANK on w1" in message and "RANK = 0" in message
    assert worker(pool, Rank='/Expr(Scheduler is "DedicatedScheduler@head")/')[0] == "ok"
    worker(pool, Start=False)
    pool.load()["workers"]["w2"] = {**pool.state["workers"]["w1"], "address": "10.0.0.2"}
    pool.save()
    assert "START is false on w1 and 1 more" in said("workers' policy")[1]


def test_parallel_jobs_without_a_dedicated_scheduler_are_told(pool: FakePool) -> None:
    pool.submit(2, JobUniverse=11, MaxHosts=3)
    level, message = worker(pool, Start=True)
    assert level == "warning" and message.startswith("2 parallel jobs can start nowhere")
    assert worker(pool, Start=True, DedicatedScheduler="DedicatedScheduler@head")[0] == "ok"


def test_jobs_to_come_from_a_factory_are_told(pool: FakePool) -> None:
    pool.submit(2)
    assert said("queue") == ("ok", "shows 2 jobs of all users, waiting or running")
    change(pool, schedd_ad={"JobsUnmaterialized": 18})
    level, message = said("queue")
    assert level == "ok" and "; 18 more are to be made by late materialisation" in message
