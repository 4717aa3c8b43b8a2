"""The Slurm plugin keeps the contract, over a real slurmctld and real slurmds."""

from __future__ import annotations

from typing import ClassVar, Iterator

import pytest

from elastiq.conformance.batch import BatchConformance
from tests.e2e.conftest import cannot
from tests.e2e.rig import slurm
from tests.e2e.rig.process import RigError, run
from tests.e2e.slurm_bench import AWAY, MORE, RealSlurm

NO_NONSENSE = "what Slurm never answers is tried over fake commands"


@pytest.fixture(scope="module")
def cluster_of_slurm() -> Iterator[slurm.Slurm]:
    suite = "trixie"
    try:
        made = slurm.Slurm.start(suite, MORE)
    except RigError as error:
        cannot(f"no Slurm of {suite} can be run", error)
    run(made.head.in_its_network(["ip", "route", "add", "10.0.0.0/8", "dev", "br0"]))
    conf = made.head.read("/etc/slurm/slurm.conf").replace("MessageTimeout=20", "MessageTimeout=1\nSlurmctldPort=1")
    made.head.put(AWAY, conf)
    made.head.wrap_tools(made.tools.parent / "powerless", slurm.TOOLS, "jobuser")
    yield made
    made.stop()


class TestSlurm(BatchConformance):
    cannot: ClassVar[dict[str, str]] = {
        "job-starts": "slurmctld does not count the starts on a node",
        "held-running": "Slurm holds no job that runs",
        "lost-jobs": "a node that is down has no job: Slurm ends them, or lets them begin again",
        "blank": NO_NONSENSE,
        "cut": NO_NONSENSE,
        "hang": NO_NONSENSE,
        "parts": "there is one slurmctld",
    }

    @pytest.fixture
    def bench(self, cluster_of_slurm: slurm.Slurm) -> Iterator[RealSlurm]:
        made = RealSlurm(cluster_of_slurm, cluster_of_slurm.tools.parent / "powerless")
        yield made
        made.close()


for _name in (
    *("test_nonsense_for_the_queue_is_unknown_not_empty", "test_nonsense_for_the_workers_is_unknown_not_gone"),
    "test_nonsense_for_the_recorded_jobs_is_unknown_not_none",  # NO_NONSENSE
    *(
        "test_tasks_of_an_array_that_run_do_not_wait",
        "test_tasks_that_run_are_of_the_number_that_may",
    ),  # which, is chance
    "test_forty_workers_are_forty_rows",  # a minute
):
    assert hasattr(TestSlurm, _name), _name
    setattr(TestSlurm, _name, None)
