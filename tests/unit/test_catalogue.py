"""Sizes by the cloud's own catalogue: asked once a site, and nothing known to fit there before it has answered."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Optional

import pytest

from elastiq.broker import capacity
from elastiq.catalogue import AGAIN_S, PATIENCE_S, Catalogue
from elastiq.interfaces import JobGroup, Jobs, Pool, Resources, Terms
from elastiq.nodes import Registry
from elastiq.planner import plan
from elastiq.reload import take_over
from elastiq.situation import ASKING, BEING_ASKED
from tests.unit.fakes import UNREACHABLE, Pending, Surroundings
from tests.unit.plans import launched
from tests.unit.test_daemon import Rig as DaemonRig
from tests.unit.values import FOUR, a_pool, group, situation, some_settings

UNSIZED = a_pool(capacity=Resources(), flavours=("medium", "large"))
LARGE = Resources(cpus=16, memory_mb=64_000, disk_mb=500_000)


class Rig(Surroundings):
    def __init__(self, *pools: Pool) -> None:
        super().__init__(pools=pools or (UNSIZED,))
        self.replans = 0
        self.catalogue = Catalogue(self.core, self._replan)

    def _replan(self) -> None:
        self.replans += 1

    def ask(self) -> list[Pending]:
        self.catalogue.ask()
        return [pending for pending in self.executor.pending if pending.source.startswith("flavours")]

    def fits(self, pool: Pool = UNSIZED) -> tuple[bool, str]:
        return self.catalogue.before(_any_fits)(group(), pool, "medium", Resources())


def _any_fits(group: JobGroup, pool: Pool, flavour: str, machine: Resources) -> tuple[bool, str]:
    return True, "so it is said"


# --------------------------------------------------------------------------- asking


def test_a_site_is_asked_once_for_the_flavours_of_all_its_pools() -> None:
    rig = Rig(UNSIZED, a_pool("other", capacity=Resources(), flavours=("large", "huge")))
    rig.cloud.script.answers["flavours"] = {"large": LARGE}
    (question,) = rig.ask()
    assert rig.ask() == [question]
    question.finish()
    assert rig.cloud.script.calls("flavours") == [(("medium", "large", "huge"),)]
    assert rig.core.registry.catalogue == {("aws", "large"): LARGE}
    assert rig.replans == 1
    rig.run(100 * AGAIN_S)
    assert rig.ask() == []


@pytest.mark.parametrize(
    ("pool", "asked"),
    [
        (a_pool(), False),
        (a_pool(capacity=Resources(cpus=4)), True),
        (a_pool(capacity=Resources(memory_mb=8000)), True),
        (a_pool(capacity=Resources(cpus=4, memory_mb=8000)), False),
        (a_pool(capacity=Resources(), flavours=("",)), False),
    ],
    ids=["configured", "no memory", "no cpus", "both", "the cloud's own default"],
)
def test_only_what_the_configuration_does_not_say_is_asked(pool: Pool, asked: bool) -> None:
    rig = Rig(pool)
    assert rig.fits(pool) == ((False, BEING_ASKED) if asked else (True, "so it is said"))
    assert bool(rig.ask()) is asked


def test_a_site_that_could_not_tell_is_asked_again_after_600_s() -> None:
    rig = Rig()
    (question,) = rig.ask()
    question.fail(UNREACHABLE)
    rig.run(AGAIN_S - 1.0)
    assert rig.ask() == []
    rig.run(1.0)
    rig.cloud.script.answers["flavours"] = {"medium": FOUR}
    rig.ask()[0].finish()
    assert rig.core.registry.catalogue == {("aws", "medium"): FOUR}
    rig.run(100 * AGAIN_S)
    assert rig.ask() == []


def test_nothing_fits_there_before_the_first_answer_and_what_fits_after_it_is_as_ever() -> None:
    rig = Rig()
    assert rig.fits() == (False, BEING_ASKED)
    (question,) = rig.ask()
    assert rig.fits() == (False, BEING_ASKED)
    question.finish()
    assert rig.fits() == (True, "so it is said")


@pytest.mark.parametrize("how", ["fail", "time_out"])
def test_a_failure_is_an_answer_too_and_makes_nobody_wait(how: str) -> None:
    rig = Rig()
    (question,) = rig.ask()
    question.fail(UNREACHABLE) if how == "fail" else question.time_out()
    assert rig.fits() == (True, "so it is said")
    assert rig.replans == 1


def test_one_site_does_not_wait_for_the_catalogue_of_another() -> None:
    slow = replace(UNSIZED, name="slow", site="slow")
    rig = Rig(UNSIZED, slow, a_pool("sized", site="slow"))
    first, _ = sorted(rig.ask(), key=lambda pending: pending.source)
    assert first.source == "flavours aws"
    first.finish()
    assert rig.fits(UNSIZED) == (True, "so it is said")
    assert rig.fits(slow) == (False, BEING_ASKED)
    assert rig.fits(rig.settings.pools[2]) == (True, "so it is said"), "its size is configured"


def test_jobs_wait_only_briefly_for_a_catalogue_that_does_not_answer() -> None:
    rig = Rig()
    rig.ask()
    rig.run(PATIENCE_S - 1.0)
    assert rig.fits()[1] in ASKING
    rig.run(1.0)
    assert rig.fits() == (False, "their sizes are not known yet")


# --------------------------------------------------------------------------- what counts


@pytest.mark.parametrize(
    ("configured", "learned", "listed", "cpus"),
    [(2.0, 3.0, 4.0, 2.0), (None, 3.0, 4.0, 3.0), (None, None, 4.0, 4.0), (None, None, None, None)],
)
def test_what_is_configured_counts_before_what_was_learned_and_that_before_the_catalogue(
    configured: Optional[float], learned: Optional[float], listed: Optional[float], cpus: Optional[float]
) -> None:
    registry = Registry()
    registry.learned["ec2", "medium"] = Resources(cpus=learned)
    registry.catalogue["aws", "medium"] = Resources(cpus=listed)
    registry.catalogue["elsewhere", "medium"] = Resources(cpus=99)
    pool = a_pool(capacity=Resources(cpus=configured))
    assert capacity(situation(registry=registry), pool, "medium") == Resources(cpus=cpus)


def test_each_size_comes_from_the_nearest_that_knows_it() -> None:
    registry = Registry()
    registry.learned["ec2", "medium"] = Resources(cpus=8, memory_mb=15_500)
    registry.catalogue["aws", "medium"] = Resources(cpus=9, memory_mb=16_000, disk_mb=100_000, gpus=1)
    pool = a_pool(capacity=Resources(cpus=7))
    assert capacity(situation(registry=registry), pool, "medium") == Resources(7, 15_500, 100_000, 1)


def test_the_reserve_keys_are_taken_off_the_catalogues_sizes_alone() -> None:
    """A configured size is what jobs get; a learned one is what a worker advertised."""
    registry = Registry()
    registry.catalogue["aws", "medium"] = Resources(cpus=4, memory_mb=16_000, disk_mb=100_000)
    terms = Terms(reserve_memory_mb=1000, reserve_disk_mb=200_000)
    pool = a_pool(capacity=Resources(), terms=terms)
    assert capacity(situation(registry=registry), pool, "medium") == Resources(4, 15_000, 0)
    assert capacity(situation(registry=registry), a_pool(terms=terms), "medium") == Resources(4, 8000, 0)
    registry.learned["ec2", "medium"] = Resources(memory_mb=15_600)
    assert capacity(situation(registry=registry), pool, "medium").memory_mb == 15_600


def test_jobs_go_to_a_flavour_that_the_catalogue_says_is_large_enough() -> None:
    registry = Registry()
    registry.catalogue.update({("aws", "medium"): FOUR, ("aws", "large"): LARGE})
    settings = some_settings(pools=(UNSIZED,))
    made = plan(situation(group(request=Resources(cpus=10)), registry=registry, settings=settings))
    assert launched(made) == {"ec2/large": 1}


# --------------------------------------------------------------------------- through the loop


def waiting_rig(answer: Any) -> DaemonRig:
    rig = DaemonRig(pools=(UNSIZED,))
    rig.batch.script.answers["jobs"] = Jobs((group(waiting=32),))
    rig.cloud.script.answers["flavours"] = answer
    rig.answer("queue", "workers", "cloud aws")
    return rig


def test_the_daemon_launches_for_no_job_before_it_knows_the_sizes_and_at_once_when_it_does() -> None:
    rig = waiting_rig({"medium": Resources(cpus=8, memory_mb=32_000), "large": LARGE})
    assert rig.executor.acts() == []
    assert BEING_ASKED in rig.daemon.last_plan.summary
    rig.read("flavours aws").finish()
    rig.run()
    rig.executor.only("cloud aws").finish()
    (intent,) = [intent for (intent,) in rig.cloud.script.calls("launch")]
    assert {"medium": 8, "large": 16}[intent.offer.flavour] * intent.count == 32


def test_where_the_cloud_cannot_tell_n_jobs_per_vm_decides() -> None:
    rig = waiting_rig(UNREACHABLE)
    rig.read("flavours aws").finish()
    rig.run()
    rig.executor.only("cloud aws").finish()
    (intent,) = [intent for (intent,) in rig.cloud.script.calls("launch")]
    assert intent.count == 8


def test_other_flavours_are_asked_for_after_a_reload() -> None:
    rig = waiting_rig({"medium": FOUR})
    rig.pass_time(60.0)
    settings = some_settings(pools=(replace(UNSIZED, flavours=("huge",)),))
    take_over(rig.daemon, settings, rig.batch, {"aws": rig.cloud})
    rig.run()
    rig.answer()
    assert rig.cloud.script.calls("flavours") == [(("medium", "large"),), (("huge",),)]


def test_a_cloud_that_tells_of_none_keeps_nobody_waiting() -> None:
    rig = waiting_rig({})
    rig.read("flavours aws").finish()
    rig.run()
    assert len(rig.executor.acts("cloud aws")) == 1
