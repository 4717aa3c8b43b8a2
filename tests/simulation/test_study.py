"""What a simulation of a trace finds, where it can be reckoned by hand."""

from __future__ import annotations

import gc
import math
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any, Iterable, Iterator

import pytest

from elastiq.interfaces import Pool, Resources, Terms
from elastiq.settings import Settings
from elastiq.simulation.model import Act
from elastiq.traces.job import BadLine, Lines, TraceJob
from elastiq.traces.opening import open_trace
from elastiq.whatif.series import Series
from elastiq.whatif.study import play
from elastiq.whatif.terms import Assumed, Result

EIGHT = Resources(cpus=8, memory_mb=16_000)
ONE = Resources(cpus=1)
POOL = Pool("ec2", "site", ("m",))
# Jobs are acted upon at once: the first launch takes effect 0.75 s after the start, its machine joins 100 s later, and
# the negotiation of every 20 s starts the job at 120 s.
PLAIN = Settings("study", (POOL,), waiting_jobs_time_s=0.0, idle_for_time_s=300.0)
ASSUMED = Assumed({"m": EIGHT}, {("ec2", "m"): 0.5}, boot_s=(100.0, 100.0))
LAUNCHED_S, STARTED_S = 0.75, 120.0
HOUR_S = 3600.0


def job(at_s: float = 0.0, run_s: float = 600.0, name: str = "", **more: Any) -> TraceJob:
    return TraceJob(at_s, more.pop("request", ONE), run_s, name, **more)


def played(*jobs: TraceJob, settings: Settings = PLAIN, assumed: Assumed = ASSUMED, **more: Any) -> Result:
    return play(settings, jobs, assumed, **more)


def test_one_job_makes_one_machine_which_waits_boots_works_and_is_idle() -> None:
    found = played(job())
    assert (found.jobs, found.jobs_done, found.launches, found.peak_vms) == (1, 1, 1, 1)
    assert (found.mean_wait_s, found.median_wait_s, found.p95_wait_s) == (STARTED_S, STARTED_S, STARTED_S)
    assert found.mean_slowdown == pytest.approx((STARTED_S + 600) / 600)
    assert found.boot_machine_hours == pytest.approx(100 / HOUR_S)
    busy_h = found.machine_hours - found.idle_machine_hours - found.boot_machine_hours
    assert 600 <= busy_h * HOUR_S < 600 + ASSUMED.billed_s
    joined_idle_s = STARTED_S - LAUNCHED_S - 100
    assert 300 <= found.idle_machine_hours * HOUR_S - joined_idle_s < 300 + 60, "and two reads"
    assert found.cost == pytest.approx(0.5 * found.machine_hours)
    assert found.simulated_s == pytest.approx(LAUNCHED_S + found.machine_hours * HOUR_S, abs=ASSUMED.billed_s)
    assert (found.unmatchable_jobs, found.cancelled_jobs, found.killed_jobs, found.left_jobs) == (0, 0, 0, 0)


def test_each_machines_time_is_billed_in_whole_units() -> None:
    jobs = [job(request=EIGHT) for _ in range(2)]
    by_second = played(*jobs)
    by_hour = played(*jobs, assumed=replace(ASSUMED, billed_s=3600.0))
    assert by_second.launches == by_hour.launches == 2
    assert by_second.machine_hours < 1.0
    assert (by_hour.machine_hours, by_hour.cost) == (2.0, 1.0)
    assert by_hour.idle_machine_hours == by_second.idle_machine_hours, "what is not used up is no idleness"


def trickle(lasts_s: float = 20_000.0) -> list[TraceJob]:
    """Two machines of eight; the first is left with one long job, the second with two, and then small ones come."""
    runs_s = [lasts_s, *[400.0] * 7, 1000.0, 1000.0, *[400.0] * 6]
    return [*(job(run_s=run_s) for run_s in runs_s), *(job(600.0 + 200 * at, 500.0) for at in range(95))]


def test_with_the_oldest_machine_first_the_young_one_becomes_idle() -> None:
    hours = {
        placement: played(*trickle(), assumed=replace(ASSUMED, placement=placement)).machine_hours
        for placement in ("fullest", "oldest", "emptiest")
    }
    assert hours["oldest"] < 0.65 * hours["fullest"]
    assert hours["emptiest"] > 0.95 * hours["fullest"]


