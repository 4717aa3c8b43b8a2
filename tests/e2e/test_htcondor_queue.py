"""What a real queue says of jobs that ask for more than numbers, and of single ones."""

from __future__ import annotations

from typing import Any

import pytest

from elastiq.interfaces import JobGroup, SourceError
from tests.e2e.cluster import RUNNING, Cluster, wait_for
from tests.e2e.rig import htcondor
from tests.e2e.test_htcondor_plugin import MACHINE, machine, plugin

__all__ = ["machine"]  # a fixture


def by_sample() -> dict[int, JobGroup]:
    """The groups that wait, by the cluster of one of their jobs."""
    groups = [group for group in plugin("batch.jobs()").groups if group.waiting]
    return {int(group.sample_job.partition(".")[0]): group for group in groups}


def found(job: str) -> Any:
    return plugin(f"batch.find_job({job!r})")


def test_jobs_that_ask_for_more_than_numbers_are_groups_of_their_own(cluster: Cluster) -> None:
    plain = cluster.submit(2, 60)
    parallel = cluster.submit(2, 60, "universe = parallel", "machine_count = 3")
    pools = cluster.submit(3, 60, 'My.ElastiqPool = "GPU, bigmem"')
    nonsense = cluster.submit(1, 60, "My.ElastiqPool = 1 + 4")
    by_use = "request_memory = ifThenElse(MemoryUsage =!= undefined, 3 * MemoryUsage, 1000 * RequestCpus)"
    expression = cluster.submit(1, 60, by_use, "request_cpus = 2")
    accounted = cluster.submit(1, 60, "accounting_group = physics", "accounting_group_user = alice")
    groups = by_sample()
    assert {(cluster_id, group.waiting, group.nodes) for cluster_id, group in groups.items()} == {
        (plain, 2, 1),
        (parallel, 2, 3),
        (pools, 3, 1),
        (nonsense, 1, 1),
        (expression, 1, 1),
        (accounted, 1, 1),
    }
    assert groups[pools].pools == ("bigmem", "gpu")
    assert "ElastiqPool" in groups[nonsense].not_eligible and groups[nonsense].pools == ()
    assert groups[expression].request.memory_mb == 2000
    assert found(f"{expression}.0")[0] == groups[expression].key
    assert found(f"{pools}.2@head.rig")[0] == groups[pools].key


def test_a_held_an_idle_and_a_running_job_are_found_and_told_apart(cluster: Cluster, machine: str) -> None:
    running = cluster.run_on(MACHINE, 120)
    held = cluster.submit(1, 60, "hold = true")
    limited = cluster.submit(3, 60, "concurrency_limits = licence")
    too_big = cluster.submit(2, 60, "request_cpus = 99")
    wait_for(lambda: len([job for job in cluster.jobs(RUNNING) if job["ClusterId"] == limited]) == 1, 20, "one licence")
    wait_for(lambda: by_sample()[limited].not_eligible, 20, "the negotiator says that the limit is reached")
    group = by_sample()[limited]
    assert (group.waiting, group.running) == (2, 1)
    assert group.not_eligible == "the negotiator says: concurrency limit licence reached"
    wait_for(lambda: "no match found" in found(f"{too_big}")[1], 20, "the negotiator has looked at the job")
    key, stands = found(f"{too_big}")
    assert key == by_sample()[too_big].key and stands.startswith(f"job {too_big}.0 of head.rig is idle since 20")
    key, stands = found(f"{running}.0")
    assert key == "" and f"of head.rig runs on {MACHINE} since 20" in stands
    key, stands = found(f"{held}.0")
    assert key == "" and "is held since 20" in stands and stands.endswith("at user's request")
    htcondor.as_root(["condor_rm", str(held)])
    with pytest.raises(SourceError, match=f"no queue holds job {held}.0"):
        found(f"{held}.0")
