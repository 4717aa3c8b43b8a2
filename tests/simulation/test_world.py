"""The simulated world keeps honest books: the tests of whole lives believe them."""

from __future__ import annotations

import random

import pytest

from elastiq.interfaces import InstanceState, Resources
from elastiq.simulation.clock import VirtualClock, VirtualQueue
from elastiq.simulation.model import JobState, Machine
from elastiq.simulation.world import Image, World

ONE_CPU = Resources(cpus=1)
FOUR_CPUS = Resources(cpus=4)


class Bench:
    """A world in which a machine boots in 60 s and joins 30 s later."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.events = VirtualQueue(self.clock)
        image = Image(boot_s=(60.0, 60.0), join_s=(30.0, 30.0), shutdown_s=(20.0, 20.0))
        self.world = World(self.events, self.clock, random.Random(1), {"medium": FOUR_CPUS}, image)

    def launch(self) -> Machine:
        return self.world.launch(
            lambda new_id, address: Machine(new_id, address, "medium", self.world.wall, cluster="c", head="h")
        )

    def run(self, seconds: float) -> None:
        self.events.after(seconds, self.events.stop)
        self.events.run()


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_machine_boots_then_joins_and_runs_what_waits(bench: Bench) -> None:
    job = bench.world.submit(ONE_CPU, 100.0)
    machine = bench.launch()
    seen = []
    for seconds in (59, 2, 60, 100):
        bench.run(seconds)
        seen.append((machine.state, machine.worker is not None, job.state))
    assert seen == [
        (InstanceState.PENDING, False, JobState.WAITING),
        (InstanceState.RUNNING, False, JobState.WAITING),
        (InstanceState.RUNNING, True, JobState.RUNNING),
        (InstanceState.RUNNING, True, JobState.DONE),
    ]
    assert (bench.world.tally.submitted, bench.world.tally.done) == (1, 1)


def test_an_image_that_never_joins_only_runs(bench: Bench) -> None:
    bench.world.image.joins = False
    machine = bench.launch()
    bench.run(3600)
    assert (machine.state, machine.worker) == (InstanceState.RUNNING, None)


def test_jobs_start_only_where_there_is_room(bench: Bench) -> None:
    bench.launch()
    for _ in range(3):
        bench.world.submit(Resources(cpus=2), 1e6)
    bench.run(300)
    assert (bench.world.running(), bench.world.waiting()) == (2, 1)


@pytest.mark.parametrize(
    ("fills", "first"), [("oldest", "w0"), ("of the smallest", "w2"), ("fullest", "w3"), ("emptiest", "w0")]
)
def test_a_job_goes_to_the_machine_that_is_filled_first(bench: Bench, fills: str, first: str) -> None:
    for number, (cpus, used) in enumerate([(8, 0), (4, 4), (4, 1), (4, 2), (8, 1)]):
        worker = bench.world.add_worker(f"w{number}", f"10.1.0.{number}", Resources(cpus=cpus))
        bench.world.start(bench.world.submit(Resources(cpus=used), 1e6), worker)
    bench.world.fills = fills
    job = bench.world.submit(Resources(cpus=2), 1e6)
    bench.run(60)
    assert job.worker is not None and job.worker.name == first


def test_a_machine_of_its_own_size_starts_only_jobs_of_more_than_half_of_it(bench: Bench) -> None:
    bench.world.own_size = True
    bench.world.add_worker("w", "10.1.0.1", Resources(cpus=4))
    jobs = [bench.world.submit(request, 1e6) for request in (Resources(), Resources(cpus=2), Resources(cpus=3))]
    bench.run(60)
    assert [job.worker is not None for job in jobs] == [False, False, True]


def test_a_claim_that_became_free_takes_the_next_job_at_once(bench: Bench) -> None:
    bench.launch()
    jobs = [bench.world.submit(FOUR_CPUS, 35.0) for _ in range(2)]
    bench.run(600)
    first, second = (job.first_started_at for job in jobs)
    assert first is not None and second == pytest.approx(first + 35.0)


def test_a_drained_worker_finishes_its_jobs_and_takes_no_other(bench: Bench) -> None:
    machine = bench.launch()
    bench.world.submit(ONE_CPU, 500.0)
    bench.run(200)
    assert machine.worker is not None
    bench.world.drain(machine.worker, "elastiq")
    bench.world.submit(ONE_CPU, 500.0)
    bench.run(1000)
    assert (bench.world.tally.done, bench.world.waiting()) == (1, 1)
    bench.world.undrain(machine.worker)
    bench.run(600)
    assert bench.world.tally.done == 2


def test_ending_a_machine_kills_its_jobs_and_that_is_counted(bench: Bench) -> None:
    machine = bench.launch()
    jobs = [bench.world.submit(ONE_CPU, 5000.0) for _ in range(3)]
    bench.run(300)
    bench.world.terminate(machine)
    assert bench.world.tally.killed == 3
    assert bench.world.waiting() == 3
    bench.launch()
    bench.run(6000)
    assert [job.state for job in jobs] == [JobState.DONE] * 3
    assert bench.world.tally.done == 3  # the end of the killed run was not taken for one


def test_jobs_of_a_crashed_worker_stay_recorded_until_their_lease_ends(bench: Bench) -> None:
    machine = bench.launch()
    job = bench.world.submit(ONE_CPU, 5000.0)
    bench.run(300)
    assert machine.worker is not None
    bench.world.crash(machine.worker)
    seen = []
    for seconds in (2300, 200):
        bench.run(seconds)
        seen.append(job.state)
    assert seen == [JobState.RUNNING, JobState.WAITING]
    assert (bench.world.tally.lost, bench.world.tally.killed) == (1, 0)


def test_what_is_not_confirmed_gone_counts_as_present(bench: Bench) -> None:
    one, _two = bench.launch(), bench.launch()
    bench.run(100)
    bench.world.terminate(one)
    bench.run(10)
    assert (one.state, bench.world.tally.present) == (InstanceState.SHUTTING_DOWN, 2)
    bench.launch()
    assert bench.world.tally.peak == 3
    bench.run(11)
    assert (one.state, bench.world.tally.present) == (InstanceState.TERMINATED, 2)


def test_machine_time_is_billed_from_running_to_the_request_to_end(bench: Bench) -> None:
    machine = bench.launch()
    bench.world.submit(ONE_CPU, 600.0)
    bench.run(1060)  # 1,000 s billed
    tally = bench.world.settle_accounts()
    assert tally.machine_s == pytest.approx(1000.0)
    assert tally.unused_s == pytest.approx(400.0)
    bench.run(100)
    bench.world.terminate(machine)
    bench.run(500)
    tally = bench.world.settle_accounts()
    assert tally.machine_s == pytest.approx(1100.0)
    assert tally.unused_s == pytest.approx(500.0)


def test_a_flavours_limit_leaves_room_again_when_a_machine_is_gone(bench: Bench) -> None:
    assert bench.world.room("medium") is None
    bench.world.limits["medium"] = 1
    machine = bench.launch()
    bench.run(100)
    assert bench.world.room("medium") == 0
    bench.world.terminate(machine)
    bench.run(30)
    assert bench.world.room("medium") == 1


def test_a_removed_job_is_in_nobodys_way(bench: Bench) -> None:
    bench.launch()
    running, waiting = bench.world.submit(FOUR_CPUS, 1e6), bench.world.submit(FOUR_CPUS, 1e6)
    bench.run(200)
    bench.world.remove(waiting)
    bench.world.remove(running)
    assert (bench.world.waiting(), bench.world.running(), bench.world.jobs) == (0, 0, {})
    bench.world.submit(FOUR_CPUS, 10.0)
    bench.run(100)
    assert bench.world.tally.done == 1
