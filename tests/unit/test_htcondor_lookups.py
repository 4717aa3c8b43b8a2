"""How one job stands, by what the queues say of it; no command runs here."""

from __future__ import annotations

import re
from typing import Any

import pytest

from elastiq.interfaces import SourceError
from elastiq.plugins.batch import htcondor_jobs
from elastiq.plugins.batch.htcondor_lookups import find_job

SINCE = 1_790_000_000
WHEN = r"since 2026-09-2\d \d\d:\d\d:\d\d"


class Queues:
    """Schedds that answer as the real ones: whole ads, or only the attributes asked for."""

    def __init__(self, *schedds: str, missing: tuple[str, ...] = ()) -> None:
        self.ads: dict[str, list[dict[str, Any]]] = {name: [] for name in schedds or ("head",)}
        self.missing = missing
        self.asked: list[tuple[str, ...]] = []

    def submit(self, number: str, schedd: str = "head", status: Any = 1, **ad: Any) -> None:
        cluster, _, proc = number.partition(".")
        job = {"ClusterId": int(cluster), "JobStatus": status, "JobUniverse": 5, "RequestCpus": 1, **ad}
        job.update({"ProcId": int(proc)} if proc else {})
        self.ads[schedd].append({name.lower(): value for name, value in job.items()})

    def __call__(self, *args: str, only: str = "") -> tuple[dict[str, list[Any]], tuple[str, ...]]:
        self.asked.append(args)
        wanted = args[args.index("-attributes") + 1].lower().split(",") if "-attributes" in args else None
        found = {}
        for name in [only] if only else self.ads:
            ads = self.ads[name]
            for attribute, value in re.findall(r'(\w+) == ("?\w+"?)', args[args.index("-constraint") + 1]):
                ads = [ad for ad in ads if f"{ad.get(attribute.lower())}" == value.strip('"')]
            found[name] = [{n: v for n, v in ad.items() if wanted is None or n in wanted} for ad in ads]
        return found, self.missing


def one(status: Any = 1, **ad: Any) -> tuple[str, str]:
    queues = Queues()
    queues.submit("1.0", status=status, **ad)
    return find_job("1.0", queues)


def test_an_idle_job_has_the_key_of_its_group() -> None:
    queues = Queues()
    asks: dict[str, Any] = {
        "RequestMemory": "/Expr(RequestCpus * 9)/",
        "ElastiqPool": "GPU",
        "EnteredCurrentStatus": SINCE,
    }
    queues.submit("1.2", **asks)
    key, stands = find_job("1.2", queues)
    grouped = {name.lower(): value for name, value in asks.items()}
    grouped.update({"jobcount": 7, "jobstatus": 1, "jobuniverse": 5, "requestcpus": 1})
    (group,) = htcondor_jobs.job_groups({"head": [grouped]})
    assert (key, group.request.memory_mb, group.pools) == (group.key, 9, ("gpu",))
    assert re.fullmatch(rf"job 1\.2 of head is idle {WHEN}; the negotiator has not considered it yet", stands)


def test_a_cluster_stands_for_its_first_job_that_is_still_there_and_is_not_read_whole() -> None:
    queues = Queues()
    for number in ("1.3", "1.1", "1.2", "2.0"):
        queues.submit(number)
    assert find_job(" 1 ", queues)[1].startswith("job 1.1 of head is idle")
    assert "ClusterId,ProcId" in queues.asked[0]
    assert queues.asked[1][-1] == "ClusterId == 1 && ProcId == 1"


