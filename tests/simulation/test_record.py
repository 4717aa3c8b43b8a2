"""The jobs that are made of what the daemon recorded, against the jobs that were."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Iterable, Optional, Sequence

import pytest

from elastiq.interfaces import Pool, Resources
from elastiq.recording import Recording
from elastiq.settings import Settings
from elastiq.simulation.cluster import Cluster
from elastiq.simulation.workload import Arrival, feed
from elastiq.whatif.recorded import Looks, Recorded

HOUR_S, DAY_S = 3600.0, 86_400.0
MACHINE = Resources(cpus=8, memory_mb=16_000)
SHAPES = (Resources(1, 1500), Resources(2, 3000), Resources(8, 8000))


class Site(Cluster):
    """A cluster of which each daemon records into a folder, if there is one."""

    def __init__(self, folder: Optional[Path] = None) -> None:
        pool = Pool("ec2", "simulated", ("machine",), capacity=MACHINE)
        settings = Settings("recorded", (pool,), max_vms=30, idle_for_time_s=600.0)
        # What is looked at need not be looked at again, but for the record.
        super().__init__(settings, {"machine": MACHINE}, random.Random(1), leave_out=folder is None)
        self._folder = folder

    def begin(self) -> None:
        core = self.start_daemon().core
        if self._folder is not None:
            core.saw_queue = Recording(core, self._folder).take

    def finish(self, within_s: float = 2 * DAY_S) -> float:
        """Until all jobs are done and all machines ended; returns the machine hours."""
        world = self.world
        assert self.run_until(lambda: not world.jobs and not world.tally.present, within_s, 600.0)
        assert world.tally.killed == world.tally.lost == 0
        return sum(world.settle_accounts().spent_s.values()) / HOUR_S


def a_day(seed: int, jobs_an_hour: float = 25.0) -> list[Arrival]:
    """Jobs of three shapes, by day more than by night, one in twenty a burst."""
    rng, at_s, found = random.Random(seed), 0.0, []
    while at_s < DAY_S:
        busy = 1.0 if 8 <= at_s / HOUR_S < 20 else 0.25
        at_s += rng.expovariate(jobs_an_hour * busy / HOUR_S)
        shape, burst = rng.choices(SHAPES, (6, 3, 1))[0], rng.choices((1, 20), (19, 1))[0]
        found += [Arrival(at_s, shape, 30.0 + rng.expovariate(1 / 1500.0)) for _ in range(burst)]
    return found


def core_h(jobs: Iterable[tuple[Resources, float]]) -> float:
    return sum((request.cpus or 0) * run_s for request, run_s in jobs) / HOUR_S


def as_arrivals(found: Recorded) -> list[Arrival]:
    return [Arrival(job.at_s, job.request, job.run_s, job.removed_after_s) for job in found]


def play(arrivals: Sequence[Arrival], site: Site) -> float:
    feed(site.world, arrivals)
    site.begin()
    site.run(arrivals[-1].at_s + 1.0)
    return site.finish()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "queue"


def test_the_jobs_of_a_record_are_about_those_that_were_and_cost_as_many_machine_hours(folder: Path) -> None:
    arrivals = a_day(seed=7)
    hours = play(arrivals, Site(folder))
    found = Recorded(Looks(folder))
    jobs = as_arrivals(found)
    again = play(jobs, Site())
    were, are = (core_h((one.request, one.length_s) for one in some) for some in (arrivals, jobs))
    print(f"{len(arrivals)} jobs -> {len(jobs)}, {were:.0f} core hours -> {are:.0f}")
    print(f"{hours:.1f} machine hours -> {again:.1f}, {sum(file.stat().st_size for file in folder.iterdir())} bytes")
    assert len(jobs) == pytest.approx(len(arrivals), rel=0.06) and len(jobs) == found.seen.jobs
    assert are == pytest.approx(were, rel=0.02) and are == pytest.approx(found.seen.core_s / HOUR_S)
    assert again == pytest.approx(hours, rel=0.05)
    assert (found.seen.gaps, found.seen.cut, found.seen.removed, found.seen.left_waiting) == ([], 0, 0, 0)
    for shape in SHAPES:
        before, after = (sum(one.request == shape for one in some) for some in (arrivals, jobs))
        assert after == pytest.approx(before, rel=0.08)


def test_while_the_daemon_is_down_nothing_is_made_up_and_what_was_seen_is_right(folder: Path) -> None:
    """Killed for ten minutes, which is as a slow look, and for an hour, which is a gap."""
    site, rng = Site(folder), random.Random(3)
    arrivals = [Arrival(40.0 * number, SHAPES[number % 2], 60.0 + 1800 * rng.random()) for number in range(450)]
    feed(site.world, arrivals)
    ran_s, began = 0.0, site.world.now

    def until(at_s: float) -> float:
        """The core seconds that jobs ran meanwhile."""
        ran = 0.0
        while site.world.now < began + at_s:
            site.run(5.0)
            running = site.world.running_by_shape().values()
            ran += 5.0 * sum(job.request.cpus or 0.0 for jobs in running for job in jobs.values())
        return ran

    for starts_s, killed_s, back_s in ((0.0, 5000.0, 5600.0), (5600.0, 9000.0, 12_600.0), (12_600.0, 22_000.0, 0.0)):
        site.begin()
        ran_s += until(killed_s)
        site.kill_daemon()
        ran = until(back_s)
        ran_s += ran if back_s == 5600.0 else 0.0
        assert starts_s < killed_s
    found = Recorded(Looks(folder))
    (gap,) = found.seen.gaps
    # Of the last minutes before a kill it is not known any more that it was looked.
    assert gap[1] - gap[0] == pytest.approx(3600.0, abs=400.0)
    assert found.seen.core_s == pytest.approx(ran_s, rel=0.05)
    assert len(list(found)) == pytest.approx(450 - 90, rel=0.15) and found.seen.cut > 0