def test_machines_of_their_own_size_start_no_smaller_job_and_it_is_counted_as_one_that_fits_nowhere() -> None:
    own = replace(ASSUMED, own_size=True)
    found = played(job(request=Resources(cpus=4)), job(request=Resources(cpus=5)), job(), assumed=own)
    assert (found.jobs_done, found.unmatchable_jobs, found.launches, found.left_jobs) == (1, 2, 1, 0)
    sizes = replace(own, flavours={"m": EIGHT, "one": ONE})
    pools = (replace(POOL, flavours=("m", "one")),)
    both = played(job(request=EIGHT), job(300.0), settings=replace(PLAIN, pools=pools), assumed=sizes)
    assert (both.jobs_done, both.launches, both.unmatchable_jobs) == (2, 2, 0)


def test_without_a_price_the_cost_is_not_known_and_that_of_the_pool_is_one() -> None:
    unpriced = replace(ASSUMED, prices={})
    assert played(job(), assumed=unpriced).cost is None
    priced = replace(PLAIN, pools=(replace(POOL, prices={"m": 0.25}),))
    found = played(job(), settings=priced, assumed=unpriced)
    assert found.cost == pytest.approx(0.25 * found.machine_hours)
    assert played(settings=PLAIN, assumed=unpriced).cost == 0.0


def test_eight_jobs_share_a_machine_and_the_fullest_one_is_filled_first() -> None:
    eight = played(*(job() for _ in range(8)))
    assert (eight.launches, eight.mean_wait_s) == (1, STARTED_S)
    # Two machines of which the second holds one job. The ninth ends, and of the two with room the fuller one gets
    # the next: the emptier one goes.
    acts: list[Act] = []
    jobs = [*(job(run_s=9000.0 if number < 7 else 300.0) for number in range(8)), job(run_s=300.0)]
    later = job(at_s=600.0, run_s=9000.0)
    found = played(*jobs, later, acts=acts.append)
    assert (found.launches, found.jobs_done) == (2, 10)
    first_end = next(act for act in acts if act.what == "terminate")
    assert 300 < first_end.at_s - (STARTED_S + 300) < 400, "no job has kept it"


def test_the_queue_is_looked_at_when_it_has_changed_where_the_batch_system_tells() -> None:
    def launched_s(**changed: Any) -> float:
        acts: list[Act] = []
        played(job(at_s=301.0), settings=replace(PLAIN, **changed), acts=acts.append)
        return acts[0].at_s

    assert launched_s() < 301 + 3
    assert launched_s(batch_options={"watch_queue": False}) > 315
    assert launched_s(batch_plugin="slurm") > 315


# --------------------------------------------------------------------------- jobs of which others come first


def test_a_chain_is_played_parent_by_parent_wherever_they_stand_in_the_trace() -> None:
    chain = [
        job(name="c", after=("b",), run_s=60.0),
        job(name="b", after=("a",), run_s=60.0, think_s=30.0),
        job(name="a", run_s=60.0),
    ]
    started = starts(*chain)
    # a runs from 120 to 180, b comes at 210 and starts at the next negotiation, 220, c comes when it ends.
    assert started == [STARTED_S, 220.0, 280.0 + 20.0]


def starts(*jobs: TraceJob, **more: Any) -> list[float]:
    """When jobs began, in their order: what the levels of running jobs show."""
    series = Series(points=100_000)
    played(*jobs, series=series, **more)
    points, found = list(series.points()), []
    for before, after in zip(points, points[1:]):
        if after.running > before.running:
            found.append(after.begin_s)
    return found


def test_a_job_with_several_parents_comes_after_the_last_and_not_before_its_own_time() -> None:
    parents = [job(name="a", run_s=60.0), job(name="b", run_s=300.0)]
    child = job(name="c", after=("a", "b", "a"), run_s=60.0)
    assert played(*parents, child).mean_wait_s == pytest.approx((120 + 120 + 20) / 3, abs=7)
    late = job(at_s=1000.0, name="c", after=("a", "b"), run_s=60.0)
    found = played(*parents, late)
    assert (found.jobs_done, found.launches) == (3, 2)
    assert found.simulated_s > 1000.0 + STARTED_S