@pytest.mark.parametrize(
    ("status", "ad", "stands"),
    [
        (2, {"RemoteHost": "slot1_1@W1"}, f"runs on w1 {WHEN}"),
        (6, {"LastRemoteHost": "slot1_1@w1"}, f"transfers its output on w1 {WHEN}"),
        (7, {"RemoteHost": "slot1_1@w1"}, f"is suspended on w1 {WHEN}"),
        (2, {"AllRemoteHosts": "slot1_1@w2,slot1_1@w1"}, f"runs on w1, w2 {WHEN}"),
        (2, {}, f"runs {WHEN}"),
        (3, {}, f"is being removed {WHEN}"),
        (4, {}, f"is completed {WHEN}"),
        (5, {"HoldReason": "Error from\n slot1@w1: no  disk"}, f"is held {WHEN}: Error from slot1@w1: no disk"),
        (5, {}, f"is held {WHEN}: no reason given"),
        (1, {"JobUniverse": 7}, f"is idle {WHEN}, but runs on no worker: it is of the scheduler universe"),
        (1, {"JobUniverse": 9}, f"is idle {WHEN}, but runs on no worker: it is of the grid universe"),
        (1, {"JobUniverse": 99}, rf"is idle {WHEN}, but of a universe \(99\) that elastiq does not know"),
        (1, {"RoutedToJobId": "77.0"}, rf"is idle {WHEN}, but was routed: job 77\.0 is it now"),
        (None, {}, f"has the JobStatus None, which says nothing to elastiq {WHEN}"),
        (0, {}, f"has the JobStatus 0, which says nothing to elastiq {WHEN}"),
    ],
)
def test_a_job_that_waits_for_no_machine_has_no_key(status: Any, ad: dict[str, Any], stands: str) -> None:
    key, said = one(status, EnteredCurrentStatus=SINCE, **ad)
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
def test_an_idle_job_says_what_keeps_it(ad: dict[str, Any], stands: str) -> None:
    key, said = one(**ad)
    assert key
    assert said.startswith(f"job 1.0 of head {stands}"), said


@pytest.mark.parametrize("at", [None, 0, "soon", 1e300, True, "/Expr(time())/"])
def test_a_time_that_is_none_is_left_out(at: Any) -> None:
    assert one(5, EnteredCurrentStatus=at, HoldReason="mine")[1] == "job 1.0 of head is held: mine"


def test_a_job_that_the_constraint_leaves_out_is_idle_and_not_counted() -> None:
    queues = Queues()
    queues.submit("1.0", Owner="alice")
    key, said = find_job("1.0", queues, 'Owner == "bob"')
    assert key == "" and "is idle, but not counted: constraint in [htcondor] leaves it out" in said
    assert find_job("1.0", queues, 'Owner == "alice"')[0] == find_job("1.0", queues)[0] != ""


@pytest.mark.parametrize("job", ["", "x", "1.", ".1", "1.0.0", "-1", "1 || true", "1.0@", "1.0@a b", "1" * 20])
def test_what_is_no_job_id_is_refused_and_asked_of_nobody(job: str) -> None:
    queues = Queues()
    with pytest.raises(SourceError, match=r"is no job of HTCondor: say CLUSTER\.PROC"):
        find_job(job, queues)
    assert queues.asked == []


@pytest.mark.parametrize("job", ["2.0", "1.1", "2", "0"])
def test_a_job_that_is_in_no_queue_is_an_error_that_says_where_to_look(job: str) -> None:
    queues = Queues()
    queues.submit("1.0")
    with pytest.raises(SourceError, match=f"no queue holds job {job}: it ended .*condor_history"):
        find_job(job, queues)


@pytest.mark.parametrize("job", ["1", "1.0"])
def test_a_factory_is_no_job(job: str) -> None:
    queues = Queues()
    queues.submit("1", JobMaterializeMaxIdle=50)
    with pytest.raises(SourceError, match="no queue holds"):
        find_job(job, queues)


@pytest.mark.parametrize("job", ["1", "1.0"])
def test_a_number_in_two_queues_needs_the_name_of_one(job: str) -> None:
    queues = Queues("head", "two")
    queues.submit("1.0")
    queues.submit("1.0", "two", 5, HoldReason="mine")
    with pytest.raises(SourceError, match=f"more than one queue: say {job}@head or {job}@two"):
        find_job(job, queues)
    assert find_job(f"{job}@two", queues) == ("", "job 1.0 of two is held: mine")


def test_a_job_that_a_silent_schedd_may_have_is_unknown_and_one_that_was_found_is_not() -> None:
    queues = Queues(missing=("schedd two: hangs",))
    queues.submit("1.0")
    assert find_job("1.0", queues)[0]
    with pytest.raises(SourceError, match=r"2\.0 was not found, but not everybody answered: schedd two: hangs"):
        find_job("2.0", queues)