def test_parents_that_are_not_known_hold_nothing_up_and_a_ring_is_left() -> None:
    found = played(job(name="a", after=("nobody",)))
    assert (found.jobs_done, found.mean_wait_s) == (1, STARTED_S)
    ring = [job(name="a", after=("b",)), job(name="b", after=("a",)), job(name="c", after=("c",)), job()]
    found = played(*ring)
    assert (found.jobs, found.jobs_done, found.left_jobs, found.killed_jobs) == (4, 1, 3, 0)
    assert found.simulated_s < 2 * HOUR_S


def test_a_parent_that_was_removed_or_has_ended_lets_its_child_come() -> None:
    found = played(job(name="a", removed_after_s=30.0), job(name="b", after=("a",)))
    assert (found.jobs_done, found.cancelled_jobs, found.left_jobs) == (1, 1, 0)
    again = played(job(name="a", run_s=60.0), job(at_s=2000.0, name="b", run_s=60.0, after=("a",)))
    assert (again.jobs_done, again.left_jobs) == (2, 0)


# --------------------------------------------------------------------------- jobs that never run


def test_a_job_that_no_flavour_fits_costs_nothing_and_keeps_nothing_from_ending() -> None:
    huge = job(name="huge", request=Resources(cpus=64))
    alone = played(huge)
    assert (alone.jobs, alone.unmatchable_jobs, alone.jobs_done, alone.left_jobs) == (1, 1, 0, 0)
    assert (alone.launches, alone.machine_hours, alone.cost, alone.mean_wait_s) == (0, 0.0, 0.0, None)
    assert alone.simulated_s < HOUR_S
    found = played(huge, job(), job(name="child", after=("huge",)))
    assert (found.jobs, found.unmatchable_jobs, found.jobs_done, found.left_jobs, found.held_jobs) == (3, 1, 1, 1, 1)


def test_what_the_pool_reserves_or_says_of_its_machines_decides_what_fits() -> None:
    memory = job(request=Resources(cpus=1, memory_mb=15_900))
    assert played(memory).jobs_done == 1
    reserving = replace(POOL, terms=Terms(reserve_memory_mb=500.0))
    assert played(memory, settings=replace(PLAIN, pools=(reserving,))).unmatchable_jobs == 1
    larger = replace(POOL, capacity=Resources(cpus=16, memory_mb=64_000))
    many = [job(request=Resources(cpus=2)) for _ in range(8)]
    assert played(*many, settings=replace(PLAIN, pools=(larger,))).launches == 1


def test_a_job_is_removed_only_if_it_still_waits() -> None:
    found = played(job(removed_after_s=30.0), job(removed_after_s=STARTED_S + 1))
    assert (found.jobs, found.jobs_done, found.cancelled_jobs, found.left_jobs) == (2, 1, 1, 0)
    nobody = played(job(removed_after_s=30.0))
    assert (nobody.jobs_done, nobody.cancelled_jobs, nobody.mean_wait_s) == (0, 1, None)


@pytest.mark.parametrize("changed", [{"max_vms": 0}, {"launch": False}])
def test_jobs_for_which_nothing_may_be_launched_are_left(changed: dict[str, Any]) -> None:
    found = played(job(), job(at_s=100.0), settings=replace(PLAIN, **changed))
    assert (found.jobs, found.jobs_done, found.left_jobs, found.unmatchable_jobs) == (2, 0, 2, 0)
    assert (found.launches, found.cost, found.simulated_s) == (0, 0.0, 100.0)


# --------------------------------------------------------------------------- what is kept, and when it ends


def test_a_fixed_cluster_is_billed_to_the_end_of_the_last_job() -> None:
    found = played(job(at_s=500.0), settings=replace(PLAIN, min_vms=2, max_vms=2))
    assert found.mean_wait_s == pytest.approx(20.0), "at the negotiation after the one that comes as it does"
    assert (found.launches, found.peak_vms) == (2, 2)
    assert found.simulated_s == pytest.approx(500 + 20 + 600)
    used_s = 2 * (found.simulated_s - LAUNCHED_S)
    assert used_s <= found.machine_hours * HOUR_S < used_s + 2 * ASSUMED.billed_s


def test_beside_a_minimum_the_others_end_and_the_run_with_them() -> None:
    found = played(*(job() for _ in range(24)), settings=replace(PLAIN, min_vms=1, max_vms=3))
    assert (found.launches, found.jobs_done) == (3, 24)
    idle_s = found.simulated_s - STARTED_S - 600
    assert 300 <= idle_s < 400
    assert found.machine_hours * HOUR_S == pytest.approx(3 * (found.simulated_s - LAUNCHED_S), rel=0.01)


def test_spares_are_no_reason_to_go_on_for_ever() -> None:
    spares = replace(POOL, terms=Terms(min_idle_vms=1, max_vm_lifetime_s=1800.0))
    found = played(job(), settings=replace(PLAIN, pools=(spares,)))
    assert found.jobs_done == 1
    assert found.simulated_s < 2 * HOUR_S


def test_machines_that_never_go_are_billed_to_the_end_of_the_last_job() -> None:
    found = played(job(), settings=replace(PLAIN, idle_for_time_s=1e9))
    assert found.simulated_s == pytest.approx(STARTED_S + 600)
    assert found.machine_hours * HOUR_S == pytest.approx(found.simulated_s - LAUNCHED_S, abs=ASSUMED.billed_s)


def test_nothing_comes_of_an_empty_trace() -> None:
    found = played()
    assert (found.jobs, found.launches, found.machine_hours, found.simulated_s) == (0, 0, 0.0, 0.0)
    assert found.as_dict()["mean_wait_s"] is None


def test_a_trace_that_is_out_of_order_brings_what_is_late_at_once() -> None:
    found = played(job(at_s=1000.0), job(at_s=10.0))
    assert found.jobs_done == 2 and found.mean_wait_s == pytest.approx(STARTED_S, abs=20)


class Told:
    """A trace as a reader gives it."""

    format = "told"

    def __init__(self, began_at: float) -> None:
        self._began_at = began_at
        self.began_at: Any = None
        self.lines = Lines()

    def __iter__(self) -> Iterator[TraceJob]:
        self.began_at = self._began_at
        yield job()
        self.lines.is_bad(2, BadLine("no number"))
        self.lines.leave_out("no run time")
        self.lines.leave_out("no run time")

    def read_part(self) -> float:
        return 1.0


def test_a_trace_is_played_at_its_own_time_of_day_and_its_lines_are_counted() -> None:
    from zoneinfo import ZoneInfo

    from elastiq.schedule import Schedule, Window

    night = Window(frozenset(range(7)), 0, 6 * 60)
    closed = Schedule("night", (night,), "UTC", ZoneInfo("UTC"), (("max_vms", 0),))
    settings = replace(PLAIN, schedules=(closed,))
    five, noon = 1_700_000_000 // 86_400 * 86_400 + 5 * 3600.0, 1_700_000_000 // 86_400 * 86_400 + 12 * 3600.0
    by_day, by_night = (play(settings, Told(at), ASSUMED) for at in (noon, five))
    assert by_day.mean_wait_s == STARTED_S
    assert by_night.mean_wait_s is not None and HOUR_S < by_night.mean_wait_s < HOUR_S + 300
    assert (by_day.bad_lines, by_day.left_out) == (1, 2)


def test_a_log_is_played_to_its_end(tmp_path: Path) -> None:
    def line(number: int, submit: int, run: int, wait: int = 5, status: int = 1) -> str:
        return f"{number} {submit} {wait} {run} 2 55.5 -1 {1 + 7 * number % 40} 120 -1 {status} 7 1 -1 -1 1 -1 -1\n"

    path = tmp_path / "log.swf"
    lines = [line(number + 1, 1000 + 200 * number, 100 + 37 * number) for number in range(40)]
    path.write_text("".join(lines[:3]) + line(41, 1500, -1, wait=1, status=5) + "no job\n" + "".join(lines[3:]))
    found = play(replace(PLAIN, max_vms=6), open_trace(path, split_at=8), ASSUMED)
    assert (found.bad_lines, found.killed_jobs, found.left_jobs, found.unmatchable_jobs) == (1, 0, 0, 0)
    assert found.cancelled_jobs == found.jobs - found.jobs_done == 1 and found.jobs > 60
    assert 1 <= found.peak_vms <= 6


def test_a_flavour_of_which_nothing_is_known_is_refused() -> None:
    with pytest.raises(ValueError, match=r"pool ec2: .* flavour m "):
        played(job(), assumed=Assumed({}))


def test_extras_are_not_followed_in_a_simulation() -> None:
    found = played(job(), settings=replace(PLAIN, extras={"hooks": {"on_launch": ("/bin/false",)}}))
    assert found.jobs_done == 1


def test_a_daemon_that_fails_is_no_result() -> None:
    with pytest.raises(RuntimeError, match="plan: ZeroDivisionError"):
        played(job(), controller=lambda cluster: setattr(cluster.start_daemon(), "_plans", lambda situation: 1 / 0))


# --------------------------------------------------------------------------- long traces


def stream(jobs: int) -> Iterator[TraceJob]:
    for number in range(jobs):
        parents = (str(number - 1),) if number % 4 else ()
        yield job(at_s=number * 4.0, run_s=50.0 + number % 7, name=str(number), after=parents)


def test_memory_does_not_grow_with_the_jobs() -> None:
    held: list[int] = []

    def weigh(jobs: int, seconds: float) -> None:
        gc.collect()
        held.append(tracemalloc.get_traced_memory()[0])

    tracemalloc.start()
    try:
        play(PLAIN, stream(2000), ASSUMED, series=Series(points=50), progress=weigh)
    finally:
        tracemalloc.stop()
    assert held[1] - held[0] < 1000 * 40, "the waits, eight bytes each, are kept up to 10,000"


def test_progress_is_told_now_and_then() -> None:
    told: list[tuple[int, float]] = []
    play(PLAIN, stream(2500), ASSUMED, progress=lambda jobs, seconds: told.append((jobs, seconds)))
    assert [jobs for jobs, _ in told] == [1000, 2000]
    assert 0 < told[0][1] < told[1][1]


def test_the_series_tells_the_same_as_the_sums() -> None:
    series, jobs = Series(points=40), list(stream(400))
    found = play(PLAIN, jobs, replace(ASSUMED, billed_s=3600.0), series=series)
    points = list(series.points())
    assert 20 <= len(points) <= 40
    assert points[0].begin_s == 0.0 and all(a.end_s == b.begin_s for a, b in zip(points, points[1:]))
    assert integral(points, "idle") == pytest.approx(found.idle_machine_hours)
    assert integral(points, "booting") == pytest.approx(found.boot_machine_hours)
    assert integral(points, "running") == pytest.approx(sum(one.run_s for one in jobs) / HOUR_S)
    assert integral(points, "waiting") == pytest.approx((found.mean_wait_s or math.nan) * found.jobs / HOUR_S)
    assert points[-1].cost == pytest.approx(found.cost)
    assert max(point.most_vms for point in points) == found.peak_vms


def integral(points: Iterable[Any], level: str) -> float:
    return math.fsum(getattr(point, level) * (point.end_s - point.begin_s) for point in points) / HOUR_S


def test_a_swarm_whose_length_is_known_shares_a_few_machines() -> None:
    """1,100 jobs of a second, as the graph of Seismology has, which else get a slot each."""
    jobs = [job(run_s=1.0) for _ in range(1100)]
    settings = replace(PLAIN, max_vms=None, idle_for_time_s=60.0)
    each, shared = (played(*jobs, settings=replace(settings, job_length_s=s)) for s in (0.0, 1.0))
    assert (each.jobs_done, each.launches) == (shared.jobs_done, 138) == (1100, 138)
    assert shared.launches == 2
    assert shared.p95_wait_s < each.p95_wait_s + ASSUMED.boot_s[1], "nobody waits for more than a boot longer"
    assert shared.machine_hours < each.machine_hours / 25


def test_a_length_that_is_wrong_costs_waiting_and_no_job_waits_for_ever() -> None:
    jobs = [job(at_s=30.0 * number, run_s=4 * HOUR_S) for number in range(60)]
    settings = replace(PLAIN, max_vms=None, job_length_s=1.0)
    found = played(*jobs, settings=settings)
    assert found.jobs_done == 60
    assert found.p95_wait_s < settings.estimated_vm_deploy_time_s + 2 * STARTED_S + 2 * settings.check_queue_every_s
